use wire::trace::Item;
use wire::trace::h1::Trace;

use crate::{every_way, fields};

fn response(method: &str, bytes: &str) -> Vec<Item> {
    every_way(bytes.as_bytes(), || {
        let mut trace = Trace::response(method);
        move |bytes: &[u8], mut report: &mut dyn FnMut(Item)| trace.feed(bytes, &mut report)
    })
}

fn head(start_line: &str, pairs: &[(&str, &str)], bytes: u64) -> Item {
    Item::Head { start_line: start_line.to_owned(), fields: fields(pairs), bytes }
}

fn chunk(size: u64, extensions: &str) -> Item {
    Item::Chunk { size, extensions: extensions.to_owned() }
}

#[test]
fn a_request_is_its_head() {
    let text = "POST /a?b HTTP/1.1\r\nHost: origin\r\nX-Empty:\r\ncontent-length: 2\r\n\r\nhi";
    let items = every_way(text.as_bytes(), || {
        let mut trace = Trace::request();
        move |bytes: &[u8], mut report: &mut dyn FnMut(Item)| trace.feed(bytes, &mut report)
    });
    let expected = [("Host", "origin"), ("X-Empty", ""), ("content-length", "2")];
    assert_eq!(items, [head("POST /a?b HTTP/1.1", &expected, text.len() as u64 - 2)]);
}

#[test]
fn chunks_and_trailers_are_told() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                4;name=\"v\"\r\nWiki\r\n0A ; x\r\n0123456789\r\n0\r\nExpires: never\r\nX: 1\r\n\r\n";
    let trailers = Item::Trailers { fields: fields(&[("Expires", "never"), ("X", "1")]), bytes: 24 };
    assert_eq!(
        response("GET", text),
        [
            head("HTTP/1.1 200 OK", &[("Transfer-Encoding", "chunked")], 47),
            chunk(4, "name=\"v\""),
            chunk(10, "x"),
            chunk(0, ""),
            trailers
        ]
    );
    let without = response("GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(without[1..], [chunk(0, "")]);
}

#[test]
fn interim_responses_and_odd_status_lines_are_shown_as_they_came() {
    let text = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.0 404 \nServer:  a b \n\nbody";
    assert_eq!(
        response("GET", text),
        [head("HTTP/1.1 103 Early Hints", &[("Link", "</a>")], 40), head("HTTP/1.0 404", &[("Server", "a b")], 29)]
    );
}

#[test]
fn the_response_to_head_has_no_chunks() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n";
    assert_eq!(response("HEAD", text).len(), 1);
    assert_eq!(response("GET", text).len(), 2);
}

#[test]
fn an_onlooker_that_cannot_follow_says_so_once() {
    for (text, shown) in [
        ("SSH-2.0-OpenSSH_9.2\r\n\r\nmore\r\n\r\n", 1),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n0\r\n\r\n", 1),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 2),
    ] {
        let items = response("GET", text);
        assert_eq!(items.len(), shown + 1, "{items:?}");
        assert!(matches!(items.last(), Some(Item::Unreadable { .. })), "{items:?}");
    }
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(70_000));
    assert!(matches!(response("GET", &long)[..], [Item::Unreadable { .. }]));
}
