use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use wire::trace::h2::Trace;
use wire::trace::{Code, Content, Item, Setting};

use crate::{every_way, fields, frame};

fn follow(make: impl Fn() -> Trace, bytes: &[u8]) -> Vec<Item> {
    every_way(bytes, || {
        let mut trace = make();
        move |bytes: &[u8], mut report: &mut dyn FnMut(Item)| trace.feed(bytes, &mut report)
    })
}

fn server(bytes: &[u8]) -> Vec<Item> {
    follow(Trace::server, bytes)
}

fn code(name: &str, value: u64) -> Code {
    Code { name: name.to_owned(), value }
}

#[test]
fn each_frame_is_decoded() {
    let settings =
        Content::Settings { settings: vec![Setting { name: "MAX_CONCURRENT_STREAMS".to_owned(), value: 128 }] };
    let goaway = Content::Goaway { stream: 7, code: Some(code("ENHANCE_YOUR_CALM", 0xb)), debug: "slow".to_owned() };
    for (bytes, item) in [
        (&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 128][..], frame("SETTINGS", 0, 6, &[], settings)),
        (&[0, 0, 0, 4, 1, 0, 0, 0, 0], frame("SETTINGS", 0, 0, &["ACK"], Content::Settings { settings: Vec::new() })),
        (
            &[0, 0, 4, 8, 0, 0, 0, 0, 3, 0, 1, 0, 0],
            frame("WINDOW_UPDATE", 3, 4, &[], Content::Window { increment: 65_536 }),
        ),
        (
            &[0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8],
            frame("RST_STREAM", 5, 4, &[], Content::Reset { code: code("CANCEL", 8) }),
        ),
        (
            &[0, 0, 8, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2],
            frame("PING", 0, 8, &["ACK"], Content::Ping { number: 0x102 }),
        ),
        (
            &[0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0xb, b's', b'l', b'o', b'w'],
            frame("GOAWAY", 0, 12, &[], goaway),
        ),
        (&[0, 0, 3, 0, 9, 0, 0, 0, 1, 1, b'x', 0], frame("DATA", 1, 3, &["END_STREAM", "PADDED"], Content::Opaque)),
        (&[0, 0, 1, 0xee, 0x40, 0, 0, 0, 0, 9], frame("0xee", 0, 1, &["0x40"], Content::Opaque)),
    ] {
        // Twice, so that the second one shows where the first one ended.
        assert_eq!(server(&[bytes, bytes].concat()), [item.clone(), item]);
    }
    let wrong = Content::Malformed { reason: "the payload has a wrong length".to_owned() };
    assert_eq!(server(&[0, 0, 1, 8, 0, 0, 0, 0, 0, 1]), [frame("WINDOW_UPDATE", 0, 1, &[], wrong)]);
}

/// RFC 7541 appendix C.3.1, with padding, with a priority, and in two parts.
#[test]
fn fields_are_found_in_any_frame() {
    let block = b"\x82\x86\x84\x41\x0fwww.example.com";
    let pairs = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    let content = || Content::Fields { fields: fields(&pairs), encoded_bytes: 20, decoded_bytes: 52 };
    let mut padded = vec![0, 0, 28, 1, 0x2c, 0, 0, 0, 1, 2, 0x80, 0, 0, 0, 16];
    padded.extend_from_slice(block);
    padded.extend_from_slice(&[0, 0]);
    let flags = ["END_HEADERS", "PADDED", "PRIORITY"];
    assert_eq!(server(&padded), [frame("HEADERS", 1, 28, &flags, content())]);
    let mut split = vec![0, 0, 3, 1, 1, 0, 0, 0, 1];
    split.extend_from_slice(&block[..3]);
    split.extend_from_slice(&[0, 0, 17, 9, 4, 0, 0, 0, 1]);
    split.extend_from_slice(&block[3..]);
    let first = frame("HEADERS", 1, 3, &["END_STREAM"], Content::Opaque);
    assert_eq!(server(&split), [first, frame("CONTINUATION", 1, 17, &["END_HEADERS"], content())]);
}

#[test]
fn an_onlooker_that_cannot_follow_says_so_once() {
    let items = server(&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0xbe, 0, 0, 0, 4, 1, 0, 0, 0, 0]);
    assert!(matches!(&items[..], [Item::Frame(_), Item::Unreadable { .. }]), "{items:?}");
    let items = follow(Trace::client, b"GET / HTTP/1.1\r\nhost: origin\r\n\r\n");
    assert!(matches!(&items[..], [Item::Unreadable { .. }]), "{items:?}");
}

/// Passes bytes on and keeps a copy of them.
async fn copy<T, U>(mut from: ReadHalf<T>, mut to: WriteHalf<U>, copy: Arc<Mutex<Vec<u8>>>)
where
    T: tokio::io::AsyncRead,
    U: tokio::io::AsyncWrite,
{
    let mut buffer = vec![0; 1000];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        copy.lock().unwrap().extend_from_slice(&buffer[..count]);
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// Answers each request with fields, 40,000 bytes and trailers; leaves after the second one.
async fn serve(transport: tokio::io::DuplexStream) {
    let mut connection = h2::server::handshake(transport).await.unwrap();
    for number in 1..=2 {
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let response = Response::builder().header("server", "oracle").header("x-number", number);
        let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
        tokio::spawn(async move {
            stream.send_data(Bytes::from(vec![b'x'; 40_000]), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "17".parse().unwrap());
            stream.send_trailers(trailers).unwrap();
        });
    }
    connection.graceful_shutdown();
    while let Some(Ok(_)) = connection.accept().await {}
}

/// What both sides of a conversation of the h2 crate with itself sent.
async fn conversation() -> (Vec<u8>, Vec<u8>) {
    let (ours, client_end) = tokio::io::duplex(100_000);
    let (theirs, server_end) = tokio::io::duplex(100_000);
    let (from_client, to_client) = tokio::io::split(client_end);
    let (from_server, to_server) = tokio::io::split(server_end);
    let (sent, received) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Vec<u8>>>::default());
    tokio::spawn(copy(from_client, to_server, Arc::clone(&sent)));
    tokio::spawn(copy(from_server, to_client, Arc::clone(&received)));
    let server = tokio::spawn(serve(theirs));
    let (client, connection) = h2::client::handshake(ours).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client;
    for _ in 0..2 {
        client = client.ready().await.unwrap();
        let request = Request::get("https://origin/path").header("x-ours", "a value").body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        let mut body = response.await.unwrap().into_body();
        while let Some(data) = body.data().await {
            body.flow_control().release_capacity(data.unwrap().len()).unwrap();
        }
        assert_eq!(body.trailers().await.unwrap().unwrap()["x-sum"], "17");
    }
    drop(client);
    connection.await.unwrap().unwrap();
    server.await.unwrap();
    let (sent, received) = (sent.lock().unwrap().clone(), received.lock().unwrap().clone());
    (sent, received)
}

/// Stream, flags and fields of a frame with fields.
type Section = (u64, Vec<String>, Vec<(String, String)>);

fn sections(items: &[Item]) -> Vec<Section> {
    let mut found = Vec::new();
    for item in items {
        if let Item::Frame(frame) = item
            && let Content::Fields { fields, .. } = &frame.content
        {
            let mut fields: Vec<_> = fields.iter().map(|field| (field.name.clone(), field.value.clone())).collect();
            fields.sort();
            found.push((frame.stream, frame.flags.clone(), fields));
        }
    }
    found
}

fn section(stream: u64, flags: &[&str], pairs: &[(&str, &str)]) -> Section {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    (stream, flags.iter().map(|flag| (*flag).to_owned()).collect(), pairs)
}

#[tokio::test]
async fn a_conversation_of_another_implementation_is_understood() {
    let (sent, received) = conversation().await;
    let (sent, received) = (follow(Trace::client, &sent), server(&received));
    assert_eq!(sent[0], Item::Preface);
    let request =
        [(":authority", "origin"), (":method", "GET"), (":path", "/path"), (":scheme", "https"), ("x-ours", "a value")];
    let both = ["END_STREAM", "END_HEADERS"];
    assert_eq!(sections(&sent), [section(1, &both, &request), section(3, &both, &request)]);
    let head = |number| [(":status", "200"), ("server", "oracle"), ("x-number", number)];
    assert_eq!(
        sections(&received),
        [
            section(1, &["END_HEADERS"], &head("1")),
            section(1, &both, &[("x-sum", "17")]),
            section(3, &["END_HEADERS"], &head("2")),
            section(3, &both, &[("x-sum", "17")]),
        ]
    );
    let data: u64 = received
        .iter()
        .filter_map(|item| match item {
            Item::Frame(frame) if frame.name == "DATA" => Some(frame.length),
            _ => None,
        })
        .sum();
    assert_eq!(data, 80_000);
    let goaway = |item: &Item| matches!(item, Item::Frame(frame) if matches!(frame.content, Content::Goaway { .. }));
    assert!(received.iter().any(goaway), "{received:?}");
    assert!(!sent.iter().chain(&received).any(|item| matches!(item, Item::Unreadable { .. })));
}
