//! Limits and ends that a server sets, by a server that sees every frame.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use load::{Amount, Model, Plan, Target};
use measure::{LoadSummary, Protocol};

use crate::servers::run;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const REFUSED_STREAM: u32 = 7;
const NO_ERROR: u32 = 0;

/// The server's side of an HTTP/2 connection.
struct Peer {
    stream: TcpStream,
    /// Requests without an answer, the oldest first.
    open: Vec<u32>,
    /// Whether the client has acknowledged the latest settings.
    acknowledged: bool,
    /// Answers so far, over all connections.
    answered: Arc<AtomicU64>,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Peer {
    fn new(mut stream: TcpStream, answered: Arc<AtomicU64>) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.read_exact(&mut [0; b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len()])?;
        Ok(Peer { stream, open: Vec::new(), acknowledged: false, answered })
    }

    fn read(&mut self) -> io::Result<Frame> {
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
    fn next_request(&mut self) -> io::Result<Option<u32>> {
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
    fn gather(&mut self, count: usize) -> io::Result<()> {
        while self.open.len() < count {
            if self.next_request()?.is_none() && !self.open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame)
    }

    fn settings(&mut self, settings: &[(u16, u32)]) -> io::Result<()> {
        self.acknowledged = false;
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        self.write(SETTINGS, 0, 0, &payload)
    }

    /// Answers the oldest request with 200 and no body.
    fn answer(&mut self) -> io::Result<()> {
        let stream = self.open.remove(0);
        self.answered.fetch_add(1, Ordering::SeqCst);
        const END_STREAM_AND_HEADERS: u8 = 5;
        const STATUS_200: u8 = 0x88;
        self.write(HEADERS, END_STREAM_AND_HEADERS, stream, &[STATUS_200])
    }

    /// Refuses the newest request.
    fn refuse(&mut self) -> io::Result<()> {
        let stream = self.open.pop().unwrap();
        self.write(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())
    }

    fn goaway(&mut self, last: u32) -> io::Result<()> {
        self.write(GOAWAY, 0, 0, &[last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat())
    }
}

/// A server that handles each connection with `handle` and gives nothing on their ends.
struct Scripted {
    port: u16,
    answered: Arc<AtomicU64>,
}

impl Scripted {
    fn new(handle: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let answered = Arc::new(AtomicU64::new(0));
        let (count, handle) = (Arc::clone(&answered), Arc::new(handle));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (count, handle) = (Arc::clone(&count), Arc::clone(&handle));
                // A connection ends when its client goes.
                thread::spawn(move || Peer::new(stream.unwrap(), count).and_then(|mut peer| handle(&mut peer)));
            }
        });
        Scripted { port, answered }
    }

    fn plan(&self, streams: u32, requests: u64) -> Plan {
        let target = Target::parse(&format!("http://127.0.0.1:{}/", self.port), None).unwrap();
        let plan = Plan::new(target, Protocol::H2c, Model::ClosedLoop, Amount::Requests(requests));
        Plan { streams, timeout: Duration::from_secs(10), ..plan }
    }

    /// Runs a plan in which everything succeeds, once.
    fn run(&self, streams: u32, requests: u64) -> LoadSummary {
        let summary = run(&self.plan(streams, requests)).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (requests, 0), "{:?}", summary.errors);
        assert_eq!(self.answered.load(Ordering::SeqCst), requests, "each request was answered once");
        summary
    }
}

#[test]
fn the_limit_of_concurrent_streams_is_reached_and_never_exceeded() {
    for limit in [1, 3] {
        let most = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&most);
        let server = Scripted::new(move |peer| {
            peer.settings(&[(MAX_CONCURRENT_STREAMS, limit)])?;
            loop {
                let request = peer.next_request()?;
                if peer.open.len() as u32 > limit {
                    assert!(!peer.acknowledged, "more than {limit} streams although the limit is known");
                    peer.refuse()?;
                } else {
                    seen.fetch_max(peer.open.len() as u64, Ordering::SeqCst);
                }
                if request.is_none() && !peer.open.is_empty() {
                    peer.answer()?;
                }
            }
        });
        server.run(20, 30);
        assert_eq!(most.load(Ordering::SeqCst), u64::from(limit), "the limit was used");
    }
}

#[test]
fn without_a_limit_the_plan_sets_it() {
    let server = Scripted::new(|peer| {
        peer.settings(&[])?;
        loop {
            peer.next_request()?;
            if peer.open.len() == 150 {
                while !peer.open.is_empty() {
                    peer.answer()?;
                }
            }
        }
    });
    assert_eq!(server.run(150, 450).connections.max_streams, 150);
}

#[test]
fn a_limit_that_is_lowered_holds_from_then_on() {
    let server = Scripted::new(|peer| {
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 6)])?;
        let mut limit = 6;
        while peer.answered.load(Ordering::SeqCst) < 60 {
            let request = peer.next_request()?;
            if peer.answered.load(Ordering::SeqCst) == 20 && limit == 6 {
                limit = 2;
                peer.settings(&[(MAX_CONCURRENT_STREAMS, limit)])?;
                while !peer.acknowledged {
                    peer.read()?;
                }
                continue;
            }
            assert!(request.is_none() || !peer.acknowledged || peer.open.len() as u32 <= limit);
            if peer.open.len() as u32 > limit && request.is_some() {
                peer.refuse()?;
            } else if request.is_none() && !peer.open.is_empty() {
                peer.answer()?;
            }
        }
        peer.next_request().map(drop)
    });
    server.run(6, 60);
}

#[test]
fn refused_streams_are_sent_again_and_counted() {
    let refused = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refused);
    let server = Scripted::new(move |peer| {
        peer.settings(&[])?;
        for number in 1_u64.. {
            while peer.next_request()?.is_none() {}
            if number % 3 == 0 {
                count.fetch_add(1, Ordering::SeqCst);
                peer.refuse()?;
            } else {
                peer.answer()?;
            }
        }
        Ok(())
    });
    let summary = server.run(4, 50);
    assert_eq!(summary.requests.retried, refused.load(Ordering::SeqCst));
    assert_eq!((summary.requests.retried, summary.connections.opened), (24, 1));
}

#[test]
fn a_graceful_end_in_two_steps_loses_nothing() {
    let lost = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&lost);
    let server = Scripted::new(move |peer| {
        peer.settings(&[])?;
        for _ in 0..3 {
            peer.gather(4)?;
            peer.answer()?;
        }
        peer.gather(4)?;
        // First that it is about to end, then what it will still answer.
        peer.goaway(u32::MAX >> 1)?;
        while peer.next_request()?.is_some() {}
        let kept = peer.open.len().min(2);
        count.fetch_add((peer.open.len() - kept) as u64, Ordering::SeqCst);
        peer.goaway(peer.open[kept - 1])?;
        peer.open.truncate(kept);
        while !peer.open.is_empty() {
            peer.answer()?;
        }
        assert!(peer.next_request().is_err(), "the client leaves and sends nothing more");
        Ok(())
    });
    let summary = server.run(4, 50);
    assert_eq!(summary.requests.retried, lost.load(Ordering::SeqCst));
    assert!(summary.requests.retried > 0);
    assert!(summary.connections.opened >= 10, "at most five requests each");
    assert_eq!(summary.connections.used, summary.connections.opened);
}

#[test]
fn a_connection_that_ends_with_an_error_costs_what_was_in_flight() {
    let server = Scripted::new(|peer| {
        peer.settings(&[])?;
        for _ in 0..5 {
            while peer.next_request()?.is_none() {}
            peer.answer()?;
        }
        while peer.open.len() < 2 {
            peer.next_request()?;
        }
        // INTERNAL_ERROR, with a last stream below which everything may have been processed.
        let last = peer.open[1];
        peer.write(GOAWAY, 0, 0, &[last.to_be_bytes(), 2_u32.to_be_bytes()].concat())
    });
    let summary = run(&server.plan(2, 21)).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.done, counts.succeeded, counts.errored), (21, 15, 6), "{:?}", summary.errors);
    assert_eq!(summary.connections.opened, 3);
}

#[test]
fn a_reset_connection_costs_the_request_in_flight_and_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            for answer in
                ["HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"]
            {
                // The last byte stays: closing with something unread resets the connection.
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).is_err() {
                        break;
                    }
                    head.push(byte[0]);
                }
                if answer.contains(": 2") {
                    let _ = stream.read_exact(&mut [0]);
                }
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    let target = Target::parse(&format!("http://127.0.0.1:{port}/"), None).unwrap();
    let summary = run(&Plan::new(target, Protocol::H1c, Model::ClosedLoop, Amount::Requests(10))).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.done, counts.succeeded, counts.errored), (10, 5, 5), "{:?}", summary.errors);
    assert_eq!((summary.connections.opened, summary.connections.reused), (5, 5));
    assert!(summary.errors.keys().all(|reason| reason.contains("reset")), "{:?}", summary.errors);
}

#[test]
fn the_first_settings_are_those_of_the_plan() {
    let seen = Arc::new(Mutex::new(None));
    let found = Arc::clone(&seen);
    let server = Scripted::new(move |peer| {
        peer.settings(&[])?;
        let settings = peer.read()?;
        let update = peer.read()?;
        assert_eq!((settings.kind, settings.flags, update.kind, update.stream), (SETTINGS, 0, WINDOW_UPDATE, 0));
        *found.lock().unwrap() = Some((settings.payload, update.payload));
        loop {
            if peer.next_request()?.is_some() {
                peer.answer()?;
            }
        }
    });
    let mut plan = server.plan(1, 1);
    plan.transport.stream_window = 1_000;
    plan.transport.connection_window = 70_000;
    plan.transport.max_frame_size = 20_000;
    plan.transport.header_table_size = 100;
    let summary = run(&plan).unwrap();
    assert_eq!(summary.requests.succeeded, 1, "{:?}", summary.errors);
    let (settings, update) = seen.lock().unwrap().take().unwrap();
    let setting = |name: u16| {
        let mut settings = settings.chunks(6).filter(|setting| setting[..2] == name.to_be_bytes());
        u32::from_be_bytes(settings.next().unwrap()[2..].try_into().unwrap())
    };
    assert_eq!((setting(1), setting(2), setting(4), setting(5)), (100, 0, 1_000, 20_000));
    assert_eq!(u32::from_be_bytes(update.try_into().unwrap()), 70_000 - 65_535);
}
