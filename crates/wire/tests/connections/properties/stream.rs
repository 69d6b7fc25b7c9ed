//! Properties of the connections over one byte stream: nothing panics, memory stays bounded, each request ends once,
//! and it does not matter where the bytes are cut.

use super::{chance, check_order, sizes, take};
use crate::support::{Outcome, Seen, feed, record, request};
use rand::RngExt;
use wire::{Connection, Token, h1, h2};

/// More output than any input of a few kilobytes may cause, besides four bytes for each of its own.
const OUTPUT: usize = 300_000;

/// HTTP/1.1: options, a seed for the cuts, and what the server sends.
pub fn h1(mut input: &[u8]) {
    let (choice, seed) = (take(&mut input), take(&mut input));
    let options = h1::Options { pipeline: 4, keep_alive: choice & 1 == 0, fields: choice & 2 != 0 };
    let requests = prepared::<h1::Connection>(&["GET", "GET", "HEAD", "POST"], b"body");
    let started = || {
        let mut connection = h1::Connection::new(options);
        let mut token = 0;
        while connection.capacity() > 0 {
            let at = usize::from(choice >> 2) + token as usize;
            connection.start(token, &requests[at % requests.len()]);
            token += 1;
        }
        (connection, token)
    };
    check(started, input, seed);
}

/// The chunked coding: a seed for the cuts, and a body.
pub fn chunked(mut input: &[u8]) {
    let seed = take(&mut input);
    let requests = prepared::<h1::Connection>(&["GET"], b"");
    let bytes = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", input].concat();
    let started = || {
        let mut connection = h1::Connection::new(h1::Options::default());
        connection.start(0, &requests[0]);
        (connection, 1)
    };
    check(started, &bytes, seed);
}

/// HTTP/2: options, a seed for the cuts, and what the server sends after an empty SETTINGS frame.
pub fn h2(mut input: &[u8]) {
    let (choice, seed) = (take(&mut input), take(&mut input));
    let options = h2::Options {
        fields: choice & 1 != 0,
        stream_window: if choice & 2 != 0 { 20 } else { 1 << 20 },
        header_table_size: if choice & 4 != 0 { 100 } else { 4096 },
        ..h2::Options::default()
    };
    let requests = prepared::<h2::Connection>(&["GET", "POST", "HEAD", "GET"], &[b'x'; 500]);
    let started = || {
        let mut connection = h2::Connection::new(options);
        for (token, request) in (0..).zip(&requests) {
            connection.start(token, request);
        }
        connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut |_| {}).unwrap();
        (connection, 4)
    };
    check(started, input, seed);
}

/// Requests by these methods, of which POST has a body.
fn prepared<C: Connection>(methods: &[&str], body: &[u8]) -> Vec<C::Prepared> {
    let request = |method: &&str| C::Prepared::from(&request(method, "/", if *method == "POST" { body } else { b"" }));
    methods.iter().map(request).collect()
}

/// Checks connections that `start` makes, with so many requests in flight.
fn check<C: Connection>(start: impl Fn() -> (C, Token), bytes: &[u8], seed: u8) {
    let mut random = chance(seed);
    let whole = end(start(), bytes, &[bytes.len()]);
    for sizes in [vec![1; bytes.len()], sizes(&mut random, bytes.len())] {
        assert_eq!(end(start(), bytes, &sizes), whole, "cut into {sizes:?}");
    }
    // The same while some output is sent.
    let (mut connection, requests) = start();
    let mut seen = Vec::new();
    let mut rest = bytes;
    for size in sizes(&mut random, bytes.len()) {
        let sent = random.random_range(0..=connection.output().len());
        connection.output().drain(..sent);
        let piece = rest.split_off(..size).unwrap();
        if connection.receive(piece, &mut |event| record(&mut seen, event)).is_err() {
            break;
        }
    }
    connection.finish(&mut |event| record(&mut seen, event));
    check_order(&seen, requests);
}

/// The outcome of some bytes and then the end of the transport.
fn end<C: Connection>((mut connection, requests): (C, Token), bytes: &[u8], sizes: &[usize]) -> Outcome {
    let (mut seen, output, result): (Vec<Seen>, _, _) = feed(&mut connection, bytes, sizes);
    connection.finish(&mut |event| record(&mut seen, event));
    check_order(&seen, requests);
    assert_eq!((connection.in_flight(), connection.capacity()), (0, 0));
    assert!(output.len() <= OUTPUT + bytes.len() * 4);
    (seen, output, result)
}
