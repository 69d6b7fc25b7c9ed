use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use measure::QuicCounts;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ReadError,
    StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use rustls_pki_types::CertificateDer;
use wire::{Request, h3, trace};

use super::journal::Journal;
use super::report::{Tls, What};
use super::{Line, certificate, parameters};
use crate::TransportPlan;
use crate::channel::Broken;
use crate::channel::quic::lost;
use crate::tally::micros;
use crate::tls::{Agreement, TlsSetup};

/// HTTP/3 over QUIC.
pub(super) struct QuicLine {
    socket: UdpSocket,
    tls: TlsSetup,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    http: h3::Connection,
    sent: trace::h3::Trace,
    received: trace::h3::Trace,
    is_connected: bool,
    is_over: bool,
    /// The request's stream, and what flow control holds back of it.
    unsent: Option<(StreamId, Bytes)>,
    datagram: Vec<u8>,
    /// The code that the connection will be closed with.
    farewell: VarInt,
}

/// QUIC's version 1 (RFC 9000) is the one that quinn-proto begins with, and it never changes to another.
const VERSION: u32 = 1;

/// H3_NO_ERROR and H3_REQUEST_CANCELLED, RFC 9114 section 8.1.
const NO_ERROR: VarInt = VarInt::from_u32(0x100);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(0x10c);

impl QuicLine {
    pub(super) fn connect(
        address: SocketAddr,
        setup: &TlsSetup,
        plan: &TransportPlan,
        deadline: Instant,
        journal: &mut Journal<'_>,
    ) -> Result<Self, Broken> {
        let begun = Instant::now();
        let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(address)?;
        let mut config = ClientConfig::new(setup.quic());
        config.transport_config(Arc::new(transport(plan)));
        // No MTU discovery: a standard socket does not forbid the network to cut datagrams.
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let (handle, quic) = endpoint.connect(begun, config, address, &setup.name.to_str())?;
        let mut line = QuicLine {
            socket,
            tls: setup.clone(),
            endpoint,
            handle,
            quic,
            http: h3::Connection::new(h3::Options::default()),
            sent: trace::h3::Trace::default(),
            received: trace::h3::Trace::default(),
            is_connected: false,
            is_over: false,
            unsent: None,
            datagram: Vec::new(),
            farewell: NO_ERROR,
        };
        while !line.is_connected {
            line.step(deadline, journal)?;
        }
        let agreement = line.agreement();
        setup.check_alpn(agreement.as_ref().and_then(|agreed| agreed.alpn.as_deref()))?;
        journal.note(What::Quic {
            local: line.socket.local_addr()?,
            remote: line.socket.peer_addr()?,
            version: VERSION,
            parameters: line.parameters(),
            tls: line.describe(setup, agreement.as_ref()),
            took_us: micros(begun.elapsed()),
        });
        let control = line.http.control_stream();
        if let Some(stream) = line.quic.streams().open(Dir::Uni) {
            line.send(stream, control.into(), false, journal);
        }
        Ok(line)
    }

    fn agreement(&self) -> Option<Agreement> {
        let data = self.quic.crypto_session().handshake_data()?;
        data.downcast().ok().map(|agreement| *agreement)
    }

    fn describe(&self, setup: &TlsSetup, agreement: Option<&Agreement>) -> Tls {
        let chain = self.quic.crypto_session().peer_identity();
        let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
        Tls {
            facts: setup.quic_facts(agreement),
            alpn_offered: setup.offered(),
            resumed: agreement.is_some_and(|agreed| agreed.resumed),
            certificates: certificate::read(&chain.unwrap_or_default()),
        }
    }

    /// The server's transport parameters, which quinn-proto gives in their encoded form alone.
    fn parameters(&self) -> Vec<super::Parameter> {
        let mut encoded = Vec::new();
        if let Ok(Some(parameters)) = self.quic.crypto_session().transport_parameters() {
            parameters.write(&mut encoded);
        }
        parameters::read(&encoded)
    }

    /// Sends what QUIC has to send, waits for a datagram or for QUIC's next timer, and takes what comes of it.
    fn step(&mut self, deadline: Instant, journal: &mut Journal<'_>) -> Result<(), Broken> {
        self.transmit(Instant::now())?;
        let now = Instant::now();
        if now >= deadline {
            return Err(Broken::TimedOut);
        }
        let until = self.quic.poll_timeout().map_or(deadline, |timer| timer.min(deadline));
        // The socket takes no timeout of zero.
        let timeout = until.saturating_duration_since(now).max(Duration::from_micros(1));
        self.socket.set_read_timeout(Some(timeout))?;
        let mut datagram = BytesMut::zeroed(usize::from(u16::MAX));
        match self.socket.recv(&mut datagram) {
            Ok(count) => {
                datagram.truncate(count);
                self.take(datagram)?;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // An ICMP error on an established connection may be forged or pass.
            Err(error) if self.is_connected && error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error.into()),
        }
        let now = Instant::now();
        if self.quic.poll_timeout().is_some_and(|timer| timer <= now) {
            self.quic.handle_timeout(now);
        }
        self.process(now, journal)
    }

    fn take(&mut self, datagram: BytesMut) -> Result<(), Broken> {
        let remote = self.socket.peer_addr()?;
        let mut answer = Vec::new();
        let event = self.endpoint.handle(Instant::now(), remote, None, None, datagram, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
        Ok(())
    }

    fn transmit(&mut self, now: Instant) -> io::Result<()> {
        loop {
            self.datagram.clear();
            let Some(transmit) = self.quic.poll_transmit(now, 1, &mut self.datagram) else { return Ok(()) };
            match self.socket.send(&self.datagram[..transmit.size]) {
                // An error of an earlier datagram; nobody listens if no answer has ever come.
                Err(error) if !self.is_connected => return Err(error),
                // As good as lost, and QUIC repairs losses.
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn process(&mut self, now: Instant, journal: &mut Journal<'_>) -> Result<(), Broken> {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => {
                    self.is_over = true;
                    self.http.finish(&mut |event| journal.event(now, event));
                    return Err(lost(reason, &self.tls));
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream) = self.quic.streams().accept(dir) {
                        self.read(stream, now, journal)?;
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, now, journal)?,
                Event::Stream(StreamEvent::Writable { id }) => {
                    if let Some((stream, bytes)) = self.unsent.take_if(|(stream, _)| *stream == id) {
                        self.send(stream, bytes, true, journal);
                    }
                }
                // The server wants no more of the request; its response may still come.
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.unsent = None;
                    let code = u64::from(error_code);
                    self.received.stop(id.into(), code, &mut |item| journal.received(now, item));
                    if self.quic.send_stream(id).reset(error_code).is_ok() {
                        self.sent.reset(id.into(), code, &mut |item| journal.sent(item));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, stream: StreamId, at: Instant, journal: &mut Journal<'_>) -> Result<(), Broken> {
        let QuicLine { quic, http, received, .. } = self;
        let id = u64::from(stream);
        let mut receiver = quic.recv_stream(stream);
        let Ok(mut chunks) = receiver.read(true) else { return Ok(()) };
        let result = loop {
            let next = chunks.next(usize::MAX);
            let mut report = |item| journal.received(at, item);
            let (bytes, fin) = match &next {
                Ok(Some(chunk)) => (&chunk.bytes[..], false),
                Ok(None) => (&[][..], true),
                Err(ReadError::Blocked) => break Ok(()),
                Err(ReadError::Reset(code)) => {
                    received.reset(id, (*code).into(), &mut report);
                    break http.reset(id, (*code).into(), &mut |event| journal.event(at, event));
                }
            };
            received.feed(id, bytes, fin, &mut report);
            let result = http.receive(id, bytes, fin, &mut |event| journal.event(at, event));
            if fin || result.is_err() {
                break result;
            }
        };
        // New credit goes out with the next transmission.
        let _ = chunks.finalize();
        if let Err(wire::Error::Http3 { code, .. }) = result {
            self.farewell = VarInt::from_u64(code).unwrap_or(self.farewell);
        }
        Ok(result?)
    }

    /// Gives bytes to a stream, as many as flow control allows, and keeps the rest; then ends the stream if `last`.
    fn send(&mut self, stream: StreamId, bytes: Bytes, last: bool, journal: &mut Journal<'_>) {
        let id = u64::from(stream);
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.quic.send_stream(stream).write(&rest) {
                Ok(count) => self.sent.feed(id, &rest.split_to(count), false, &mut |item| journal.sent(item)),
                Err(WriteError::Blocked) => {
                    self.unsent = Some((stream, rest));
                    return;
                }
                // The server wants no more of it.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return,
            }
        }
        if last && self.quic.send_stream(stream).finish().is_ok() {
            self.sent.feed(id, &[], true, &mut |item| journal.sent(item));
        }
    }
}

impl Line for QuicLine {
    fn exchange(&mut self, request: &Request, deadline: Instant, journal: &mut Journal<'_>) -> Result<(), Broken> {
        let stream = loop {
            if self.http.is_draining() {
                return Err(Broken::Ended);
            }
            match self.quic.streams().open(Dir::Bi) {
                Some(stream) => break stream,
                // The server allows none yet.
                None => self.step(deadline, journal)?,
            }
        };
        let bytes = self.http.start(stream.into(), 0, &request.into());
        self.send(stream, bytes.concat().into(), true, journal);
        while journal.end().is_none() {
            let result = self.step(deadline, journal);
            if let Err(Broken::TimedOut) = result {
                self.farewell = REQUEST_CANCELLED;
            }
            result?;
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        !self.is_over && !self.http.is_draining()
    }

    fn close(&mut self, reason: &str, journal: &mut Journal<'_>) {
        let now = Instant::now();
        if !self.is_over {
            // The server's answer is not waited for: a lost farewell only costs it an idle timeout.
            self.quic.close(now, self.farewell, Bytes::new());
            let _ = self.transmit(now);
            self.is_over = true;
        }
        let path = self.quic.stats().path;
        let counts = QuicCounts {
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            congestion_events: path.congestion_events,
        };
        journal.note(What::Closed { reason: reason.to_owned(), quic: Some(counts) });
    }
}

fn transport(plan: &TransportPlan) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(plan.stream_window.into())
        .receive_window(plan.connection_window.into())
        .max_concurrent_bidi_streams(0u32.into());
    transport
}
