//! HTTP/1.1 through the public interface.

use crate::support::{Seen, feed, feed_damaged, feed_every_way, record, request, response};
use wire::h1::{Connection, Options, Prepared};
use wire::{Connection as _, Error, FailureKind};

const OK: &str = "HTTP/1.1 200 OK\r\nserver: test\r\ncontent-length: 5\r\n\r\nhello";

fn options() -> Options {
    Options { pipeline: 4, ..Options::default() }
}

/// A connection on which requests with these methods are in flight, their tokens counted from 0.
fn started(options: Options, methods: &[&str]) -> Connection {
    let mut connection = Connection::new(options);
    for (token, method) in methods.iter().enumerate() {
        assert!(connection.capacity() > 0);
        connection.start(token as u32, &Prepared::from(&request(method, "/", b"")));
    }
    connection.output().clear();
    connection
}

/// The events after which a connection with requests by these methods is still good.
fn good(methods: &[&str], bytes: &str) -> Vec<Seen> {
    let (seen, output, result) = feed_every_way(|| started(options(), methods), bytes.as_bytes());
    assert_eq!((output, result), (Vec::new(), Ok(())));
    seen
}

/// The events of a GET whose response breaks the protocol.
fn bad(bytes: &str) -> Vec<Seen> {
    let (seen, _, result) = feed_every_way(|| started(options(), &["GET"]), bytes.as_bytes());
    assert!(matches!(result, Err(Error::Http1(_))), "{bytes:?} gives {result:?}");
    seen
}

#[test]
fn requests_are_written_as_the_rfc_wants() {
    let mut connection = Connection::new(options());
    connection.start(0, &Prepared::from(&request("GET", "/a?b", b"")));
    connection.start(1, &Prepared::from(&request("POST", "/", b"")));
    connection.start(2, &Prepared::from(&request("PUT", "/", b"body")));
    let expected = "GET /a?b HTTP/1.1\r\nhost: origin\r\nuser-agent: fairlane\r\n\r\n\
        POST / HTTP/1.1\r\nhost: origin\r\nuser-agent: fairlane\r\ncontent-length: 0\r\n\r\n\
        PUT / HTTP/1.1\r\nhost: origin\r\nuser-agent: fairlane\r\ncontent-length: 4\r\n\r\nbody";
    assert_eq!(String::from_utf8_lossy(connection.output()), expected);
    assert_eq!((connection.in_flight(), connection.capacity()), (3, 1));
}

/// Bodies of any size share the memory of their request, and the output stays small.
#[test]
fn large_bodies_are_sent_piece_by_piece() {
    let body: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
    let large = Prepared::from(&request("PUT", "/", &body));
    let small = Prepared::from(&request("GET", "/", b""));
    let mut connection = Connection::new(options());
    for (token, prepared) in [&large, &small, &large, &small].into_iter().enumerate() {
        assert!(connection.capacity() > 0);
        connection.start(token as u32, prepared);
    }
    let mut sent = Vec::new();
    while !connection.output().is_empty() {
        let output = connection.output();
        assert!(output.len() < 200_000);
        let taken = output.len().div_ceil(2);
        sent.extend(output.drain(..taken));
    }
    let put = format!("PUT / HTTP/1.1\r\nhost: origin\r\nuser-agent: fairlane\r\ncontent-length: {}\r\n\r\n", 3 << 20);
    let get = "GET / HTTP/1.1\r\nhost: origin\r\nuser-agent: fairlane\r\n\r\n";
    let expected = [put.as_bytes(), &body, get.as_bytes()].concat();
    assert!(sent == expected.repeat(2));
    let (seen, _, _) = feed(&mut connection, OK.repeat(4).as_bytes(), &[1000]);
    assert_eq!(seen.len(), 12);
}

#[test]
fn without_keep_alive_a_connection_serves_one_request() {
    let mut connection = Connection::new(Options { keep_alive: false, ..options() });
    connection.start(0, &Prepared::from(&request("PUT", "/", b"body")));
    let output = String::from_utf8_lossy(connection.output()).into_owned();
    assert!(output.ends_with("content-length: 4\r\nconnection: close\r\n\r\nbody"));
    assert_eq!((connection.capacity(), connection.is_draining()), (0, true));
    let (seen, _, _) = feed(&mut connection, OK.as_bytes(), &[1000]);
    assert_eq!(seen, response(0, 200, "hello"));
    assert_eq!((connection.capacity(), connection.in_flight()), (0, 0));
}

#[test]
fn pipelined_responses_come_in_order() {
    let other = OK.replace("200", "404").replace("hello", "world");
    let seen = good(&["GET", "GET", "GET", "GET"], &[OK, OK, &other, OK].concat());
    let expected =
        [response(0, 200, "hello"), response(1, 200, "hello"), response(2, 404, "world"), response(3, 200, "hello")];
    assert_eq!(seen, expected.concat());
}

#[test]
fn head_bytes_are_those_on_the_wire() {
    let mut connection = started(options(), &["GET"]);
    let mut bytes = None;
    connection
        .receive(OK.as_bytes(), &mut |event| {
            if let wire::Event::Head { header_bytes, decoded_bytes, .. } = event {
                bytes = Some((header_bytes, decoded_bytes));
            }
        })
        .unwrap();
    let expected = (OK.len() - 5) as u32;
    assert_eq!(bytes, Some((expected, expected)));
}

#[test]
fn bodies_end_as_the_head_says() {
    for (fields, body, content) in [
        ("content-length: 0\r\n", "", ""),
        ("Content-Length: 5\r\n", "hello", "hello"),
        ("Transfer-Encoding: chunked\r\n", "5;x=y\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n", "hello"),
    ] {
        let first = format!("HTTP/1.1 201 Created\r\n{fields}\r\n{body}");
        let expected = [response(0, 201, content), response(1, 200, "hello")].concat();
        assert_eq!(good(&["GET", "GET"], &(first + OK)), expected);
    }
}

#[test]
fn some_responses_have_no_body() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(
        good(&["HEAD", "GET"], &[head, OK].concat()),
        [response(0, 200, ""), response(1, 200, "hello")].concat()
    );
    for status in [204, 304] {
        let first = format!("HTTP/1.1 {status} x\r\ncontent-length: 5\r\n\r\n");
        let expected = [response(0, status, ""), response(1, 200, "hello")].concat();
        assert_eq!(good(&["GET", "GET"], &(first + OK)), expected);
    }
}

#[test]
fn interim_responses_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";
    assert_eq!(good(&["GET"], &[interim, OK].concat()), response(0, 200, "hello"));
}

#[test]
fn a_body_may_end_with_the_connection() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nhello";
    let mut connection = started(options(), &["GET", "GET"]);
    let (mut seen, _, _) = feed(&mut connection, bytes, &[21, 2, 2]);
    connection.finish(&mut |event| record(&mut seen, event));
    assert_eq!(
        seen,
        [
            Seen::Head(0, 200),
            Seen::Draining,
            Seen::Data(0, b"hello".to_vec()),
            Seen::Done(0),
            Seen::Failed(1, FailureKind::Refused),
        ]
    );
}

#[test]
fn a_response_cut_short_is_truncated() {
    for bytes in
        ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", "HTTP/1.1 100 C\r\n\r\n"]
    {
        let mut connection = started(options(), &["GET", "GET"]);
        let (mut seen, _, _) = feed(&mut connection, bytes.as_bytes(), &[1000]);
        connection.finish(&mut |event| record(&mut seen, event));
        let expected = [Seen::Failed(0, FailureKind::Truncated), Seen::Failed(1, FailureKind::Truncated)];
        assert!(seen.ends_with(&expected), "{bytes:?} gives {seen:?}");
        assert_eq!((connection.capacity(), connection.in_flight()), (0, 0));
    }
}

#[test]
fn close_refuses_what_was_pipelined_behind_it() {
    let last = OK.replace("server: test", "Connection: close");
    let seen = good(&["GET", "GET", "GET"], &format!("{OK}{last}anything"));
    let mut expected = response(0, 200, "hello");
    expected.extend([
        Seen::Head(1, 200),
        Seen::Draining,
        Seen::Data(1, b"hello".to_vec()),
        Seen::Done(1),
        Seen::Failed(2, FailureKind::Refused),
    ]);
    assert_eq!(seen, expected);
}

#[test]
fn what_breaks_the_protocol_fails_every_request() {
    let failed = [Seen::Failed(0, FailureKind::Truncated)];
    for bytes in [
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    ] {
        assert_eq!(bad(bytes), failed);
    }
    assert_eq!(bad(&format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(70_000))), failed);
    assert_eq!(bad("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx").last(), failed.last());
}

#[test]
fn a_response_without_a_request_is_an_error() {
    assert_eq!(bad(&[OK, "H"].concat()), response(0, 200, "hello"));
}

#[test]
fn a_cancelled_request_is_silent_and_ends_the_connection() {
    let mut connection = started(options(), &["GET", "GET"]);
    connection.cancel(0);
    assert_eq!((connection.capacity(), connection.in_flight(), connection.is_draining()), (0, 1, true));
    let (mut seen, _, _) = feed(&mut connection, OK.as_bytes(), &[1000]);
    connection.finish(&mut |event| record(&mut seen, event));
    assert_eq!(seen, [Seen::Failed(1, FailureKind::Truncated)]);
}

#[test]
fn fields_are_shown_on_request() {
    let options = Options { fields: true, ..options() };
    let bytes = ["HTTP/1.1 103 x\r\nearly: 1\r\n\r\n", OK, OK].concat();
    let (seen, _, _) = feed_every_way(|| started(options, &["GET", "GET"]), bytes.as_bytes());
    let mut expected = Vec::new();
    for token in 0..2 {
        expected.push(Seen::Field(token, "server".into(), "test".into()));
        expected.push(Seen::Field(token, "content-length".into(), "5".into()));
        expected.extend(response(token, 200, "hello"));
    }
    assert_eq!(seen, expected);
}

#[test]
fn damaged_bytes_never_panic() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nb: c\r\n\r\n";
    let bytes = [OK, "HTTP/1.1 100 x\r\n\r\n", chunked, OK].concat();
    feed_damaged(|| started(options(), &["GET", "GET", "GET"]), bytes.as_bytes(), 3);
}
