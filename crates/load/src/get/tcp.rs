use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::{AlertDescription, ClientConnection, HandshakeKind};
use wire::trace::{self, Item};
use wire::{Connection, Request};

use super::journal::Journal;
use super::report::{Tls, What};
use super::{Line, certificate};
use crate::channel::Broken;
use crate::channel::stream::send;
use crate::tally::micros;
use crate::tls::TlsSetup;

/// HTTP/1.1 or HTTP/2 over TCP, with or without TLS.
pub(super) struct TcpLine<H> {
    socket: TcpStream,
    tls: Option<ClientConnection>,
    http: H,
    onlookers: Box<dyn Onlookers>,
    /// Bytes for the socket.
    unsent: Vec<u8>,
    is_over: bool,
}

/// Who follows the two directions of a byte stream.
pub(super) trait Onlookers {
    /// A request with this method is about to be sent.
    fn begin(&mut self, method: &str);

    /// The client sends these bytes.
    fn sent(&mut self, bytes: &[u8], report: &mut dyn FnMut(Item));

    /// The client received these bytes.
    fn received(&mut self, bytes: &[u8], report: &mut dyn FnMut(Item));
}

/// In HTTP/1.1 nothing is remembered from one request to the next.
pub(super) struct H1Onlookers {
    sent: trace::h1::Trace,
    received: trace::h1::Trace,
}

impl H1Onlookers {
    pub(super) fn new(method: &str) -> Self {
        H1Onlookers { sent: trace::h1::Trace::request(), received: trace::h1::Trace::response(method) }
    }
}

impl Onlookers for H1Onlookers {
    fn begin(&mut self, method: &str) {
        *self = H1Onlookers::new(method);
    }

    fn sent(&mut self, bytes: &[u8], mut report: &mut dyn FnMut(Item)) {
        self.sent.feed(bytes, &mut report);
    }

    fn received(&mut self, bytes: &[u8], mut report: &mut dyn FnMut(Item)) {
        self.received.feed(bytes, &mut report);
    }
}

pub(super) struct H2Onlookers {
    sent: trace::h2::Trace,
    received: trace::h2::Trace,
}

impl H2Onlookers {
    pub(super) fn new() -> Self {
        H2Onlookers { sent: trace::h2::Trace::client(), received: trace::h2::Trace::server() }
    }
}

impl Onlookers for H2Onlookers {
    fn begin(&mut self, _method: &str) {}

    fn sent(&mut self, bytes: &[u8], mut report: &mut dyn FnMut(Item)) {
        self.sent.feed(bytes, &mut report);
    }

    fn received(&mut self, bytes: &[u8], mut report: &mut dyn FnMut(Item)) {
        self.received.feed(bytes, &mut report);
    }
}

/// Most bytes taken from the socket at once.
const READ: usize = 16 * 1024;

impl<H: Connection> TcpLine<H> {
    pub(super) fn connect(
        address: SocketAddr,
        tls: Option<&TlsSetup>,
        http: H,
        onlookers: Box<dyn Onlookers>,
        deadline: Instant,
        journal: &mut Journal<'_>,
    ) -> Result<Self, Broken> {
        let begun = Instant::now();
        let socket = match TcpStream::connect_timeout(&address, deadline.saturating_duration_since(begun)) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Broken::TimedOut),
            result => result?,
        };
        journal.note(What::Connected {
            local: socket.local_addr()?,
            remote: socket.peer_addr()?,
            took_us: micros(begun.elapsed()),
        });
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut line = TcpLine { socket, tls: None, http, onlookers, unsent: Vec::new(), is_over: false };
        if let Some(setup) = tls {
            line.secure(setup, deadline, journal)?;
        }
        Ok(line)
    }

    fn secure(&mut self, setup: &TlsSetup, deadline: Instant, journal: &mut Journal<'_>) -> Result<(), Broken> {
        let begun = Instant::now();
        let mut tls = ClientConnection::new(Arc::clone(&setup.config), setup.name.clone())?;
        // What is to be sent is bounded by the request.
        tls.set_buffer_limit(None);
        let tls = self.tls.insert(tls);
        while tls.is_handshaking() {
            tls.write_tls(&mut self.unsent)?;
            send(&mut self.socket, &mut self.unsent)?;
            wait(&self.socket, !self.unsent.is_empty(), deadline)?;
            let result = match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(Broken::Ended),
                Ok(_) => tls.process_new_packets(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            if let Err(error) = result {
                // The alert that tells the server why; whether it arrives is its concern.
                let _ = tls.write_tls(&mut self.unsent);
                let _ = send(&mut self.socket, &mut self.unsent);
                return Err(match error {
                    rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => setup.wrong_protocol(None),
                    error => error.into(),
                });
            }
        }
        setup.check_alpn(tls.alpn_protocol())?;
        journal.note(What::Secured { tls: describe(tls, setup), took_us: micros(begun.elapsed()) });
        Ok(())
    }

    /// Sends what HTTP has to say, as far as the socket takes it.
    fn flush(&mut self, journal: &mut Journal<'_>) -> Result<(), Broken> {
        let output = self.http.output();
        self.onlookers.sent(output, &mut |item| journal.sent(item));
        match &mut self.tls {
            Some(tls) => {
                tls.writer().write_all(output)?;
                output.clear();
                while tls.wants_write() {
                    tls.write_tls(&mut self.unsent)?;
                }
            }
            None => self.unsent.append(output),
        }
        send(&mut self.socket, &mut self.unsent)?;
        Ok(())
    }

    /// Takes what the socket has. Gives false when it has nothing.
    fn read(&mut self, buffer: &mut [u8], journal: &mut Journal<'_>) -> Result<bool, Broken> {
        let result = match &mut self.tls {
            None => self.socket.read(buffer),
            Some(tls) => tls.read_tls(&mut self.socket),
        };
        let count = match result {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let at = Instant::now();
        let mut is_over = count == 0;
        let TcpLine { http, onlookers, .. } = self;
        let mut take = |bytes: &[u8]| {
            onlookers.received(bytes, &mut |item| journal.received(at, item));
            http.receive(bytes, &mut |event| journal.event(at, event))
        };
        match &mut self.tls {
            None => take(&buffer[..count])?,
            Some(tls) => {
                let state = tls.process_new_packets()?;
                is_over |= state.peer_has_closed();
                let mut left = state.plaintext_bytes_to_read();
                while left > 0 {
                    let count = tls.reader().read(buffer)?;
                    take(&buffer[..count])?;
                    left -= count;
                }
            }
        }
        if is_over {
            self.is_over = true;
            self.http.finish(&mut |event| journal.event(at, event));
            return Err(Broken::Ended);
        }
        Ok(true)
    }
}

impl<H: Connection> Line for TcpLine<H> {
    fn exchange(&mut self, request: &Request, deadline: Instant, journal: &mut Journal<'_>) -> Result<(), Broken> {
        self.onlookers.begin(&request.method);
        let mut buffer = vec![0; READ];
        // What came since the last response, the end of the connection above all.
        while self.read(&mut buffer, journal)? {}
        if self.http.capacity() == 0 {
            return Err(Broken::Ended);
        }
        self.http.start(0, &request.into());
        self.flush(journal)?;
        while journal.end().is_none() {
            wait(&self.socket, !self.unsent.is_empty(), deadline)?;
            let result = self.read(&mut buffer, journal);
            // Answers, and after an error the reason why the client leaves.
            let flushed = self.flush(journal);
            result?;
            flushed?;
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        !self.is_over && !self.http.is_draining()
    }

    fn close(&mut self, reason: &str, journal: &mut Journal<'_>) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // Best effort: the server may be gone, and nobody waits for its answer.
        let _ = self.flush(journal);
        self.is_over = true;
        journal.note(What::Closed { reason: reason.to_owned(), quic: None });
    }
}

fn describe(tls: &ClientConnection, setup: &TlsSetup) -> Tls {
    Tls {
        facts: setup.facts(tls),
        alpn_offered: setup.offered(),
        resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
        certificates: certificate::read(tls.peer_certificates().unwrap_or_default()),
    }
}

/// Waits until the socket has something to read or, if there is something to write, takes more.
fn wait(socket: &TcpStream, to_write: bool, deadline: Instant) -> Result<(), Broken> {
    let interest = if to_write { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, so that it is never woken up before the deadline.
        let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(socket.as_fd(), interest)], timeout) {
            Ok(0) if left.is_zero() => return Err(Broken::TimedOut),
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}
