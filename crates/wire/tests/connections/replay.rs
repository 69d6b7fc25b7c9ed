//! What servers of other implementations send, recorded in memory and then cut at every position.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};

use crate::support::{Seen, feed, record, request};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use wire::{Connection, h1, h2, h3};

/// Method and path of the requests, whose tokens count from 0.
const REQUESTS: [(&str, &str); 7] = [
    ("GET", "/known"),
    ("GET", "/unknown"),
    ("HEAD", "/known"),
    ("GET", "/empty"),
    ("GET", "/unchanged"),
    ("POST", "/known"),
    ("GET", "/trailers"),
];

/// A body in pieces, whose length is told beforehand or not.
struct Pieces {
    frames: VecDeque<Frame<Bytes>>,
    len: Option<u64>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.frames.pop_front().map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        self.len.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The value of a field that every response has.
fn long() -> String {
    "long ".repeat(20) + "end"
}

async fn respond<B>(request: http::Request<B>) -> Result<Response<Pieces>, Infallible> {
    let (status, pieces): (_, &[&str]) = match request.uri().path() {
        "/empty" => (StatusCode::NO_CONTENT, &[]),
        "/unchanged" => (StatusCode::NOT_MODIFIED, &[]),
        _ => (StatusCode::OK, &["one", " and two", " and three"]),
    };
    let mut frames: VecDeque<_> = pieces.iter().map(|piece| Frame::data(Bytes::from(*piece))).collect();
    if request.uri().path() == "/trailers" {
        let trailers = [(http::header::ETAG, HeaderValue::from_static("\"end\""))];
        frames.push_back(Frame::trailers(HeaderMap::from_iter(trailers)));
    }
    if request.method() == http::Method::HEAD {
        frames.clear();
    }
    let len = (request.uri().path() == "/known").then(|| pieces.iter().map(|piece| piece.len() as u64).sum());
    let response = Response::builder()
        .status(status)
        .header("x-path", request.uri().path())
        .header("trailer", "etag")
        .header("x-long", long());
    Ok(response.body(Pieces { frames, len }).unwrap())
}

fn started<C: Connection>(mut connection: C) -> C {
    for (token, (method, path)) in (0..).zip(REQUESTS) {
        let body: &[u8] = if method == "POST" { b"body" } else { b"" };
        connection.start(token, &C::Prepared::from(&request(method, path, body)));
    }
    connection
}

/// What the server sends until all requests are done.
fn recorded<C: Connection>(make: impl Fn() -> C, serve: impl AsyncFnOnce(DuplexStream)) -> Vec<u8> {
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let client = async {
        let mut connection = started(make());
        let mut bytes = Vec::new();
        while connection.in_flight() > 0 {
            ours.write_all(connection.output()).await.unwrap();
            connection.output().clear();
            let start = bytes.len();
            assert!(ours.read_buf(&mut bytes).await.unwrap() > 0, "the server has closed the connection");
            connection.receive(&bytes[start..], &mut |_| {}).unwrap();
        }
        bytes
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limit = std::time::Duration::from_secs(60);
    runtime.block_on(async {
        tokio::select! {
            bytes = tokio::time::timeout(limit, client) => bytes.expect("the server answers"),
            () = serve(theirs) => panic!("the server has ended"),
        }
    })
}

/// Feeds what was recorded, cut at each position, and checks the events.
fn replay<C: Connection>(make: impl Fn() -> C, bytes: &[u8]) {
    let whole = feed(&mut started(make()), bytes, &[bytes.len()]);
    let (seen, _, result) = &whole;
    assert_eq!(*result, Ok(()));
    for (token, (method, path)) in (0..).zip(REQUESTS) {
        let of_token = |event: &&Seen| match event {
            Seen::Head(of, _) | Seen::Data(of, _) | Seen::Done(of) => *of == token,
            _ => false,
        };
        let content = if method == "HEAD" { "" } else { "one and two and three" };
        let expected = match path {
            "/empty" => crate::support::response(token, 204, ""),
            "/unchanged" => crate::support::response(token, 304, ""),
            _ => crate::support::response(token, 200, content),
        };
        // In HTTP/2, pieces of different bodies may alternate.
        let mut events: Vec<Seen> = Vec::new();
        for event in seen.iter().filter(of_token) {
            match (events.last_mut(), event) {
                (Some(Seen::Data(_, data)), Seen::Data(_, more)) => data.extend_from_slice(more),
                _ => events.push(event.clone()),
            }
        }
        assert_eq!(events, expected, "{method} {path}");
        let shown = |(name, value): (&str, String)| seen.contains(&Seen::Field(token, name.into(), value));
        assert!(shown(("x-path", path.into())) && shown(("x-long", long())));
    }
    assert_eq!(feed(&mut started(make()), bytes, &vec![1; bytes.len()]), whole);
    for at in 1..bytes.len() {
        assert_eq!(feed(&mut started(make()), bytes, &[at, bytes.len() - at]), whole, "cut at {at}");
    }
}

#[test]
fn http_1_of_hyper() {
    let make = || h1::Connection::new(h1::Options { pipeline: REQUESTS.len(), fields: true, ..Default::default() });
    let bytes = recorded(make, async |transport| {
        let builder = hyper::server::conn::http1::Builder::new();
        builder.serve_connection(TokioIo::new(transport), service_fn(respond)).await.unwrap();
    });
    replay(make, &bytes);
}

#[test]
fn http_2_of_hyper() {
    let make = || h2::Connection::new(h2::Options { fields: true, ..Default::default() });
    let bytes = recorded(make, async |transport| {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.serve_connection(TokioIo::new(transport), service_fn(respond)).await.unwrap();
    });
    replay(make, &bytes);
}

fn python_with_aioquic() -> Option<PathBuf> {
    let kept = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python"));
    [kept, PathBuf::from("python3")].into_iter().find(|python| {
        let probe = Command::new(python).args(["-c", "import aioquic"]).stderr(Stdio::null()).status();
        probe.is_ok_and(|status| status.success())
    })
}

/// One piece of a stream: identifier, bytes, and whether the stream ends.
type Piece = (u64, Vec<u8>, bool);

/// What aioquic answers to a client's streams.
fn aioquic(python: PathBuf, streams: &[Piece]) -> Vec<Piece> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/connections/h3_server.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python runs");
    let mut input = child.stdin.take().unwrap();
    for (stream, bytes, fin) in streams {
        writeln!(input, "{stream} {} {}", hex(bytes), u8::from(*fin)).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "aioquic refuses our requests");
    let text = String::from_utf8(output.stdout).unwrap();
    let unhex = |text: &str| -> Vec<u8> {
        let pairs = text.trim_matches('-').as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    text.lines()
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            (parts[0].parse().unwrap(), unhex(parts[1]), parts[2] == "1")
        })
        .collect()
}

#[test]
fn http_3_of_aioquic() {
    let Some(python) = python_with_aioquic() else {
        testbed::skip("no aioquic; python3 -m venv target/venv && target/venv/bin/pip install aioquic");
        return;
    };
    let start = || {
        let mut connection = h3::Connection::new(h3::Options { fields: true });
        let mut streams = vec![(2, connection.control_stream(), false)];
        for (token, (method, path)) in (0..).zip(REQUESTS) {
            let body: &[u8] = if method == "POST" { b"body" } else { b"" };
            let stream = u64::from(token) * 4;
            let out = connection.start(stream, token, &h3::Prepared::from(&request(method, path, body)));
            streams.push((stream, out.concat(), true));
        }
        (connection, streams)
    };
    let pieces = aioquic(python, &start().1);
    let run = |cut: usize| {
        let (mut connection, _) = start();
        let (mut seen, mut position) = (Vec::new(), 0);
        let mut sink = |event: wire::Event<'_>| record(&mut seen, event);
        for (stream, bytes, fin) in &pieces {
            let at = cut.saturating_sub(position).min(bytes.len());
            position += bytes.len();
            connection.receive(*stream, &bytes[..at], false, &mut sink).unwrap();
            connection.receive(*stream, &bytes[at..], *fin, &mut sink).unwrap();
        }
        assert_eq!(connection.in_flight(), 0);
        seen
    };
    let whole = run(0);
    let mut expected = Vec::new();
    for (token, (method, path)) in (0..).zip(REQUESTS) {
        let body = if method == "POST" { "body" } else { "" };
        let content = format!("{method} {path} {body}");
        let field = |name: &str, value: &str| Seen::Field(token, name.into(), value.into());
        expected.push(field("server", "aioquic"));
        expected.push(field("content-length", &content.len().to_string()));
        expected.push(field("x-long", &long()));
        expected.push(Seen::Head(token, 200));
        if method != "HEAD" {
            expected.extend([Seen::Data(token, content.into_bytes()), field("x-trailer", "end")]);
        }
        expected.push(Seen::Done(token));
    }
    assert_eq!(whole, expected);
    for cut in 1..pieces.iter().map(|(_, bytes, _)| bytes.len()).sum() {
        assert_eq!(run(cut), whole, "cut at {cut}");
    }
}
