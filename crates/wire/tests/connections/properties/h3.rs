//! The same properties for HTTP/3, whose input is cut over streams.

use super::{chance, check_order, sizes, take};
use crate::support::{Seen, record, request};
use wire::Error;
use wire::h3::{Connection, Options, Prepared};

/// The streams that an input can write to: three requests, the peer's unidirectional ones, and one not allowed to it.
const STREAMS: [u64; 8] = [0, 4, 8, 3, 7, 11, 15, 1];

/// What the transport does to a stream.
enum Step<'a> {
    Bytes(u64, &'a [u8], bool),
    Reset(u64),
}

/// HTTP/3: options, a seed for the cuts, and pieces: the stream and how it goes on, the number of bytes, the bytes.
pub fn h3(mut input: &[u8]) {
    let (choice, seed) = (take(&mut input), take(&mut input));
    let mut steps = Vec::new();
    let mut ended = [false; STREAMS.len()];
    while !input.is_empty() {
        let (head, len) = (take(&mut input), usize::from(take(&mut input)));
        let bytes = input.split_off(..len.min(input.len())).unwrap_or_default();
        let at = usize::from(head & 7);
        if std::mem::replace(&mut ended[at], head & 0x18 != 0) {
            // Nothing comes on a stream after its end.
            ended[at] = true;
            continue;
        }
        if head & 0x10 != 0 {
            steps.push(Step::Reset(STREAMS[at]));
        } else {
            steps.push(Step::Bytes(STREAMS[at], bytes, head & 8 != 0));
        }
    }
    let options = Options { fields: choice & 1 != 0 };
    let whole = run(options, &steps, |len| vec![len]);
    let mut random = chance(seed);
    assert_eq!(run(options, &steps, |len| sizes(&mut random, len)), whole);
    assert_eq!(run(options, &steps, |len| vec![1; len]), whole);
}

/// The events and the result of some steps, bytes being cut as `cut` says.
fn run(
    options: Options,
    steps: &[Step<'_>],
    mut cut: impl FnMut(usize) -> Vec<usize>,
) -> (Vec<Seen>, Result<(), Error>) {
    let mut connection = Connection::new(options);
    for (token, method) in (0..).zip(["GET", "HEAD", "POST"]) {
        connection.start(u64::from(token) * 4, token, &Prepared::from(&request(method, "/", b"")));
    }
    let mut seen = Vec::new();
    let mut sink = |event: wire::Event<'_>| record(&mut seen, event);
    let result = steps.iter().try_for_each(|step| match *step {
        Step::Reset(stream) => connection.reset(stream, 0x10b + stream, &mut sink),
        Step::Bytes(stream, bytes, fin) => {
            let mut rest = bytes;
            for size in cut(bytes.len()) {
                let piece = rest.split_off(..size).unwrap_or_default();
                connection.receive(stream, piece, false, &mut sink)?;
            }
            connection.receive(stream, rest, fin, &mut sink)
        }
    });
    connection.finish(&mut sink);
    check_order(&seen, 3);
    assert_eq!(connection.in_flight(), 0);
    (seen, result)
}
