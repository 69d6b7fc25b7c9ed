//! HTTP/2: bodies of requests under the peer's flow control, and large heads.

use crate::h2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, STATUS_200, WINDOW_UPDATE, frame, number,
    settings, settings_ack,
};
use crate::support::{Seen, feed, request, response};
use wire::h2::{Connection, Options, Prepared};
use wire::{Connection as _, FailureKind};

/// A frame of the output: type, flags, stream and payload.
type Frame = (u8, u8, u32, Vec<u8>);

fn frames(output: &mut Vec<u8>) -> Vec<Frame> {
    let bytes = std::mem::take(output);
    let mut rest = bytes.as_slice();
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, stream @ ..] = rest {
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let (stream, payload) = stream.split_first_chunk().unwrap();
        frames.push((*kind, *flags, u32::from_be_bytes(*stream), payload[..len].to_vec()));
        rest = &payload[len..];
    }
    frames
}

/// A connection after the exchange of SETTINGS.
fn connected(peer_settings: &[(u16, u32)]) -> Connection {
    let mut connection = Connection::new(Options::default());
    connection.receive(&settings(peer_settings), &mut |_| {}).unwrap();
    assert!(connection.output().ends_with(&settings_ack()));
    connection.output().clear();
    connection
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Starts an upload and returns its DATA frames.
fn upload(connection: &mut Connection, token: u32, len: usize) -> Vec<Frame> {
    connection.start(token, &Prepared::from(&request("POST", "/", &body(len))));
    let mut frames = frames(connection.output());
    let head = frames.remove(0);
    assert_eq!((head.0, head.1), (HEADERS, END_HEADERS));
    frames
}

fn receive(connection: &mut Connection, bytes: &[u8]) -> Vec<Frame> {
    let (_, mut output, result) = feed(connection, bytes, &[bytes.len()]);
    assert_eq!(result, Ok(()));
    frames(&mut output)
}

fn lengths(frames: &[Frame]) -> Vec<(u32, usize, bool)> {
    frames.iter().map(|(_, flags, stream, payload)| (*stream, payload.len(), *flags == END_STREAM)).collect()
}

#[test]
fn a_small_body_follows_its_head() {
    let mut connection = connected(&[]);
    assert_eq!(upload(&mut connection, 0, 3), [(DATA, END_STREAM, 1, body(3))]);
    connection.start(1, &Prepared::from(&request("GET", "/", b"")));
    let head = &frames(connection.output())[0];
    assert_eq!((head.0, head.1, head.2), (HEADERS, END_HEADERS | END_STREAM, 3));
}

#[test]
fn a_large_body_waits_for_both_windows() {
    let mut connection = connected(&[]);
    let mut sent = upload(&mut connection, 0, 100_000);
    assert_eq!(lengths(&sent), [(1, 16_384, false), (1, 16_384, false), (1, 16_384, false), (1, 16_383, false)]);
    assert_eq!(receive(&mut connection, &number(WINDOW_UPDATE, 0, 50_000)), []);
    let more = receive(&mut connection, &number(WINDOW_UPDATE, 1, 1000));
    assert_eq!(lengths(&more), [(1, 1000, false)]);
    sent.extend(more);
    let more = receive(&mut connection, &number(WINDOW_UPDATE, 1, 100_000));
    assert_eq!(lengths(&more), [(1, 16_384, false), (1, 16_384, false), (1, 697, true)]);
    sent.extend(more);
    let sent: Vec<u8> = sent.into_iter().flat_map(|(_, _, _, payload)| payload).collect();
    assert_eq!(sent, body(100_000));
}

/// Bodies of any size share the memory of their request, and the output stays small however large the windows are.
#[test]
fn large_bodies_are_sent_piece_by_piece() {
    let mut connection = connected(&[(4, (1 << 31) - 1), (5, (1 << 24) - 1)]);
    connection.receive(&number(WINDOW_UPDATE, 0, 1 << 30), &mut |_| {}).unwrap();
    let prepared = Prepared::from(&request("POST", "/", &body(10 << 20)));
    for token in 0..30 {
        connection.start(token, &prepared);
    }
    let mut sent = vec![0; 60];
    loop {
        assert!(connection.output().len() < 200_000);
        let frames = frames(connection.output());
        if frames.is_empty() {
            break;
        }
        for (kind, _, stream, payload) in frames {
            sent[stream as usize] += if kind == DATA { payload.len() } else { 0 };
        }
    }
    assert!((0..60).all(|stream| sent[stream] == if stream % 2 == 1 { 10 << 20 } else { 0 }));
}

#[test]
fn bodies_share_the_window_of_the_connection() {
    let mut connection = connected(&[(4, 1 << 20), (5, 100_000)]);
    assert_eq!(lengths(&upload(&mut connection, 0, 60_000)), [(1, 60_000, true)]);
    assert_eq!(lengths(&upload(&mut connection, 1, 10_000)), [(3, 5535, false)]);
    assert_eq!(upload(&mut connection, 2, 10_000), []);
    let more = receive(&mut connection, &number(WINDOW_UPDATE, 0, 10_000));
    assert_eq!(lengths(&more), [(3, 4465, true), (5, 5535, false)]);
}

#[test]
fn a_change_of_the_initial_window_moves_the_windows_of_streams() {
    let mut connection = connected(&[(4, 1000)]);
    assert_eq!(lengths(&upload(&mut connection, 0, 3000)), [(1, 1000, false)]);
    // The window is now -400.
    assert_eq!(lengths(&receive(&mut connection, &settings(&[(4, 600)]))), [(0, 0, true)]);
    assert_eq!(receive(&mut connection, &number(WINDOW_UPDATE, 1, 400)), []);
    assert_eq!(lengths(&receive(&mut connection, &number(WINDOW_UPDATE, 1, 600))), [(1, 600, false)]);
    let rest = receive(&mut connection, &settings(&[(4, 1600)]));
    assert_eq!(lengths(&rest), [(0, 0, true), (1, 1000, false)]);
    assert_eq!(lengths(&upload(&mut connection, 1, 3000)), [(3, 1600, false)]);
}

#[test]
fn a_window_above_its_limit_ends_the_stream() {
    for (increment, code) in [(0, 1), ((1 << 31) - 1, 3)] {
        let mut connection = connected(&[(4, (1 << 31) - 1)]);
        upload(&mut connection, 0, 100_000);
        let (seen, output, result) = feed(&mut connection, &number(WINDOW_UPDATE, 1, increment), &[1000]);
        assert_eq!(seen, [Seen::Failed(0, FailureKind::Malformed)]);
        assert_eq!((output, result), (number(RST_STREAM, 1, code), Ok(())));
    }
}

#[test]
fn a_response_that_ends_early_ends_the_upload() {
    let mut connection = connected(&[]);
    upload(&mut connection, 0, 100_000);
    let (seen, output, _) = feed(&mut connection, &frame(HEADERS, END_HEADERS | END_STREAM, 1, STATUS_200), &[1000]);
    assert_eq!((seen, output), (response(0, 200, ""), number(RST_STREAM, 1, 0)));
    assert_eq!(receive(&mut connection, &number(WINDOW_UPDATE, 0, 100_000)), []);
}

#[test]
fn a_failed_request_sends_no_more() {
    for (end, kind) in [
        (number(RST_STREAM, 1, 7), FailureKind::Refused),
        (frame(7, 0, 0, &[0; 8]), FailureKind::Refused),
        (frame(DATA, 0, 1, b"x"), FailureKind::Malformed),
    ] {
        let mut connection = connected(&[]);
        upload(&mut connection, 0, 100_000);
        let (seen, _, _) = feed(&mut connection, &end, &[1000]);
        assert!(seen.contains(&Seen::Failed(0, kind)));
        let more = [number(WINDOW_UPDATE, 0, 100_000), number(WINDOW_UPDATE, 1, 100_000)].concat();
        assert_eq!(receive(&mut connection, &more), []);
    }
}

#[test]
fn a_large_head_is_continued() {
    let mut large = request("POST", "/", b"body");
    large.headers.push(("x-large".into(), "\u{1}".repeat(40_000)));
    let mut connection = connected(&[]);
    connection.start(0, &Prepared::from(&large));
    let sent = frames(connection.output());
    let shape: Vec<_> =
        sent.iter().map(|(kind, flags, stream, payload)| (*kind, *flags, *stream, payload.len())).collect();
    let last = shape[2].3;
    assert_eq!(
        shape,
        [
            (HEADERS, 0, 1, 16_384),
            (CONTINUATION, 0, 1, 16_384),
            (CONTINUATION, END_HEADERS, 1, last),
            (DATA, END_STREAM, 1, 4)
        ]
    );
    let block: Vec<u8> = sent[..3].iter().flat_map(|(_, _, _, payload)| payload.clone()).collect();
    let decoded = loona_hpack::Decoder::new().decode(&block).unwrap();
    let length = decoded.iter().find(|(name, _)| name == b"x-large").map(|(_, value)| value.len());
    assert_eq!(length, Some(40_000));
}
