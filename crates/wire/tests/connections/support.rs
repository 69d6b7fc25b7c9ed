//! What the tests of all protocols share: a record of events, and bytes fed in any pieces.

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wire::{Connection, Error, Event, FailureKind, Request, Token};

/// An event, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Field(Token, String, String),
    Head(Token, u16),
    /// Pieces that follow each other are one.
    Data(Token, Vec<u8>),
    Done(Token),
    Failed(Token, FailureKind),
    Draining,
}

/// Appends an event to a record.
pub fn record(seen: &mut Vec<Seen>, event: Event<'_>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let event = match event {
        Event::Field { token, name, value } => Seen::Field(token, text(name), text(value)),
        Event::Head { token, status, .. } => Seen::Head(token, status),
        Event::Data { token, bytes } => {
            assert!(!bytes.is_empty());
            if let Some(Seen::Data(last, data)) = seen.last_mut()
                && *last == token
            {
                data.extend_from_slice(bytes);
                return;
            }
            Seen::Data(token, bytes.to_vec())
        }
        Event::Done { token } => Seen::Done(token),
        Event::Failed { token, kind } => Seen::Failed(token, kind),
        Event::Draining => Seen::Draining,
    };
    seen.push(event);
}

/// The usual three events of a response.
pub fn response(token: Token, status: u16, body: &str) -> Vec<Seen> {
    let mut seen = vec![Seen::Head(token, status)];
    if !body.is_empty() {
        seen.push(Seen::Data(token, body.as_bytes().to_vec()));
    }
    seen.push(Seen::Done(token));
    seen
}

pub fn request(method: &str, path: &str, body: &[u8]) -> Request {
    Request {
        method: method.into(),
        scheme: "http".into(),
        authority: "origin".into(),
        path: path.into(),
        headers: vec![("user-agent".into(), "fairlane".into())],
        body: Bytes::copy_from_slice(body),
    }
}

/// Ways to cut `len` bytes: not at all, into single bytes, and at random.
pub fn cuts(len: usize) -> Vec<Vec<usize>> {
    if len < 2 {
        return vec![vec![1]];
    }
    let mut random = StdRng::seed_from_u64(len as u64);
    let mut ways = vec![vec![len], vec![1; len]];
    for _ in 0..30 {
        let longest = random.random_range(2..=len);
        let mut way = Vec::new();
        while way.iter().sum::<usize>() < len {
            way.push(random.random_range(1..=longest));
        }
        ways.push(way);
    }
    ways
}

/// What became of a connection: its events, its output and the result.
pub type Outcome = (Vec<Seen>, Vec<u8>, Result<(), Error>);

/// Feeds `bytes` in pieces of the given sizes, until the first error.
pub fn feed(connection: &mut impl Connection, bytes: &[u8], sizes: &[usize]) -> Outcome {
    let mut seen = Vec::new();
    let mut rest = bytes;
    let mut result = Ok(());
    for &size in sizes {
        let (piece, after) = rest.split_at(size.min(rest.len()));
        rest = after;
        result = connection.receive(piece, &mut |event| record(&mut seen, event));
        if result.is_err() {
            break;
        }
    }
    (seen, std::mem::take(connection.output()), result)
}

/// Feeds `bytes` in many ways to connections that `make` makes, which must all end the same, and returns that.
pub fn feed_every_way<C: Connection>(make: impl Fn() -> C, bytes: &[u8]) -> Outcome {
    let mut outcomes = cuts(bytes.len()).into_iter().map(|sizes| feed(&mut make(), bytes, &sizes));
    let first = outcomes.next().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome, first);
    }
    first
}

/// Feeds damaged copies of a valid byte stream: nothing may panic, and each of the `started` requests must end once.
pub fn feed_damaged<C: Connection>(make: impl Fn() -> C, bytes: &[u8], started: Token) {
    let mut random = StdRng::seed_from_u64(0x5eed);
    for round in 0..3000 {
        let mut connection = make();
        let mut damaged = bytes.to_vec();
        if round % 10 == 0 {
            damaged = (0..random.random_range(0..200)).map(|_| random.random()).collect();
        }
        for _ in 0..random.random_range(0..8) {
            let at = random.random_range(0..=damaged.len());
            match random.random_range(0..3) {
                0 if at < damaged.len() => damaged[at] = random.random(),
                1 => damaged.truncate(at),
                _ => damaged.insert(at, random.random()),
            }
        }
        let sizes = vec![random.random_range(1..=damaged.len().max(1)); damaged.len()];
        let (mut seen, _, _) = feed(&mut connection, &damaged, &sizes);
        connection.finish(&mut |event| record(&mut seen, event));
        assert_eq!((connection.in_flight(), connection.capacity()), (0, 0));
        for token in 0..started {
            let ends = |event: &&Seen| matches!(event, Seen::Done(t) | Seen::Failed(t, _) if *t == token);
            assert_eq!(seen.iter().filter(ends).count(), 1, "request {token} in round {round}: {seen:?}");
        }
    }
}
