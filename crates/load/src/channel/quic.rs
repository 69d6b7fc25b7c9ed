use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use measure::QuicCounts;
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token as EventToken};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError, StreamEvent,
    StreamId, Transmit, TransportErrorCode, VarInt, WriteError,
};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use wire::{FailureKind, Token, h3};

pub(crate) use super::quic_setup::QuicSettings;
use super::socket::Address;
use super::{Broken, Channel, Description, Sink, Volume};
use crate::tls::{Agreement, TlsSetup};

/// HTTP/3 over a QUIC connection with a UDP socket of its own.
pub(crate) struct QuicChannel {
    socket: UdpSocket,
    udp: UdpSocketState,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: Connection,
    http: h3::Connection,
    settings: QuicSettings,
    ready: bool,
    /// Requests that went out before the handshake was over, and the bytes of each.
    early: Vec<(Token, StreamId, [Bytes; 2])>,
    /// What became of them, once it is known.
    early_accepted: Option<bool>,
    /// A stream opened in advance: the only way to learn that the peer allows one.
    spare: Option<StreamId>,
    /// The stream of each token in flight.
    streams: Vec<Option<StreamId>>,
    /// Requests that flow control holds back.
    unsent: Vec<(StreamId, [Bytes; 2])>,
    /// A datagram that the socket did not take, its bytes in `datagram`.
    blocked: Option<Transmit>,
    datagram: Vec<u8>,
    volume: Volume,
    /// The code that the connection will be closed with.
    farewell: VarInt,
}

/// H3_NO_ERROR, H3_REQUEST_CANCELLED and H3_MESSAGE_ERROR, RFC 9114 section 8.1.
const NO_ERROR: VarInt = VarInt::from_u32(0x100);
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(0x10c);
const MESSAGE_ERROR: VarInt = VarInt::from_u32(0x10e);

/// The receive buffers of a worker: each takes one datagram, or several of one flow that the kernel has joined (GRO).
pub(crate) struct QuicScratch {
    buffers: Vec<u8>,
    /// What an endpoint might answer to a datagram that fits no connection; never sent by a client.
    answer: Vec<u8>,
}

/// When a datagram that the socket did not take is offered again.
const RETRY: Duration = Duration::from_millis(1);

/// Buffers per system call, and bytes per buffer.
const BUFFERS: usize = 8;
const BUFFER: usize = 64 * 1024;

impl Default for QuicScratch {
    fn default() -> Self {
        QuicScratch { buffers: vec![0; BUFFERS * BUFFER], answer: Vec::new() }
    }
}

impl QuicChannel {
    /// Reads one batch of datagrams into the connection. Gives whether there may be more.
    fn read_batch(&mut self, scratch: &mut QuicScratch, sink: &mut impl Sink) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut slices: [IoSliceMut<'_>; BUFFERS] = {
            let mut chunks = scratch.buffers.chunks_exact_mut(BUFFER);
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
        };
        let count = match self.udp.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // An ICMP error on an established connection may be forged or pass; loss detection decides.
            Err(error) if self.ready && is_icmp(error.kind()) => return Ok(true),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        sink.arrived(now);
        for (meta, slice) in metas.iter().zip(&slices).take(count) {
            for datagram in slice[..meta.len].chunks(meta.stride.max(1)) {
                let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
                let bytes = BytesMut::from(datagram);
                let event = self.endpoint.handle(now, meta.addr, None, ecn, bytes, &mut scratch.answer);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.quic.handle_event(event);
                }
            }
        }
        Ok(count == BUFFERS)
    }

    /// Passes on what QUIC has to say after datagrams or a timer.
    fn process(&mut self, sink: &mut impl Sink) -> Result<(), Broken> {
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connected(sink)?,
                Event::ConnectionLost { reason } => return Err(lost(reason, &self.settings.tls)),
                Event::Stream(event) => self.stream_event(event, sink)?,
                Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        Ok(())
    }

    fn connected(&mut self, sink: &mut impl Sink) -> Result<(), Broken> {
        self.settings.tls.check_alpn(self.agreement().and_then(|agreed| agreed.alpn).as_deref())?;
        self.ready = true;
        let early = std::mem::take(&mut self.early);
        let accepted = self.quic.accepted_0rtt();
        self.early_accepted = (!early.is_empty()).then_some(accepted);
        if self.quic.has_0rtt() && !accepted {
            self.repeat(early, sink);
        }
        let control = self.http.control_stream();
        if let Some(stream) = self.quic.streams().open(Dir::Uni) {
            self.send(stream, [control.into(), Bytes::new()], false);
        }
        Ok(())
    }

    /// Sends requests again that were rejected. QUIC has forgotten all streams, spare ones too, and begins anew with
    /// their numbers, so that to HTTP nothing has happened.
    fn repeat(&mut self, early: Vec<(Token, StreamId, [Bytes; 2])>, sink: &mut impl Sink) {
        self.spare = None;
        self.unsent.clear();
        for (token, stream, bytes) in early {
            // The server may allow fewer streams than it did when the session was made.
            if self.quic.streams().open(Dir::Bi) == Some(stream) {
                self.send(stream, bytes, true);
            } else {
                self.streams[token as usize] = None;
                self.http.cancel(stream.into());
                sink.event(wire::Event::Failed { token, kind: FailureKind::Refused });
            }
        }
    }

    fn agreement(&self) -> Option<Agreement> {
        let data = self.quic.crypto_session().handshake_data()?;
        data.downcast().ok().map(|agreement| *agreement)
    }

    fn stream_event(&mut self, event: StreamEvent, sink: &mut impl Sink) -> Result<(), Broken> {
        match event {
            StreamEvent::Opened { dir } => {
                while let Some(stream) = self.quic.streams().accept(dir) {
                    self.read(stream, sink)?;
                }
            }
            StreamEvent::Readable { id } => self.read(id, sink)?,
            StreamEvent::Writable { id } => {
                if let Some(index) = self.unsent.iter().position(|(stream, _)| *stream == id) {
                    let (_, bytes) = self.unsent.swap_remove(index);
                    self.send(id, bytes, true);
                }
            }
            // The server wants no more of the request; its response may still come.
            StreamEvent::Stopped { id, error_code } => {
                self.unsent.retain(|(stream, _)| *stream != id);
                let _ = self.quic.send_stream(id).reset(error_code);
            }
            StreamEvent::Finished { .. } | StreamEvent::Available { .. } => {}
        }
        Ok(())
    }

    fn read(&mut self, stream: StreamId, sink: &mut impl Sink) -> Result<(), Broken> {
        let QuicChannel { quic, http, volume, .. } = self;
        let mut receiver = quic.recv_stream(stream);
        let Ok(mut chunks) = receiver.read(true) else { return Ok(()) };
        let mut malformed = false;
        let mut events = |event: wire::Event<'_>| {
            malformed |= matches!(event, wire::Event::Failed { kind: FailureKind::Malformed, .. });
            sink.event(event);
        };
        let result = loop {
            let (result, over) = match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    volume.received += chunk.bytes.len() as u64;
                    (http.receive(stream.into(), &chunk.bytes, false, &mut events), false)
                }
                Ok(None) => (http.receive(stream.into(), &[], true, &mut events), true),
                Err(ReadError::Blocked) => (Ok(()), true),
                Err(ReadError::Reset(code)) => (http.reset(stream.into(), code.into(), &mut events), true),
            };
            if over || result.is_err() {
                break result;
            }
        };
        // The flush that follows sends the new credit.
        let _ = chunks.finalize();
        if malformed {
            self.abort(stream, MESSAGE_ERROR);
        }
        if let Err(wire::Error::Http3 { code, .. }) = result {
            self.farewell = VarInt::from_u64(code).unwrap_or(self.farewell);
        }
        Ok(result?)
    }

    /// Gives bytes to a stream, as many as flow control allows, and keeps the rest; then ends the stream if `last`.
    fn send(&mut self, stream: StreamId, mut rest: [Bytes; 2], last: bool) {
        while rest.iter().any(|bytes| !bytes.is_empty()) {
            match self.quic.send_stream(stream).write_chunks(&mut rest) {
                Ok(written) => self.volume.sent += written.bytes as u64,
                Err(WriteError::Blocked) => {
                    self.unsent.push((stream, rest));
                    return;
                }
                // The peer wants no more of it.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => return,
            }
        }
        if last {
            // Fails only on a stream that the peer has stopped, where there is nothing to end.
            let _ = self.quic.send_stream(stream).finish();
        }
    }

    /// Ends a stream in both directions.
    fn abort(&mut self, stream: StreamId, code: VarInt) {
        self.unsent.retain(|(waiting, _)| *waiting != stream);
        // Both fail only on a stream that is over already.
        let _ = self.quic.send_stream(stream).reset(code);
        let _ = self.quic.recv_stream(stream).stop(code);
    }

    /// Sends the datagram in `self.datagram`. Gives false when the socket takes no more.
    fn transmit(&mut self, transmit: Transmit) -> Result<bool, Broken> {
        let outgoing = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &self.datagram[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: None,
        };
        match self.udp.try_send(UdpSockRef::from(&self.socket), &outgoing) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked = Some(transmit);
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !self.ready => Err(error.into()),
            // As good as lost: too big for the path (an MTU probe), or a passing error of the kernel's.
            Err(_) => Ok(true),
        }
    }
}

/// Whether an error of the socket tells of an ICMP message, and so goes away by being told.
fn is_icmp(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(kind, ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// A close without an error is the end of the connection, not a failure of it.
pub(crate) fn lost(reason: ConnectionError, tls: &TlsSetup) -> Broken {
    match reason {
        ConnectionError::ApplicationClosed(close) if close.error_code == NO_ERROR => Broken::Ended,
        // The alert no_application_protocol, RFC 9001 section 8.1.
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::crypto(120) => {
            tls.wrong_protocol(None)
        }
        reason => Broken::Quic(reason),
    }
}

impl Channel for QuicChannel {
    type Settings = QuicSettings;
    type Prepared = h3::Prepared;
    type Scratch = QuicScratch;

    /// More first packets in one burst are more than the receive buffers of servers hold, and each that is lost costs a
    /// second.
    const AT_ONCE: usize = 100;

    fn open(
        settings: &Self::Settings,
        address: &Address,
        registry: &Registry,
        token: EventToken,
        now: Instant,
    ) -> Result<Self, Broken> {
        let Address::Ip(address) = *address else { return Err(io::Error::from(io::ErrorKind::Unsupported).into()) };
        let mut socket = settings.sockets.datagrams(address)?;
        // Not for writing: the kernel tells of each datagram that has left a UDP socket, which doubled the wake-ups.
        registry.register(&mut socket, token, Interest::READABLE)?;
        let udp = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let mut endpoint = Endpoint::new(Arc::clone(&settings.endpoint), None, !udp.may_fragment(), None);
        let (handle, quic) = endpoint.connect(now, settings.client(now)?, address, &settings.tls.name.to_str())?;
        Ok(QuicChannel {
            socket,
            udp,
            endpoint,
            handle,
            quic,
            http: h3::Connection::new(h3::Options::default()),
            settings: settings.clone(),
            ready: false,
            early: Vec::new(),
            early_accepted: None,
            spare: None,
            streams: vec![None; settings.max_streams],
            unsent: Vec::new(),
            blocked: None,
            datagram: Vec::new(),
            volume: Volume::default(),
            farewell: NO_ERROR,
        })
    }

    fn cold(settings: &Self::Settings) -> Self::Settings {
        settings.cold()
    }

    fn receive(&mut self, scratch: &mut Self::Scratch, _closed: bool, sink: &mut impl Sink) -> Result<(), Broken> {
        while self.read_batch(scratch, sink)? {}
        self.process(sink)
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn takes_early_data(&self) -> bool {
        !self.ready && self.quic.has_0rtt()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.early_accepted
    }

    fn has_room(&mut self) -> bool {
        if self.http.in_flight() >= self.settings.max_streams || self.http.is_draining() {
            return false;
        }
        if self.spare.is_none() {
            self.spare = self.quic.streams().open(Dir::Bi);
        }
        self.spare.is_some()
    }

    fn start(&mut self, token: Token, request: &Self::Prepared) -> u32 {
        let Some(stream) = self.spare.take() else { return 0 };
        let bytes = self.http.start(stream.into(), token, request);
        self.streams[token as usize] = Some(stream);
        if !self.ready {
            self.early.push((token, stream, bytes.clone()));
        }
        self.send(stream, bytes, true);
        request.head_bytes()
    }

    fn cancel(&mut self, token: Token) {
        if let Some(stream) = self.streams[token as usize].take() {
            self.http.cancel(stream.into());
            self.abort(stream, REQUEST_CANCELLED);
        }
    }

    fn is_draining(&self) -> bool {
        self.http.is_draining()
    }

    fn flush(&mut self, _scratch: &mut Self::Scratch, now: Instant) -> Result<(), Broken> {
        if let Some(transmit) = self.blocked.take()
            && !self.transmit(transmit)?
        {
            return Ok(());
        }
        loop {
            self.datagram.clear();
            let segments = self.udp.max_gso_segments();
            let Some(transmit) = self.quic.poll_transmit(now, segments, &mut self.datagram) else { return Ok(()) };
            if !self.transmit(transmit)? {
                return Ok(());
            }
        }
    }

    fn timer(&mut self) -> Option<Instant> {
        let retry = self.blocked.as_ref().map(|_| Instant::now() + RETRY);
        self.quic.poll_timeout().into_iter().chain(retry).min()
    }

    fn on_timer(&mut self, now: Instant, sink: &mut impl Sink) -> Result<(), Broken> {
        self.quic.handle_timeout(now);
        self.process(sink)
    }

    fn close(&mut self, scratch: &mut Self::Scratch, now: Instant) {
        // The peer's answer is not waited for: a lost farewell only costs it an idle timeout.
        self.quic.close(now, self.farewell, Bytes::new());
        let _ = self.flush(scratch, now);
    }

    fn is_resumed(&self) -> bool {
        self.agreement().is_some_and(|agreed| agreed.resumed)
    }

    fn describe(&self) -> Description {
        Description {
            tls: Some(self.settings.tls.quic_facts(self.agreement().as_ref())),
            congestion_control: self.settings.congestion_control.name().to_owned(),
        }
    }

    fn volume(&self) -> Volume {
        self.volume
    }

    fn quic_counts(&self) -> Option<QuicCounts> {
        let path = self.quic.stats().path;
        Some(QuicCounts {
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            congestion_events: path.congestion_events,
        })
    }
}
