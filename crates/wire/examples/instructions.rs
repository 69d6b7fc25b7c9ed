//! What a request costs in user space, without any transport. Count the instructions of two lengths and divide their
//! difference:
//!
//! ```text
//! cargo build --release -p wire --example instructions
//! valgrind --tool=callgrind target/release/examples/instructions h2 same 1000
//! valgrind --tool=callgrind target/release/examples/instructions h2 same 101000
//! ```
//!
//! The responses are those of nginx for a file of 100 bytes. `same` repeats one head, as a server does within a second;
//! in `varied`, no head is like the one before it.

use bytes::Bytes;
use wire::{Connection, Event, Request, h1, h2, h3};

/// Requests in flight.
const BATCH: u32 = 100;

/// How many responses differ from each other in `varied`.
const VARIANTS: usize = 16;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (protocol, heads, count) = (arguments.next(), arguments.next(), arguments.next());
    let varied = heads.as_deref() == Some("varied");
    let rounds = count.and_then(|count| count.parse().ok()).unwrap_or(100_000) / BATCH;
    let request = Request {
        method: "GET".into(),
        scheme: "https".into(),
        authority: "origin:8443".into(),
        path: "/bytes/100".into(),
        headers: vec![("user-agent".into(), "fairlane".into()), ("accept".into(), "*/*".into())],
        body: Bytes::new(),
    };
    let done = match protocol.as_deref() {
        Some("h1") => {
            let connection = h1::Connection::new(h1::Options { pipeline: BATCH as usize, ..Default::default() });
            race(connection, &request, rounds, &responses(varied, response_h1), |_, _| {})
        }
        Some("h2") => {
            let mut connection = h2::Connection::new(h2::Options::default());
            connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut |_| {}).expect("SETTINGS are valid");
            race(connection, &request, rounds, &responses(varied, response_h2), number_streams)
        }
        Some("h3") => race_h3(&request, rounds, &responses(varied, response_h3)),
        _ => panic!("expected h1, h2 or h3, then same or varied, then a number of requests"),
    };
    assert_eq!(done, rounds * BATCH);
}

/// Batch after batch over one byte stream; returns how many requests were done.
fn race<C: Connection>(
    mut connection: C,
    request: &Request,
    rounds: u32,
    responses: &[Vec<u8>],
    prepare: impl Fn(&mut [u8], u32),
) -> u32 {
    let prepared = C::Prepared::from(request);
    let mut input = responses.concat();
    let mut done = 0;
    for round in 0..rounds {
        for token in 0..BATCH {
            connection.start(token, &prepared);
        }
        connection.output().clear();
        prepare(&mut input, round * BATCH);
        let count = &mut |event: Event<'_>| done += u32::from(matches!(event, Event::Done { .. }));
        connection.receive(&input, count).expect("the responses are valid");
    }
    done
}

/// The same over the streams of HTTP/3.
fn race_h3(request: &Request, rounds: u32, responses: &[Vec<u8>]) -> u32 {
    let mut connection = h3::Connection::new(h3::Options::default());
    let prepared = h3::Prepared::from(request);
    let mut done = 0;
    for round in 0..rounds {
        for (token, response) in (0..).zip(responses) {
            let stream = u64::from(round * BATCH + token) * 4;
            connection.start(stream, token, &prepared);
            let count = &mut |event: Event<'_>| done += u32::from(matches!(event, Event::Done { .. }));
            connection.receive(stream, response, true, count).expect("the responses are valid");
        }
    }
    done
}

/// A batch of responses.
fn responses(varied: bool, make: impl Fn(&str) -> Vec<u8>) -> Vec<Vec<u8>> {
    let tag = |number: usize| format!("{:02x}-64", if varied { number % VARIANTS } else { 0 });
    (0..BATCH as usize).map(|number| make(&tag(number))).collect()
}

fn response_h1(tag: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 05:30:00 GMT\r\nContent-Type: text/html\r\n\
         Content-Length: 100\r\nLast-Modified: Sat, 21 Nov 2026 05:20:00 GMT\r\nConnection: keep-alive\r\n\
         ETag: \"6a1b2c3d{tag}\"\r\nAccept-Ranges: bytes\r\n\r\n"
    );
    [head.as_bytes(), &[b'x'; 100]].concat()
}

/// What nginx sends besides `:status` and the tag: literals with names of the static table, in Huffman code.
const DATE: &[u8] = b"\x96\xdc\x34\xfd\x28\x20\xa9\xa4\xfd\xd4\x10\x04\xe2\x80\x6e\xe3\x6d\x5c\x13\xea\x62\xd1\xbf";
const SERVER: &[u8] = b"\x89\xaa\x63\x55\xe5\x80\xae\x21\x2e\x1f";
const HTML: &[u8] = b"\x87\x49\x7c\xa5\x89\xd3\x4d\x1f";

fn response_h2(tag: &str) -> Vec<u8> {
    let tag = format!("\"6a1b2c3d{tag}\"");
    let tag = [&[tag.len() as u8], tag.as_bytes()].concat();
    // nginx adds each field to the dynamic table, every time.
    let block = [
        b"\x88\x76",
        SERVER,
        b"\x61",
        DATE,
        b"\x5f",
        HTML,
        b"\x5c\x03100\x6c",
        DATE,
        b"\x62",
        &tag,
        b"\x52\x84\x8f\xd2\x4a\x8f",
    ]
    .concat();
    let mut bytes = vec![0, 0, block.len() as u8, 1, 4, 0, 0, 0, 0];
    bytes.extend(block);
    bytes.extend([0, 0, 100, 0, 1, 0, 0, 0, 0]);
    bytes.extend([b'x'; 100]);
    bytes
}

/// Writes the stream identifiers of the next batch into its responses.
fn number_streams(responses: &mut [u8], first: u32) {
    let len = responses.len() / BATCH as usize;
    for (number, response) in (first..).zip(responses.chunks_mut(len)) {
        let stream = (number * 2 + 1).to_be_bytes();
        response[5..9].copy_from_slice(&stream);
        response[len - 104..len - 100].copy_from_slice(&stream);
    }
}

fn response_h3(tag: &str) -> Vec<u8> {
    let tag = format!("\"6a1b2c3d{tag}\"");
    let tag = [&[tag.len() as u8], tag.as_bytes()].concat();
    let section =
        [b"\0\0\xd9\x5f\x4d", SERVER, b"\x56", DATE, b"\xf4\x54\x03100\x5a", DATE, b"\x57", &tag, b"\xe0"].concat();
    let mut bytes = vec![1, 0x40, section.len() as u8];
    bytes.extend(section);
    bytes.extend([0, 0x40, 100]);
    bytes.extend([b'x'; 100]);
    bytes
}
