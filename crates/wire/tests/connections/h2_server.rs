//! HTTP/2 against the server of the h2 crate, in memory.

use std::collections::VecDeque;
use std::time::Duration;

use crate::support::{Seen, record, request};
use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use wire::h2::{Connection, Options, Prepared};
use wire::{Connection as _, Event, FailureKind, Token};

/// Answers each request with its body, and with fields of its own that fill the dynamic table.
async fn serve(transport: DuplexStream, builder: h2::server::Builder) {
    let mut connection = builder.handshake::<_, Bytes>(transport).await.unwrap();
    let mut number = 0;
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        number += 1;
        tokio::spawn(async move {
            let (head, mut body) = request.into_parts();
            assert_eq!(head.headers["user-agent"], "fairlane");
            let mut received = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                received.extend_from_slice(&data);
                body.flow_control().release_capacity(data.len()).unwrap();
            }
            if let Some(length) = head.headers.get("content-length") {
                assert_eq!(length.to_str().unwrap(), received.len().to_string());
            }
            let response = http::Response::builder()
                .status(if number % 5 == 0 { 404 } else { 200 })
                .header("server", "oracle")
                .header("x-number", number.to_string())
                .header("x-path", head.uri.path());
            let mut stream = respond.send_response(response.body(()).unwrap(), received.is_empty()).unwrap();
            if received.is_empty() {
                return;
            }
            let mut rest = Bytes::from(received);
            while !rest.is_empty() {
                stream.reserve_capacity(rest.len());
                let Some(capacity) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
                    return;
                };
                let piece = rest.split_to(capacity.unwrap().min(rest.len()));
                stream.send_data(piece, rest.is_empty()).unwrap();
            }
        });
    }
}

/// Sends `count` requests with random bodies as fast as the connection takes them, and checks what comes back.
async fn exchange(options: Options, builder: h2::server::Builder, count: Token, seed: u64) {
    let (transport, theirs) = tokio::io::duplex(5000);
    let (mut reader, mut writer) = tokio::io::split(transport);
    let server = tokio::spawn(serve(theirs, builder));
    let mut random = StdRng::seed_from_u64(seed);
    let bodies: Vec<Vec<u8>> = (0..count)
        .map(|token| {
            let len = if random.random_bool(0.5) { 0 } else { random.random_range(1..100_000) };
            (0..len).map(|at| (at as u32 ^ token) as u8).collect()
        })
        .collect();
    let mut connection = Connection::new(options);
    let mut seen = Vec::new();
    // Before its SETTINGS have come, the server may refuse requests, which are sent again.
    let mut waiting: VecDeque<Token> = (0..count).collect();
    let mut done = 0;
    let mut buffer = vec![0; 70_000];
    while done < count {
        while connection.capacity() > 0
            && let Some(token) = waiting.pop_front()
        {
            let path = format!("/{}", token % 7);
            connection.start(token, &Prepared::from(&request("POST", &path, &bodies[token as usize])));
        }
        assert!(connection.in_flight() <= options.max_streams);
        // Writing must not wait for the server to read, for it may be waiting for us to read.
        let mut output = std::mem::take(connection.output());
        let size = random.random_range(1..buffer.len());
        tokio::select! {
            written = writer.write(&output), if !output.is_empty() => {
                output.drain(..written.unwrap());
            }
            read = reader.read(&mut buffer[..size]) => {
                let read = read.unwrap();
                assert!(read > 0, "the server has closed the connection");
                connection.receive(&buffer[..read], &mut |event| {
                    match event {
                        Event::Done { .. } => done += 1,
                        Event::Failed { token, kind: FailureKind::Refused } => waiting.push_back(token),
                        Event::Failed { .. } | Event::Draining => panic!("{event:?}"),
                        _ => {}
                    }
                    record(&mut seen, event);
                }).unwrap();
            }
        }
        output.append(connection.output());
        *connection.output() = output;
    }
    drop((reader, writer));
    server.await.unwrap();
    for token in 0..count {
        let data = seen.iter().filter_map(|event| match event {
            Seen::Data(of, data) if *of == token => Some(data.as_slice()),
            _ => None,
        });
        assert!(data.collect::<Vec<_>>().concat() == bodies[token as usize], "the body of request {token} differs");
        let heads = seen.iter().filter(|event| matches!(event, Seen::Head(of, 200 | 404) if *of == token));
        assert_eq!(heads.count(), 1);
    }
    if options.fields {
        let numbers = seen.iter().filter(|event| matches!(event, Seen::Field(_, name, _) if name == "x-number"));
        assert_eq!(numbers.count(), count as usize);
    }
}

fn run(options: Options, builder: h2::server::Builder, count: Token) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let work = exchange(options, builder, count, u64::from(options.stream_window));
    let limit = Duration::from_secs(120);
    runtime.block_on(async { tokio::time::timeout(limit, work).await }).expect("the exchange stopped making progress");
}

#[test]
fn with_default_windows() {
    run(Options { max_streams: 20, ..Options::default() }, h2::server::Builder::new(), 300);
}

#[test]
fn with_small_windows_and_every_field() {
    let options =
        Options { max_streams: 50, stream_window: 3000, connection_window: 65_535, fields: true, ..Options::default() };
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(2000).initial_connection_window_size(70_000).max_concurrent_streams(7);
    run(options, builder, 100);
}

#[test]
fn with_large_frames_and_no_dynamic_table() {
    let options = Options { max_frame_size: 100_000, header_table_size: 0, ..Options::default() };
    let mut builder = h2::server::Builder::new();
    builder.max_frame_size(1 << 20).header_table_size(0);
    run(options, builder, 100);
}
