//! HTTP/2: what the peer sends.

use crate::support::{Outcome, Seen, feed, feed_damaged, feed_every_way, record, request, response};
use wire::h2::{Connection, Options, Prepared};
use wire::{Connection as _, Error, FailureKind};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;

/// The field section `:status: 200`.
pub const STATUS_200: &[u8] = &[0x88];

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub fn number(kind: u8, stream: u32, value: u32) -> Vec<u8> {
    frame(kind, 0, stream, &value.to_be_bytes())
}

pub fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let payload = settings.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(SETTINGS, 0, 0, &payload.collect::<Vec<u8>>())
}

pub fn settings_ack() -> Vec<u8> {
    frame(SETTINGS, ACK, 0, &[])
}

fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

fn headers(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, stream, STATUS_200)
}

/// A connection with so many GETs in flight, their tokens counted from 0, on streams 1, 3, 5 and so on.
fn started(options: Options, requests: u32) -> Connection {
    let mut connection = Connection::new(options);
    for token in 0..requests {
        connection.start(token, &Prepared::from(&request("GET", "/", b"")));
    }
    connection.output().clear();
    connection
}

/// What happens when the peer sends these frames after its SETTINGS, while three GETs are in flight.
fn outcome(frames: &[Vec<u8>]) -> Outcome {
    let bytes = [settings(&[]), frames.concat()].concat();
    let (seen, output, result) = feed_every_way(|| started(Options::default(), 3), &bytes);
    let output = output.strip_prefix(settings_ack().as_slice()).map(<[u8]>::to_vec).unwrap_or(output);
    (seen, output, result)
}

/// The same, if the connection stays good and answers nothing.
fn good(frames: &[Vec<u8>]) -> Vec<Seen> {
    let (seen, output, result) = outcome(frames);
    assert_eq!((output, result), (Vec::new(), Ok(())));
    seen
}

#[test]
fn the_output_begins_with_the_preface() {
    let options = Options { stream_window: 1 << 20, connection_window: 1 << 24, ..Options::default() };
    let expected = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        settings(&[(1, 4096), (2, 0), (4, 1 << 20), (5, 16_384)]),
        number(WINDOW_UPDATE, 0, (1 << 24) - 65_535),
    ];
    assert_eq!(*Connection::new(options).output(), expected.concat());
}

#[test]
fn responses_may_be_interleaved() {
    let seen = good(&[
        headers(3, 0),
        headers(1, 0),
        frame(DATA, 0, 1, b"one"),
        frame(DATA, 0, 3, b"three"),
        frame(DATA, END_STREAM, 1, b"!"),
        headers(5, END_STREAM),
        frame(DATA, END_STREAM, 3, b""),
    ]);
    let data = |token, text: &str| Seen::Data(token, text.as_bytes().to_vec());
    let mut expected = vec![Seen::Head(1, 200), Seen::Head(0, 200), data(0, "one"), data(1, "three"), data(0, "!")];
    expected.extend([Seen::Done(0), Seen::Head(2, 200), Seen::Done(2), Seen::Done(1)]);
    assert_eq!(seen, expected);
}

#[test]
fn padding_and_priority_are_stripped() {
    let padded = [&[2, 0, 0, 0, 0, 9][..], STATUS_200, &[0, 0]].concat();
    let seen = good(&[
        frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 1, &padded),
        frame(DATA, PADDED, 1, b"\x03hello\0\0\0"),
        frame(DATA, PADDED | END_STREAM, 1, b"\x00"),
    ]);
    assert_eq!(seen, response(0, 200, "hello"));
}

#[test]
fn a_head_may_be_continued() {
    let block = [STATUS_200, &[0, 1, b'a', 1, b'b']].concat();
    let seen = good(&[
        frame(HEADERS, END_STREAM, 1, &block[..2]),
        frame(CONTINUATION, 0, 1, b""),
        frame(CONTINUATION, 0, 1, &block[2..3]),
        frame(CONTINUATION, END_HEADERS, 1, &block[3..]),
    ]);
    assert_eq!(seen, response(0, 200, ""));
}

#[test]
fn interim_responses_and_trailers_are_skipped() {
    let trailers = [0, 1, b'a', 1, b'b'];
    let seen = good(&[
        frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"),
        headers(1, 0),
        frame(DATA, 0, 1, b"hello"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers),
    ]);
    assert_eq!(seen, response(0, 200, "hello"));
}

#[test]
fn head_bytes_are_counted_in_both_forms() {
    let mut connection = started(Options::default(), 1);
    let block = [STATUS_200, b"\x0f\x0d\x03100"].concat();
    let mut bytes = Vec::new();
    connection
        .receive(&[settings(&[]), frame(HEADERS, END_HEADERS, 1, &block)].concat(), &mut |event| {
            if let wire::Event::Head { header_bytes, decoded_bytes, .. } = event {
                bytes.push((header_bytes, decoded_bytes));
            }
        })
        .unwrap();
    assert_eq!(bytes, [(6 + 1, ":status200content-length100".len() as u32)]);
}

#[test]
fn fields_are_shown_on_request() {
    let options = Options { fields: true, ..Options::default() };
    let bytes = [
        settings(&[]),
        frame(HEADERS, END_HEADERS, 1, b"\x08\x03103\x00\x05early\x011"),
        frame(HEADERS, END_HEADERS, 1, b"\x88\x40\x01a\x01b"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xbe"),
    ];
    let (seen, _, _) = feed_every_way(|| started(options, 1), &bytes.concat());
    let field = Seen::Field(0, "a".into(), "b".into());
    assert_eq!(seen, [field.clone(), Seen::Head(0, 200), field, Seen::Done(0)]);
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let (_, output, _) = outcome(&[
        frame(PING, 0, 0, b"12345678"),
        frame(PING, ACK, 0, b"12345678"),
        settings_ack(),
        settings(&[(0x99, 1)]),
    ]);
    assert_eq!(output, [frame(PING, ACK, 0, b"12345678"), settings_ack()].concat());
}

#[test]
fn unknown_frames_are_ignored() {
    assert_eq!(good(&[frame(0xbe, 0xff, 0, b"grease"), frame(2, 0, 1, &[0; 5]), frame(0x10, 0, 9, b"")]), []);
}

#[test]
fn capacity_follows_the_peer() {
    let mut connection = started(Options { max_streams: 200, ..Options::default() }, 10);
    assert_eq!(connection.capacity(), 90, "100 until the peer tells");
    for (limit, capacity) in [(None, 190), (Some(50), 40), (Some(5), 0), (Some(1000), 190)] {
        let setting: Vec<_> = limit.map(|limit| (3, limit)).into_iter().collect();
        connection.receive(&settings(&setting), &mut |_| {}).unwrap();
        assert_eq!(connection.capacity(), capacity);
    }
    connection.receive(&headers(1, END_STREAM), &mut |_| {}).unwrap();
    assert_eq!((connection.capacity(), connection.in_flight()), (191, 9));
}

#[test]
fn windows_are_refilled_at_half() {
    let options = Options { stream_window: 1000, connection_window: 65_535, ..Options::default() };
    let mut connection = started(options, 1);
    let mut receive = |frames: &[Vec<u8>]| {
        let (_, output, result) = feed(&mut connection, &frames.concat(), &[1 << 20]);
        assert_eq!(result, Ok(()));
        output
    };
    assert_eq!(receive(&[settings(&[]), headers(1, 0)]), settings_ack());
    assert_eq!(receive(&[frame(DATA, 0, 1, &[0; 500])]), []);
    // Padding counts: one byte for its length, 200 for itself.
    let padded = [vec![200; 1], vec![0; 300]].concat();
    assert_eq!(receive(&[frame(DATA, PADDED, 1, &padded)]), number(WINDOW_UPDATE, 1, 801));
    for _ in 0..63 {
        assert_eq!(receive(&[frame(DATA, 0, 1, &[0; 501])]), number(WINDOW_UPDATE, 1, 501));
    }
    let both = [number(WINDOW_UPDATE, 0, 801 + 64 * 501), number(WINDOW_UPDATE, 1, 501)].concat();
    assert_eq!(receive(&[frame(DATA, 0, 1, &[0; 501])]), both);
    assert_eq!(receive(&[frame(DATA, END_STREAM, 1, &[0; 900])]), [], "a stream that ends needs no window");
}

#[test]
fn a_peer_that_ignores_a_window_is_an_error() {
    let options = Options { stream_window: 1000, ..Options::default() };
    let bytes = [settings(&[]), headers(1, 0), frame(DATA, 0, 1, &[0; 1001])].concat();
    let (seen, _, result) = feed_every_way(|| started(options, 1), &bytes);
    assert_eq!(seen, [Seen::Head(0, 200), Seen::Failed(0, FailureKind::Truncated)]);
    assert!(matches!(result, Err(Error::Http2 { code: 3, .. })));
}

#[test]
fn goaway_refuses_what_the_peer_did_not_see() {
    let seen = good(&[goaway(3, 0), headers(1, END_STREAM), headers(3, END_STREAM)]);
    let mut expected = vec![Seen::Draining, Seen::Failed(2, FailureKind::Refused)];
    expected.extend([response(0, 200, ""), response(1, 200, "")].concat());
    assert_eq!(seen, expected);
}

#[test]
fn goaway_may_come_in_two_steps() {
    let mut connection = started(Options::default(), 3);
    let (seen, _, _) = feed(&mut connection, &[settings(&[]), goaway((1 << 31) - 1, 0)].concat(), &[1000]);
    assert_eq!(seen, [Seen::Draining]);
    assert_eq!((connection.capacity(), connection.in_flight(), connection.is_draining()), (0, 3, true));
    let (seen, _, _) = feed(&mut connection, &goaway(3, 0), &[1000]);
    assert_eq!(seen, [Seen::Failed(2, FailureKind::Refused)]);
    assert_eq!(connection.in_flight(), 2);
}

#[test]
fn goaway_with_an_error_ends_everything() {
    let (seen, output, result) = outcome(&[goaway(1, 0xb)]);
    let failed = |token, kind| Seen::Failed(token, kind);
    let refused = [failed(1, FailureKind::Refused), failed(2, FailureKind::Refused)];
    assert_eq!(seen[..3], [&[Seen::Draining][..], &refused].concat());
    assert_eq!(seen[3..], [failed(0, FailureKind::Truncated)]);
    assert_eq!((output, result), (Vec::new(), Err(Error::ClosedByPeer(0xb))));
}

#[test]
fn a_reset_fails_one_request() {
    let seen = good(&[
        number(RST_STREAM, 1, 7),
        headers(3, 0),
        number(RST_STREAM, 3, 2),
        number(RST_STREAM, 3, 2),
        headers(5, END_STREAM),
    ]);
    let mut expected = vec![Seen::Failed(0, FailureKind::Refused), Seen::Head(1, 200)];
    expected.push(Seen::Failed(1, FailureKind::Reset(2)));
    expected.extend(response(2, 200, ""));
    assert_eq!(seen, expected);
}

#[test]
fn a_cancelled_request_leaves_the_connection_right() {
    let mut connection = started(Options::default(), 2);
    let frames = [settings(&[]), headers(1, 0), frame(DATA, 0, 1, b"hello")[..12].to_vec()].concat();
    connection.receive(&frames, &mut |_| {}).unwrap();
    connection.output().clear();
    connection.cancel(0);
    assert_eq!(*connection.output(), number(RST_STREAM, 1, 8));
    assert_eq!((connection.in_flight(), connection.is_draining()), (1, false));
    // The rest of the frame, trailers that fill the dynamic table, and a response that needs it.
    let frames = [
        b"lo".to_vec(),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x48\x03299"),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\xbe"),
    ];
    let (seen, _, result) = feed(&mut connection, &frames.concat(), &[1000]);
    assert_eq!((seen, result), (response(1, 299, ""), Ok(())));
}

#[test]
fn a_malformed_response_fails_alone() {
    let first = |flags, block: &[u8]| vec![frame(HEADERS, END_HEADERS | flags, 1, block)];
    let unfinished_trailers = vec![headers(1, 0), frame(HEADERS, END_HEADERS, 1, b"\x00\x01a\x01b")];
    for frames in [
        first(0, b"\x00\x01a\x01b"),
        first(0, b"\x88\x88"),
        first(0, b"\x82"),
        first(0, b"\x08\x02xx"),
        first(0, b"\x08\x03101"),
        first(END_STREAM, b"\x08\x03103"),
        unfinished_trailers,
        vec![headers(1, 0), headers(1, END_STREAM)],
        vec![frame(DATA, END_STREAM, 1, b"hello")],
    ] {
        let (seen, output, result) = outcome(&[frames.concat(), headers(3, END_STREAM)]);
        let seen: Vec<Seen> = seen.into_iter().filter(|event| *event != Seen::Head(0, 200)).collect();
        let expected = [vec![Seen::Failed(0, FailureKind::Malformed)], response(1, 200, "")].concat();
        assert_eq!((seen, output, result), (expected, number(RST_STREAM, 1, 1), Ok(())), "{frames:?}");
    }
}

#[test]
fn content_is_as_long_as_its_head_says() {
    // Plain and in Huffman code, once or twice; none at all.
    let five = b"\x88\x0f\x0d\x015";
    let coded = b"\x88\x00\x8a\x21\xea\x49\x6a\x4a\xd4\x16\xa9\x93\x3f\x81\x6f";
    let twice = b"\x88\x0f\x0d\x015\x0f\x0d\x045, 5";
    for (block, content, is_right) in [
        (&five[..], &["hello"][..], true),
        (five, &["hel", "", "lo"], true),
        (five, &["hell"], false),
        (five, &["hel", "lo!"], false),
        (five, &[""], false),
        (coded, &["hello"], true),
        (coded, &["hell"], false),
        (twice, &["hello"], true),
        (b"\x88\x0f\x0d\x015\x0f\x0d\x016", &["hello"], false),
        (b"\x88\x0f\x0d\x02-5", &["hello"], false),
        (b"\x88\x0f\x0d\x00", &[""], false),
        (b"\x88\x0f\x0d\x010", &[""], true),
        (b"\x88", &["hello"], true),
        // 204 and 304 have no content.
        (b"\x89\x0f\x0d\x015", &[""], true),
        (b"\x8b\x0f\x0d\x015", &[""], true),
        (b"\x8b\x0f\x0d\x015", &["hello"], false),
    ] {
        let mut frames = vec![frame(HEADERS, END_HEADERS, 1, block)];
        for (at, piece) in content.iter().enumerate() {
            let flags = if at + 1 == content.len() { END_STREAM } else { 0 };
            frames.push(frame(DATA, flags, 1, piece.as_bytes()));
        }
        let (seen, output, result) = outcome(&frames);
        assert_eq!(result, Ok(()));
        if is_right {
            assert_eq!((seen.last(), output), (Some(&Seen::Done(0)), Vec::new()), "{frames:?}");
        } else {
            let expected = (Some(&Seen::Failed(0, FailureKind::Malformed)), number(RST_STREAM, 1, 1));
            assert_eq!((seen.last(), output), expected, "{frames:?}");
        }
    }
    // What ends with its head or with trailers.
    let short = [frame(HEADERS, END_HEADERS | END_STREAM, 1, five)];
    assert_eq!(outcome(&short).0, [Seen::Head(0, 200), Seen::Failed(0, FailureKind::Malformed)]);
    let trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x01a\x01b");
    let short = [frame(HEADERS, END_HEADERS, 1, five), frame(DATA, 0, 1, b"hell"), trailers];
    assert_eq!(outcome(&short).0.last(), Some(&Seen::Failed(0, FailureKind::Malformed)));
    let interim = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103\x0f\x0d\x015");
    assert_eq!(good(&[interim, headers(1, 0), frame(DATA, END_STREAM, 1, b"hi")]), response(0, 200, "hi"));
}

#[test]
fn a_response_to_head_has_a_length_but_no_content() {
    let make = || {
        let mut connection = Connection::new(Options::default());
        connection.start(0, &Prepared::from(&request("HEAD", "/", b"")));
        connection
    };
    let five = |flags| frame(HEADERS, END_HEADERS | flags, 1, b"\x88\x0f\x0d\x015");
    let whole = [settings(&[]), five(END_STREAM)].concat();
    assert_eq!(feed_every_way(make, &whole).0, response(0, 200, ""));
    let content = [settings(&[]), five(0), frame(DATA, END_STREAM, 1, b"hello")].concat();
    assert_eq!(feed_every_way(make, &content).0, [Seen::Head(0, 200), Seen::Failed(0, FailureKind::Malformed)]);
}

#[test]
fn what_breaks_the_protocol_ends_the_connection_with_the_right_code() {
    let (protocol, flow_control, frame_size, compression, calm) = (1, 3, 6, 9, 0xb);
    let flood = [frame(HEADERS, 0, 1, STATUS_200), frame(CONTINUATION, 0, 1, b"").repeat(30_000)].concat();
    for (code, bytes) in [
        (protocol, headers(7, 0)),
        (protocol, headers(2, 0)),
        (protocol, headers(0, 0)),
        (protocol, frame(DATA, 0, 0, b"x")),
        (protocol, frame(DATA, 0, 7, b"x")),
        (protocol, frame(DATA, PADDED, 1, b"\x02a")),
        (protocol, number(RST_STREAM, 7, 0)),
        (protocol, number(RST_STREAM, 0, 0)),
        (protocol, number(WINDOW_UPDATE, 0, 0)),
        (protocol, number(WINDOW_UPDATE, 7, 1)),
        (protocol, frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82")),
        (protocol, frame(SETTINGS, 0, 1, b"")),
        (protocol, settings(&[(2, 1)])),
        (protocol, settings(&[(5, 16_383)])),
        (protocol, settings(&[(5, 1 << 24)])),
        (protocol, frame(PING, 0, 1, b"12345678")),
        (protocol, frame(GOAWAY, 0, 1, &[0; 8])),
        (protocol, [goaway(1, 0), goaway(3, 0)].concat()),
        (protocol, frame(CONTINUATION, END_HEADERS, 1, STATUS_200)),
        (protocol, [frame(HEADERS, 0, 1, STATUS_200), frame(PING, 0, 0, b"12345678")].concat()),
        (protocol, [frame(HEADERS, 0, 1, STATUS_200), frame(DATA, 0, 1, b"x")].concat()),
        (protocol, [frame(HEADERS, 0, 1, STATUS_200), frame(CONTINUATION, END_HEADERS, 3, b"")].concat()),
        (flow_control, number(WINDOW_UPDATE, 0, (1 << 31) - 1)),
        (flow_control, settings(&[(4, 1 << 31)])),
        (frame_size, frame(SETTINGS, 0, 0, &[0; 5])),
        (frame_size, frame(SETTINGS, ACK, 0, &[0; 6])),
        (frame_size, frame(PING, 0, 0, &[0; 7])),
        (frame_size, frame(RST_STREAM, 0, 1, &[0; 5])),
        (frame_size, frame(WINDOW_UPDATE, 0, 1, &[0; 3])),
        (frame_size, frame(GOAWAY, 0, 0, &[0; 7])),
        (frame_size, frame(DATA, PADDED, 1, b"")),
        (frame_size, frame(HEADERS, PRIORITY | END_HEADERS, 1, &[0; 4])),
        (frame_size, frame(DATA, 0, 1, &[0; 16_385])),
        (compression, frame(HEADERS, END_HEADERS, 1, b"\xbe")),
        (calm, flood),
    ] {
        // Single bytes and random pieces, though not for the flood, whose size makes that slow.
        let (seen, output, result) = if bytes.len() < 20_000 {
            outcome(std::slice::from_ref(&bytes))
        } else {
            let bytes = [settings(&[]), bytes.clone()].concat();
            feed(&mut started(Options::default(), 3), &bytes, &[bytes.len()])
        };
        let start = &bytes[..bytes.len().min(30)];
        assert!(matches!(result, Err(Error::Http2 { code: is, .. }) if is == code), "{start:?} gives {result:?}");
        assert!(output.ends_with(&goaway(0, code)), "{start:?} answers {output:?}");
        let failed = seen.iter().filter(|event| matches!(event, Seen::Failed(..))).count();
        assert_eq!(failed, 3, "{start:?} gives {seen:?}");
    }
}

#[test]
fn the_first_frame_must_be_settings() {
    for bytes in [headers(1, 0), settings_ack(), b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()] {
        let (seen, _, result) = feed_every_way(|| started(Options::default(), 1), &bytes);
        assert_eq!(seen, [Seen::Failed(0, FailureKind::Truncated)]);
        assert!(matches!(result, Err(Error::Http2 { .. })));
    }
}

#[test]
fn the_end_of_the_transport_fails_what_is_in_flight() {
    let mut connection = started(Options::default(), 2);
    let (mut seen, _, _) = feed(&mut connection, &[settings(&[]), headers(3, 0)].concat(), &[1000]);
    connection.finish(&mut |event| record(&mut seen, event));
    let failed = [Seen::Failed(0, FailureKind::Truncated), Seen::Failed(1, FailureKind::Truncated)];
    assert_eq!(seen, [&[Seen::Head(1, 200)][..], &failed].concat());
    assert_eq!((connection.capacity(), connection.in_flight()), (0, 0));
}

#[test]
fn damaged_bytes_never_panic() {
    let bytes = [
        settings(&[(3, 100), (4, 70_000)]),
        frame(HEADERS, END_HEADERS, 1, b"\x88\x40\x01a\x01b\x0f\x0d\x015"),
        frame(DATA, 0, 1, b"hello"),
        frame(HEADERS, 0, 3, STATUS_200),
        frame(CONTINUATION, END_HEADERS, 3, b"\xbe\x61\x83\x1f\xff\xff"),
        number(WINDOW_UPDATE, 0, 1000),
        frame(DATA, END_STREAM | PADDED, 1, b"\x01a\0"),
        frame(PING, 0, 0, b"12345678"),
        goaway(3, 0),
        number(RST_STREAM, 3, 7),
    ];
    feed_damaged(|| started(Options::default(), 3), &bytes.concat(), 3);
}
