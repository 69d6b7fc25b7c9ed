use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::time::Instant;

use measure::QuicCounts;
use mio::{Registry, Token as EventToken};
use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};
use rustls::AlertDescription;
use wire::Token;

use super::record::Records;
use super::socket::{Address, Sockets, Stream};
use super::{Broken, Channel, Description, Sink, Volume};
use crate::tls::TlsSetup;

/// HTTP/1.1 or HTTP/2 over TCP, with or without TLS.
pub(crate) struct StreamChannel<H> {
    socket: Stream,
    records: Option<Records>,
    http: H,
    connected: bool,
    /// Encrypted bytes that the socket has not taken.
    unsent: Vec<u8>,
    volume: Volume,
    tls: Option<TlsSetup>,
}

/// What all stream channels of a run share.
pub(crate) struct StreamSettings<H> {
    /// `None` for cleartext.
    pub tls: Option<TlsSetup>,
    /// Makes the HTTP side of a new connection.
    pub http: Arc<dyn Fn() -> H + Send + Sync>,
    pub sockets: Sockets,
}

impl<H> Clone for StreamSettings<H> {
    fn clone(&self) -> Self {
        StreamSettings { tls: self.tls.clone(), http: Arc::clone(&self.http), sockets: self.sockets.clone() }
    }
}

/// Most bytes taken from the socket at once.
const READ: usize = 64 * 1024;

/// The read buffer of a worker: room for a read, and before it for what TLS could not decrypt yet (a record, or a
/// handshake message of at most 64 KiB).
pub(crate) struct StreamScratch(Box<[u8]>);

impl Default for StreamScratch {
    fn default() -> Self {
        StreamScratch(vec![0; 2 * READ + 1024].into())
    }
}

impl<H: wire::Connection> StreamChannel<H> {
    /// Whether the TCP handshake is over, now or before.
    fn check_connected(&mut self) -> Result<bool, Broken> {
        if !self.connected {
            self.connected = self.socket.is_connected()?;
        }
        Ok(self.connected)
    }

    /// Takes bytes of the socket, the incomplete record included.
    fn take(&mut self, buffer: &mut [u8], sink: &mut impl Sink) -> Result<(), Broken> {
        let StreamChannel { records, http, unsent, volume, tls, .. } = self;
        let mut plaintext = |bytes: &[u8]| {
            volume.received += bytes.len() as u64;
            http.receive(bytes, &mut |event| sink.event(event)).map_err(Broken::Http)
        };
        match records {
            None => plaintext(buffer),
            Some(records) => {
                let was_handshaking = records.is_handshaking();
                let result = records.receive(buffer, unsent, &mut plaintext);
                if let Some(tls) = tls.as_ref().filter(|_| was_handshaking) {
                    result.map_err(|broken| no_protocol(broken, tls))?;
                    if records.is_handshaking() {
                        return Ok(());
                    }
                    volume.sent += records.repeated() as u64;
                    return tls.check_alpn(records.alpn());
                }
                result
            }
        }
    }
}

/// A server may answer an ALPN offer that it cannot meet with an alert (RFC 7301 section 3.2).
fn no_protocol(broken: Broken, tls: &TlsSetup) -> Broken {
    match broken {
        Broken::Tls(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => tls.wrong_protocol(None),
        other => other,
    }
}

/// Sends from the front of `bytes` what the socket takes. Gives the number of bytes.
pub(crate) fn send(socket: &mut impl Write, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.drain(..sent);
    Ok(sent)
}

impl<H: wire::Connection + 'static> Channel for StreamChannel<H> {
    type Settings = StreamSettings<H>;
    type Prepared = H::Prepared;
    type Scratch = StreamScratch;

    /// The kernel at the other end has room for many, and repeats what is lost.
    const AT_ONCE: usize = usize::MAX;

    fn open(
        settings: &Self::Settings,
        address: &Address,
        registry: &Registry,
        token: EventToken,
        _now: Instant,
    ) -> Result<Self, Broken> {
        let mut socket = settings.sockets.stream(address)?;
        socket.register(registry, token)?;
        let mut channel = StreamChannel {
            socket,
            records: settings.tls.as_ref().map(Records::new).transpose()?,
            http: (settings.http)(),
            connected: false,
            unsent: Vec::new(),
            volume: Volume::default(),
            tls: settings.tls.clone(),
        };
        // With TLS this puts the ClientHello into `unsent`.
        if let Some(records) = &mut channel.records {
            records.receive(&mut [], &mut channel.unsent, &mut |_| Ok(()))?;
        }
        Ok(channel)
    }

    fn cold(settings: &Self::Settings) -> Self::Settings {
        StreamSettings { tls: settings.tls.as_ref().map(TlsSetup::cold), ..settings.clone() }
    }

    fn receive(&mut self, scratch: &mut Self::Scratch, closed: bool, sink: &mut impl Sink) -> Result<(), Broken> {
        if !self.check_connected()? {
            return Ok(());
        }
        let buffer = &mut scratch.0;
        loop {
            let start = self.records.as_ref().map_or(0, |records| records.restore(buffer));
            let count = match self.socket.read(&mut buffer[start..start + READ]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            sink.arrived(Instant::now());
            if count > 0 {
                self.take(&mut buffer[..start + count], sink)?;
            }
            if count == 0 || self.records.as_ref().is_some_and(Records::is_closed_by_peer) {
                self.http.finish(&mut |event| sink.event(event));
                return Err(Broken::Ended);
            }
            // A short read has emptied the socket, and what comes later makes a new event.
            if count < READ && !closed {
                return Ok(());
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.connected && !self.records.as_ref().is_some_and(Records::is_handshaking)
    }

    fn takes_early_data(&self) -> bool {
        self.records.as_ref().is_some_and(Records::takes_early_data)
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.records.as_ref().and_then(Records::early_data_accepted)
    }

    fn has_room(&mut self) -> bool {
        self.http.capacity() > 0
    }

    fn start(&mut self, token: Token, request: &Self::Prepared) -> u32 {
        self.http.start(token, request)
    }

    fn cancel(&mut self, token: Token) {
        self.http.cancel(token);
    }

    fn is_draining(&self) -> bool {
        self.http.is_draining()
    }

    fn flush(&mut self, _scratch: &mut Self::Scratch, _now: Instant) -> Result<(), Broken> {
        if !self.connected {
            return Ok(());
        }
        // The output is made piece by piece: there may be more when it has been sent.
        loop {
            let Some(records) = &mut self.records else {
                let output = self.http.output();
                self.volume.sent += send(&mut self.socket, output)? as u64;
                if !output.is_empty() || self.http.output().is_empty() {
                    return Ok(());
                }
                continue;
            };
            if records.takes_early_data() {
                self.volume.sent += records.seal_early(self.http.output(), &mut self.unsent)? as u64;
            }
            send(&mut self.socket, &mut self.unsent)?;
            if !self.unsent.is_empty() || records.is_handshaking() || self.http.output().is_empty() {
                return Ok(());
            }
            let output = self.http.output();
            self.volume.sent += output.len() as u64;
            records.seal(output, &mut self.unsent)?;
            output.clear();
        }
    }

    fn timer(&mut self) -> Option<Instant> {
        None
    }

    fn on_timer(&mut self, _now: Instant, _sink: &mut impl Sink) -> Result<(), Broken> {
        Ok(())
    }

    fn close(&mut self, scratch: &mut Self::Scratch, now: Instant) {
        // Best effort: the peer may be gone, and nobody waits for its answer.
        if self.flush(scratch, now).is_ok()
            && let Some(records) = &mut self.records
        {
            records.close(&mut self.unsent);
            let _ = send(&mut self.socket, &mut self.unsent);
        }
    }

    fn is_resumed(&self) -> bool {
        self.records.as_ref().is_some_and(Records::is_resumed)
    }

    fn describe(&self) -> Description {
        let congestion_control = getsockopt(&self.socket, TcpCongestion);
        Description {
            tls: self.records.as_ref().zip(self.tls.as_ref()).map(|(records, tls)| tls.facts(records.state())),
            congestion_control: congestion_control
                .map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned()),
        }
    }

    fn volume(&self) -> Volume {
        self.volume
    }

    fn quic_counts(&self) -> Option<QuicCounts> {
        None
    }
}
