//! The server's side of HTTP/2, frame by frame.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use load::{Amount, Plan};
use measure::{LoadSummary, Protocol};

use super::{plan, run, serve};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const REFUSED_STREAM: u32 = 7;
pub const NO_ERROR: u32 = 0;

/// `:status: 200`, indexed (RFC 7541 section 6.1).
const STATUS_200: u8 = 0x88;

/// The server's side of an HTTP/2 connection.
pub struct Peer {
    pub stream: TcpStream,
    /// Requests without an answer, the oldest first.
    pub open: Vec<u32>,
    /// Whether the client has acknowledged the latest settings.
    pub acknowledged: bool,
    /// Answers so far, over all connections.
    pub answered: Arc<AtomicU64>,
}

pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Peer {
    pub fn new(mut stream: TcpStream, answered: Arc<AtomicU64>) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()])?;
        Ok(Peer { stream, open: Vec::new(), acknowledged: false, answered })
    }

    pub fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload)?;
        let frame = Frame { kind, flags, stream: u32::from_be_bytes(id), payload };
        match frame.kind {
            HEADERS => self.open.push(frame.stream),
            SETTINGS if frame.flags == ACK => self.acknowledged = true,
            SETTINGS => self.write(SETTINGS, ACK, 0, &[])?,
            _ => {}
        }
        Ok(frame)
    }

    /// Reads up to the next request. Gives `None` if there is none for a moment.
    pub fn next_request(&mut self) -> io::Result<Option<u32>> {
        loop {
            // A pause between frames, not within one: frames are written whole.
            self.stream.set_read_timeout(Some(Duration::from_millis(50)))?;
            match self.stream.peek(&mut [0]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            self.stream.set_read_timeout(None)?;
            let frame = self.read()?;
            if frame.kind == HEADERS {
                return Ok(Some(frame.stream));
            }
        }
    }

    /// Reads until so many requests have no answer, or no more come for a moment.
    pub fn gather(&mut self, count: usize) -> io::Result<()> {
        while self.open.len() < count {
            if self.next_request()?.is_none() && !self.open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    pub fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame)
    }

    pub fn settings(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        self.acknowledged = false;
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        self.write(SETTINGS, 0, 0, &payload)
    }

    /// Answers the oldest request with 200 and no body.
    pub fn answer(&mut self) -> io::Result<()> {
        let stream = self.open.remove(0);
        self.answered.fetch_add(1, Ordering::SeqCst);
        self.write(HEADERS, END_STREAM | END_HEADERS, stream, &[STATUS_200])
    }

    /// Sends the head of an answer to the oldest request: 200, a content-length, perhaps the end. Gives the stream.
    pub fn head(&mut self, length: &str, flags: u8) -> io::Result<u32> {
        let stream = self.open.remove(0);
        // A literal without indexing, whose name is entry 28 of the static table (RFC 7541 section 6.2.2).
        let field = [&[0x0f, 28 - 15, length.len() as u8], length.as_bytes()].concat();
        self.write(HEADERS, END_HEADERS | flags, stream, &[&[STATUS_200], &field[..]].concat())?;
        Ok(stream)
    }

    /// Refuses the newest request.
    pub fn refuse(&mut self) -> io::Result<()> {
        let stream = self.open.pop().unwrap();
        self.write(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())
    }

    pub fn goaway(&mut self, last: u32) -> io::Result<()> {
        self.write(GOAWAY, 0, 0, &[last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat())
    }
}

/// A server that handles each connection with `handle` and gives nothing on their ends.
pub struct Scripted {
    port: u16,
    pub answered: Arc<AtomicU64>,
}

impl Scripted {
    pub fn new(handle: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Scripted {
        let answered = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&answered);
        let (port, _) = serve(move |stream| {
            // A connection ends when its client goes.
            let _ = Peer::new(stream, Arc::clone(&count)).and_then(|mut peer| handle(&mut peer));
        });
        Scripted { port, answered }
    }

    pub fn plan(&self, streams: u32, requests: u64) -> Plan {
        let plan = plan(Protocol::H2c, self.port, Amount::Requests(requests));
        Plan { streams, timeout: Duration::from_secs(10), ..plan }
    }

    /// Runs a plan in which everything succeeds, once.
    pub fn run(&self, streams: u32, requests: u64) -> LoadSummary {
        let summary = run(&self.plan(streams, requests)).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (requests, 0), "{:?}", summary.errors);
        assert_eq!(self.answered.load(Ordering::SeqCst), requests, "each request was answered once");
        summary
    }
}
