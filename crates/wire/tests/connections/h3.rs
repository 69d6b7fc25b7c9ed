//! HTTP/3 through the public interface.

use crate::support::{Seen, cuts, record, request, response};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wire::h3::{Connection, Options, Prepared};
use wire::{Error, FailureKind};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CANCEL_PUSH: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const MAX_PUSH_ID: u8 = 13;
const GREASE: u8 = 0x21;

/// The peer's first unidirectional stream.
const CONTROL: u64 = 3;
const STATUS_200: &[u8] = &[0, 0, 0xd9];

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, payload.len() as u8], payload].concat()
}

fn ok() -> Vec<u8> {
    frame(HEADERS, STATUS_200)
}

/// A connection with three GETs in flight on streams 0, 4 and 8, with tokens 0, 1 and 2.
fn started(options: Options) -> Connection {
    let mut connection = Connection::new(options);
    for token in 0..3 {
        connection.start(u64::from(token) * 4, token, &Prepared::from(&request("GET", "/", b"")));
    }
    connection
}

/// Feeds one stream in many ways, which must all end the same.
fn feed(options: Options, stream: u64, bytes: &[u8], fin: bool) -> (Vec<Seen>, Result<(), Error>) {
    let mut outcomes = cuts(bytes.len()).into_iter().map(|sizes| {
        let mut connection = started(options);
        let mut seen = Vec::new();
        let mut rest = bytes;
        let mut result = Ok(());
        for size in sizes {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            result = connection.receive(stream, piece, fin && rest.is_empty(), &mut |event| record(&mut seen, event));
            if result.is_err() {
                break;
            }
        }
        (seen, result)
    });
    let first = outcomes.next().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome, first);
    }
    first
}

fn good(stream: u64, frames: &[Vec<u8>], fin: bool) -> Vec<Seen> {
    let (seen, result) = feed(Options::default(), stream, &frames.concat(), fin);
    assert_eq!(result, Ok(()));
    seen
}

/// Checks that a stream's bytes end the connection with an error code.
fn bad(stream: u64, bytes: &[u8], fin: bool, code: u64) {
    let (seen, result) = feed(Options::default(), stream, bytes, fin);
    assert!(matches!(result, Err(Error::Http3 { code: is, .. }) if is == code), "{bytes:x?} gives {result:?}");
    let failed = seen.iter().filter(|event| matches!(event, Seen::Failed(..))).count();
    assert_eq!(failed, 3, "{bytes:x?} gives {seen:?}");
}

#[test]
fn a_request_is_headers_and_data() {
    let mut connection = Connection::new(Options::default());
    let out = connection.start(0, 0, &Prepared::from(&request("POST", "/", b"body"))).concat();
    let (section, data) = out.split_at(2 + usize::from(out[1]));
    assert_eq!((section[0], data), (HEADERS, &frame(DATA, b"body")[..]));
    let fields = qpack::decode_stateless(&mut &section[2..], u64::MAX).unwrap().fields;
    assert_eq!(fields.len(), 6);
    assert_eq!(connection.in_flight(), 1);
}

#[test]
fn the_control_stream_begins_with_settings() {
    assert_eq!(Connection::new(Options::default()).control_stream(), [0, 4, 0]);
}

#[test]
fn a_response_is_read_in_any_pieces() {
    let frames =
        [frame(GREASE, b"x"), ok(), frame(DATA, b"hel"), frame(GREASE, b""), frame(DATA, b""), frame(DATA, b"lo")];
    assert_eq!(good(4, &frames, true), response(1, 200, "hello"));
    assert_eq!(good(4, &[ok()], true), response(1, 200, ""));
}

#[test]
fn interim_responses_and_trailers_are_skipped() {
    let interim = frame(HEADERS, b"\0\0\xd8");
    let trailers = frame(HEADERS, b"\0\0\x21a\x01b");
    let frames = [interim, ok(), frame(DATA, b"hello"), trailers, frame(GREASE, b"x")];
    assert_eq!(good(0, &frames, true), response(0, 200, "hello"));
}

#[test]
fn fields_are_shown_on_request() {
    let bytes = [
        frame(HEADERS, b"\0\0\xd8\x21a\x011"),
        frame(HEADERS, b"\0\0\xd9\x21a\x012"),
        frame(HEADERS, b"\0\0\x21a\x013"),
    ];
    let (seen, _) = feed(Options { fields: true }, 0, &bytes.concat(), true);
    let field = |value: &str| Seen::Field(0, "a".into(), value.into());
    assert_eq!(seen, [field("2"), Seen::Head(0, 200), field("3"), Seen::Done(0)]);
}

#[test]
fn a_malformed_response_fails_alone() {
    for (frames, fin) in [
        (vec![], true),
        (vec![frame(HEADERS, b"\0\0\xd8")], true),
        (vec![frame(HEADERS, b"\0\0\x21a\x01b")], false),
        (vec![frame(HEADERS, b"\0\0\xd9\xd9")], false),
        (vec![frame(HEADERS, b"\0\0\xd1")], false),
        (vec![frame(HEADERS, b"\0\0\x5f\x09\x03101")], false),
        (vec![ok(), ok()], false),
    ] {
        let seen = good(0, &frames, fin);
        assert_eq!(seen.last(), Some(&Seen::Failed(0, FailureKind::Malformed)), "{frames:x?}");
    }
}

#[test]
fn content_is_as_long_as_its_head_says() {
    let five = frame(HEADERS, b"\0\0\xd9\x54\x015");
    let not_modified = frame(HEADERS, b"\0\0\xda\x54\x015");
    let trailers = frame(HEADERS, b"\0\0\x21a\x01b");
    for (frames, is_right) in [
        (vec![five.clone(), frame(DATA, b"hello")], true),
        (vec![five.clone(), frame(DATA, b"hel"), frame(GREASE, b"x"), frame(DATA, b"lo"), trailers.clone()], true),
        (vec![five.clone(), frame(DATA, b"hell")], false),
        (vec![five.clone(), frame(DATA, b"hell"), trailers], false),
        (vec![five.clone(), frame(DATA, b"hel"), frame(DATA, b"lo!")], false),
        (vec![five], false),
        (vec![frame(HEADERS, b"\0\0\xd9\xc4")], true),
        (vec![frame(HEADERS, b"\0\0\xd9\xc4"), frame(DATA, b"x")], false),
        (vec![frame(HEADERS, b"\0\0\xd9\x54\x01x"), frame(DATA, b"x")], false),
        (vec![not_modified.clone()], true),
        (vec![not_modified, frame(DATA, b"hello")], false),
    ] {
        let seen = good(0, &frames, true);
        let expected = if is_right { Seen::Done(0) } else { Seen::Failed(0, FailureKind::Malformed) };
        assert_eq!(seen.last(), Some(&expected), "{frames:x?}");
    }
    let mut connection = Connection::new(Options::default());
    connection.start(0, 0, &Prepared::from(&request("HEAD", "/", b"")));
    let mut seen = Vec::new();
    let head = frame(HEADERS, b"\0\0\xd9\x54\x015");
    connection.receive(0, &head, true, &mut |event| record(&mut seen, event)).unwrap();
    assert_eq!(seen, response(0, 200, ""));
}

#[test]
fn request_streams_must_follow_the_rules() {
    let unexpected = 0x105;
    bad(0, &frame(DATA, b"x"), false, unexpected);
    let trailers = [ok(), frame(HEADERS, b"\0\0\x21a\x01b")].concat();
    bad(0, &[trailers.clone(), frame(DATA, b"x")].concat(), false, unexpected);
    bad(0, &[trailers, frame(HEADERS, b"\0\0\x21a\x01b")].concat(), false, unexpected);
    for kind in [SETTINGS, GOAWAY, CANCEL_PUSH, MAX_PUSH_ID, 2, 6, 8, 9] {
        bad(0, &frame(kind, b""), false, unexpected);
    }
    bad(0, &frame(PUSH_PROMISE, b"\0"), false, 0x108);
    bad(0, &ok()[..4], true, 0x106);
    bad(0, &[ok(), frame(DATA, b"hello")[..4].to_vec()].concat(), true, 0x106);
    bad(0, &[HEADERS, 0x80, 0x10, 0, 0], false, 0x107);
    bad(0, &frame(HEADERS, b"\x03\x81\x10\x11"), false, 0x200);
    bad(1, b"x", false, 0x103);
}

#[test]
fn the_peers_streams_may_say_little() {
    // A stream of an unknown type with a long number, QPACK streams, and SETTINGS with one that nobody knows.
    assert_eq!(good(15, &[vec![0x80, 0, 0, 0x21], b"grease".to_vec()], true), []);
    assert_eq!(good(7, &[vec![2, 0x20, 0x20]], false), []);
    assert_eq!(good(11, &[vec![3, 0x44, 0x80]], false), []);
    let settings = frame(SETTINGS, &[0x01, 0x40, 0x64, 0x33, 0x01, 0x40, 0x7f, 0x05]);
    assert_eq!(good(CONTROL, &[vec![0], settings, frame(GREASE, b"x")], false), []);
    assert_eq!(good(19, &[vec![0x40]], true), []);
}

#[test]
fn the_peers_streams_must_follow_the_rules() {
    let (creation, closed, unexpected, id, settings) = (0x103, 0x104, 0x105, 0x108, 0x109);
    let control = |frames: &[Vec<u8>]| [vec![0], frame(SETTINGS, b""), frames.concat()].concat();
    bad(CONTROL, &[&[0][..], &frame(GREASE, b"")].concat(), false, 0x10a);
    bad(CONTROL, &control(&[frame(SETTINGS, b"")]), false, unexpected);
    for kind in [DATA, HEADERS, PUSH_PROMISE, MAX_PUSH_ID, 2, 6, 8, 9] {
        bad(CONTROL, &control(&[frame(kind, b"")]), false, unexpected);
    }
    bad(CONTROL, &control(&[frame(CANCEL_PUSH, b"\0")]), false, id);
    bad(CONTROL, &control(&[]), true, closed);
    bad(7, &[2], true, closed);
    bad(11, &[3], true, closed);
    bad(7, &[2, 0x3f, 0xe1, 0x1f], false, 0x201);
    bad(7, &[1, 0], false, id);
    for payload in [&[2, 0][..], &[4, 0], &[6, 1, 6, 2]] {
        bad(CONTROL, &[&[0][..], &frame(SETTINGS, payload)].concat(), false, settings);
    }
    bad(CONTROL, &[&[0][..], &frame(SETTINGS, &[6])].concat(), false, 0x106);
    bad(CONTROL, &control(&[frame(GOAWAY, b"")]), false, 0x106);
    bad(CONTROL, &control(&[frame(GOAWAY, &[2])]), false, id);
    bad(CONTROL, &control(&[frame(GOAWAY, &[8]), frame(GOAWAY, &[12])]), false, id);
    let mut connection = started(Options::default());
    connection.receive(CONTROL, &[0], false, &mut |_| {}).unwrap();
    let second = connection.receive(7, &[0], false, &mut |_| {});
    assert!(matches!(second, Err(Error::Http3 { code, .. }) if code == creation));
}

#[test]
fn goaway_refuses_what_the_peer_did_not_see() {
    let stream = [vec![0], frame(SETTINGS, b""), frame(GOAWAY, &[0x40, 0xc8]), frame(GOAWAY, &[4])];
    let refused = [Seen::Failed(1, FailureKind::Refused), Seen::Failed(2, FailureKind::Refused)];
    assert_eq!(good(CONTROL, &stream, false), [&[Seen::Draining][..], &refused].concat());
    let mut connection = started(Options::default());
    connection.receive(CONTROL, &stream.concat(), false, &mut |_| {}).unwrap();
    assert_eq!((connection.in_flight(), connection.is_draining()), (1, true));
    let mut seen = Vec::new();
    connection.receive(0, &ok(), true, &mut |event| record(&mut seen, event)).unwrap();
    assert_eq!(seen, response(0, 200, ""));
}

#[test]
fn resets_and_losses_fail_requests() {
    let mut connection = started(Options::default());
    let mut seen = Vec::new();
    connection.reset(0, 0x10b, &mut |event| record(&mut seen, event)).unwrap();
    connection.reset(4, 0x102, &mut |event| record(&mut seen, event)).unwrap();
    connection.reset(4, 0x102, &mut |event| record(&mut seen, event)).unwrap();
    connection.finish(&mut |event| record(&mut seen, event));
    assert_eq!(
        seen,
        [
            Seen::Failed(0, FailureKind::Refused),
            Seen::Failed(1, FailureKind::Reset(0x102)),
            Seen::Failed(2, FailureKind::Truncated),
        ]
    );
    let mut connection = started(Options::default());
    connection.receive(CONTROL, &[0, 4, 0], false, &mut |_| {}).unwrap();
    let reset = connection.reset(CONTROL, 0x100, &mut |_| {});
    assert!(matches!(reset, Err(Error::Http3 { code: 0x104, .. })));
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn a_cancelled_request_is_silent() {
    let mut connection = started(Options::default());
    connection.receive(0, &ok()[..3], false, &mut |_| {}).unwrap();
    connection.cancel(0);
    connection.receive(0, &ok()[3..], true, &mut |event| panic!("{event:?}")).unwrap();
    assert_eq!(connection.in_flight(), 2);
}

#[test]
fn damaged_bytes_never_panic() {
    let mut random = StdRng::seed_from_u64(0x5eed);
    let trailers = frame(HEADERS, b"\0\0\x2e\x1f\xff\x02\x3b\xff");
    let request = [ok(), frame(DATA, b"hello"), frame(GREASE, b"abc"), trailers].concat();
    let control = [vec![0], frame(SETTINGS, &[6, 1, 0x33, 1]), frame(GOAWAY, &[8])].concat();
    for _ in 0..5000 {
        let mut connection = started(Options::default());
        let mut seen = Vec::new();
        let mut result = Ok(());
        for (stream, bytes) in [(0, &request), (CONTROL, &control), (4, &request)] {
            let mut damaged = bytes.clone();
            for _ in 0..random.random_range(0..3) {
                let at = random.random_range(0..damaged.len());
                damaged[at] = random.random();
            }
            let size = random.random_range(1..=damaged.len());
            for piece in damaged.chunks(size) {
                if result.is_ok() {
                    result = connection.receive(stream, piece, false, &mut |event| record(&mut seen, event));
                }
            }
        }
        connection.finish(&mut |event| record(&mut seen, event));
        assert_eq!(connection.in_flight(), 0);
        for token in 0..3 {
            let ends = |event: &&Seen| matches!(event, Seen::Done(t) | Seen::Failed(t, _) if *t == token);
            assert_eq!(seen.iter().filter(ends).count(), 1, "{seen:?}");
        }
    }
}
