//! Peers that send without end: memory stays bounded, and the connection ends with an error that says why.

use crate::h2::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, PING, RST_STREAM, SETTINGS, STATUS_200, WINDOW_UPDATE, frame, number,
    settings,
};
use crate::support::request;
use wire::{Connection, Error, Event, h1, h2, h3};

/// More than any peer may make a connection keep.
const MEMORY: usize = 3 << 20;

/// HTTP/2's ENHANCE_YOUR_CALM.
const CALM: u32 = 0xb;

/// How many bytes of `piece`, repeated, a connection takes until it ends; the driver sends nothing meanwhile, or all.
/// Below a hundred megabytes it must end.
fn bytes_until_error(connection: &mut impl Connection, piece: &[u8], sends: bool) -> (usize, Error) {
    let pieces = piece.repeat((1 << 16) / piece.len() + 1);
    for taken in (0..100 << 20).step_by(pieces.len()) {
        if let Err(error) = connection.receive(&pieces, &mut |_| {}) {
            return (taken + pieces.len(), error);
        }
        let output = connection.output();
        assert!(output.len() < MEMORY);
        if sends {
            output.clear();
        }
    }
    panic!("{} bytes were taken", 100 << 20)
}

fn started_h1() -> h1::Connection {
    let mut connection = h1::Connection::new(h1::Options::default());
    connection.start(0, &h1::Prepared::from(&request("GET", "/", b"")));
    connection
}

/// After SETTINGS, with one request in flight.
fn started_h2() -> h2::Connection {
    let mut connection = h2::Connection::new(h2::Options::default());
    connection.start(0, &h2::Prepared::from(&request("GET", "/", b"")));
    connection.receive(&settings(&[]), &mut |_| {}).unwrap();
    connection
}

fn ends_calmly(piece: &[u8], sends: bool) {
    let (bytes, error) = bytes_until_error(&mut started_h2(), piece, sends);
    assert!(matches!(error, Error::Http2 { code: CALM, .. }), "{piece:?} gives {error:?}");
    assert!(bytes < MEMORY, "{piece:?} ends after {bytes} bytes");
}

#[test]
fn h2_frames_that_tell_nothing_end_the_connection() {
    for sends in [false, true] {
        for piece in [
            frame(PING, 0, 0, b"12345678"),
            frame(PING, 1, 0, b"12345678"),
            settings(&[]),
            settings(&[(4, 100); 50]),
            frame(SETTINGS, 1, 0, b""),
            number(WINDOW_UPDATE, 0, 1),
            number(WINDOW_UPDATE, 1, 1),
            // Priorities, and a type that nobody knows.
            frame(2, 0, 1, &[0; 5]),
            frame(0xbe, 0, 0, &[0; 100]),
            // The same GOAWAY again and again.
            frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]),
            // Interim responses.
            frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"),
        ] {
            // WINDOW_UPDATE must not overflow the window first.
            ends_calmly(&piece, sends);
        }
        let mut connection = started_h2();
        connection.receive(&frame(HEADERS, END_HEADERS, 1, STATUS_200), &mut |_| {}).unwrap();
        for empty in [frame(DATA, 0, 1, b""), frame(DATA, 8, 1, b"\0"), number(RST_STREAM, 1, 0)] {
            let (bytes, error) = bytes_until_error(&mut connection, &empty, sends);
            assert!(matches!(error, Error::Http2 { code: CALM, .. }) && bytes < MEMORY, "{empty:?} gives {error:?}");
            connection = started_h2();
            connection.receive(&frame(HEADERS, END_HEADERS, 1, STATUS_200), &mut |_| {}).unwrap();
        }
    }
}

#[test]
fn h2_answers_that_nobody_reads_end_the_connection() {
    // A response every now and then hides that the pings are a flood.
    let mut connection = started_h2();
    connection.receive(&frame(HEADERS, END_HEADERS, 1, STATUS_200), &mut |_| {}).unwrap();
    let piece = [frame(PING, 0, 0, b"12345678").repeat(100), frame(DATA, 0, 1, b"x")].concat();
    let (bytes, error) = bytes_until_error(&mut connection, &piece, false);
    assert!(matches!(error, Error::Http2 { code: CALM, .. }) && bytes < MEMORY);
}

#[test]
fn h2_answers_that_are_read_are_no_flood() {
    let mut connection = started_h2();
    let prepared = h2::Prepared::from(&request("GET", "/", b""));
    connection.receive(&frame(HEADERS, END_HEADERS | 1, 1, STATUS_200), &mut |_| {}).unwrap();
    let pings = frame(PING, 0, 0, b"12345678").repeat(2000);
    for round in 0..500 {
        connection.start(0, &prepared);
        // Much remains to be sent, but not the same bytes.
        let output = connection.output();
        output.drain(..output.len() - 10);
        connection.receive(&pings, &mut |_| {}).unwrap();
        connection.receive(&frame(HEADERS, END_HEADERS | 1, round * 2 + 3, STATUS_200), &mut |_| {}).unwrap();
    }
    assert_eq!(connection.in_flight(), 0);
}

#[test]
fn h2_window_updates_of_an_upload_are_no_flood() {
    let mut connection = h2::Connection::new(h2::Options::default());
    connection.receive(&settings(&[]), &mut |_| {}).unwrap();
    connection.start(0, &h2::Prepared::from(&request("POST", "/", &vec![0; 20 << 20])));
    let updates = [number(WINDOW_UPDATE, 0, 100), number(WINDOW_UPDATE, 1, 100)].concat().repeat(100);
    let mut sent = 0;
    while sent < 20 << 20 {
        sent += connection.output().len();
        connection.output().clear();
        connection.receive(&updates, &mut |_| {}).unwrap();
    }
}

#[test]
fn heads_without_end_are_errors() {
    // A name or value, many fields, and a chunk's extension or trailers.
    for (first, piece) in [
        ("HTTP/1.1 200 OK\r\na: ", "x"),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 ", "OK"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", "x"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "0"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
    ] {
        let mut connection = started_h1();
        connection.receive(first.as_bytes(), &mut |_| {}).unwrap();
        let (bytes, _) = bytes_until_error(&mut connection, piece.as_bytes(), true);
        assert!(bytes < MEMORY, "{first:?} ends after {bytes} bytes");
    }
    // A block of 1 MB or more is refused even if the peer may send frames so large.
    let options = h2::Options { max_frame_size: 1 << 24, ..h2::Options::default() };
    for frames in [
        frame(HEADERS, END_HEADERS, 1, &[0; 300 << 10]),
        [frame(HEADERS, 0, 1, b""), frame(CONTINUATION, 0, 1, &[0; 100 << 10]).repeat(3)].concat(),
    ] {
        let mut connection = h2::Connection::new(options);
        connection.start(0, &h2::Prepared::from(&request("GET", "/", b"")));
        connection.receive(&settings(&[]), &mut |_| {}).unwrap();
        let result = connection.receive(&frames, &mut |_| {});
        assert!(matches!(result, Err(Error::Http2 { code: CALM, .. })));
    }
    ends_calmly_within_a_block();
}

/// HEADERS, and then CONTINUATION frames with a little in each.
fn ends_calmly_within_a_block() {
    let mut connection = started_h2();
    connection.receive(&frame(HEADERS, 0, 1, STATUS_200), &mut |_| {}).unwrap();
    for piece in [frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b"), frame(CONTINUATION, 0, 1, b"")] {
        let (bytes, error) = bytes_until_error(&mut connection, &piece, true);
        assert!(matches!(error, Error::Http2 { code: CALM, .. }) && bytes < MEMORY);
        connection = started_h2();
        connection.receive(&frame(HEADERS, 0, 1, STATUS_200), &mut |_| {}).unwrap();
    }
}

/// A block may grow 4,000-fold with references to a large entry; the driver is shown only its beginning.
#[test]
fn h2_blocks_that_explode_are_malformed() {
    let options = h2::Options { fields: true, ..h2::Options::default() };
    let mut connection = h2::Connection::new(options);
    connection.start(0, &h2::Prepared::from(&request("GET", "/", b"")));
    let entry = [b"\x88\x40\x01a\x7f\x81\x1e".as_slice(), &[b'x'; 3968]].concat();
    let references = frame(CONTINUATION, 0, 1, &[0xbe; 16_000]);
    let frames =
        [settings(&[]), frame(HEADERS, 0, 1, &entry), references.repeat(15), frame(CONTINUATION, END_HEADERS, 1, b"")];
    let (mut shown, mut failed) = (0, 0);
    connection
        .receive(&frames.concat(), &mut |event| match event {
            Event::Field { value, .. } => shown += value.len(),
            Event::Failed { .. } => failed += 1,
            _ => {}
        })
        .unwrap();
    assert!(shown > 1 << 20 && shown < MEMORY);
    assert_eq!((failed, connection.in_flight()), (1, 0));
}

/// A closed loop against a peer that answers requests before it has read them.
#[test]
fn requests_that_nobody_reads_do_not_pile_up() {
    fn run<C: Connection>(mut connection: C, mut respond: impl FnMut(u32) -> Vec<u8>) {
        let prepared = C::Prepared::from(&request("GET", &format!("/{}", "x".repeat(5000)), b""));
        let mut count = 0;
        while connection.capacity() > 0 {
            connection.start(0, &prepared);
            connection.receive(&respond(count), &mut |_| {}).unwrap();
            assert_eq!(connection.in_flight(), 0);
            assert!(connection.output().len() < MEMORY);
            count += 1;
        }
        assert!(count > 100);
        connection.output().clear();
        assert!(connection.capacity() > 0, "what is sent makes room");
    }
    run(h1::Connection::new(h1::Options::default()), |_| b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec());
    let mut h2 = h2::Connection::new(h2::Options::default());
    h2.receive(&settings(&[]), &mut |_| {}).unwrap();
    run(h2, |count| frame(HEADERS, END_HEADERS | 1, count * 2 + 1, STATUS_200));
    // The same with bodies, of which HTTP/1.1 must send all.
    let mut h1 = h1::Connection::new(h1::Options::default());
    let upload = h1::Prepared::from(&request("POST", "/", &vec![0; 1 << 20]));
    let mut count = 0;
    while h1.capacity() > 0 {
        h1.start(0, &upload);
        h1.receive(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", &mut |_| {}).unwrap();
        count += 1;
        assert!(count < 100);
    }
}

#[test]
fn h3_bytes_that_tell_nothing_end_the_connection() {
    let (unknown, empty_data): (&[u8], &[u8]) = (b"\x21\x02xx", b"\0\0");
    for (stream, first, piece) in [
        (0, &b""[..], unknown),
        (0, b"\x01\x03\0\0\xd9", empty_data),
        (0, b"", b"\x01\x03\0\0\xd8"),
        // A control stream with unknown frames and with one GOAWAY after the other; QPACK; a stream of unknown type.
        (3, b"\0\x04\0", unknown),
        (3, b"\0\x04\0", b"\x07\x01\x08"),
        (3, b"\x02", b"\x20"),
        (3, b"\x03", b"\x44"),
        (3, b"\x21", b"x"),
    ] {
        let mut connection = h3::Connection::new(h3::Options::default());
        connection.start(0, 0, &h3::Prepared::from(&request("GET", "/", b"")));
        connection.receive(stream, first, false, &mut |_| {}).unwrap();
        let pieces = piece.repeat(10_000);
        let mut results = (0..1000).map(|_| connection.receive(stream, &pieces, false, &mut |_| {}));
        let error = results.position(|result| matches!(result, Err(Error::Http3 { code: 0x107, .. })));
        assert!(error.is_some_and(|at| at * pieces.len() < MEMORY), "{piece:?} after {first:?}: {error:?}");
    }
}
