//! What is sent, and what answers have to be like.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use measure::Protocol;

use crate::support::{Origin, Witness, failed, load, measured};

#[test]
fn bodies_go_both_ways_in_full() {
    let origin = Origin::start();
    let body = "b".repeat(100_000);
    for protocol in Protocol::ALL {
        let summary = origin.measure(protocol, "/echo", &["-n", "6", "-d", &body]);
        assert_eq!(summary.traffic.data_bytes, 600_000, "{protocol}");
        assert!(summary.traffic.sent_bytes > 600_000);
        let summary = origin.measure(protocol, "/bytes/3000000", &["-n", "2"]);
        assert_eq!(summary.traffic.data_bytes, 6_000_000, "{protocol}");
    }
}

#[test]
fn a_file_larger_than_every_window_is_uploaded_whole() {
    const SIZE: usize = 20_000_000;
    let origin = Origin::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("large");
    fs::write(&file, vec![b'x'; SIZE]).unwrap();
    for protocol in Protocol::ALL {
        let mut command = origin.load(protocol, "/echo", &["--expect-size", &SIZE.to_string(), "-X", "POST", "-T"]);
        let summary = measured(command.arg(&file));
        assert_eq!(summary.traffic.data_bytes, SIZE as u64, "{protocol}");
    }
}

#[test]
fn bodies_come_from_the_command_line_files_and_standard_input_as_they_are() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    fs::write(&file, &bytes).unwrap();
    let from_file = format!("@{}", file.display());
    let from_stdin = |arguments: &[&str]| {
        let mut command = load([&witness.url("/stdin"), "--json"]);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(child.wait().unwrap().success());
    };
    measured(load([&witness.url("/text"), "-d", "some text"]));
    measured(load([&witness.url("/file"), "-d", &from_file, "-H", "Content-Type: text/plain"]));
    measured(load([&witness.url("/upload"), "-T"]).arg(&file));
    from_stdin(&["-d", "@-"]);
    from_stdin(&["-T", "-", "-X", "PATCH"]);
    let requests = witness.requests();
    let sent: Vec<(&str, &str)> =
        requests.iter().map(|request| (request.method.as_str(), request.path.as_str())).collect();
    assert_eq!(
        sent,
        [("POST", "/text"), ("POST", "/file"), ("PUT", "/upload"), ("POST", "/stdin"), ("PATCH", "/stdin")]
    );
    assert_eq!(requests[0].body, b"some text");
    assert!(requests[1..].iter().all(|request| request.body == bytes));
    assert_eq!(requests[1].header("content-type"), Some("text/plain"));
}

#[test]
fn urls_are_requested_as_often_as_their_weights_say() {
    let witness = Witness::start();
    let urls = [witness.url("/often?a=b"), witness.url("/seldom")];
    let summary = measured(load(&urls).args(["--weights", "3,1", "-n", "400", "-c", "2"]));
    assert_eq!(summary.different_requests, 2);
    let (often, seldom) = (witness.count("/often?a=b"), witness.count("/seldom"));
    assert_eq!(often + seldom, 400);
    assert!((295..=305).contains(&often), "{often} of 400 with a weight of 3 of 4");
    measured(load(&urls).args(["-n", "10"]));
    assert_eq!((witness.count("/often?a=b"), witness.count("/seldom")), (often + 5, seldom + 5));
}

#[test]
fn a_file_of_urls_is_requested_in_turn() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls.txt");
    fs::write(&file, format!("{}\n\n/b\r\n/c?d\n", witness.url("/a"))).unwrap();
    measured(load(["-n", "6", "-i"]).arg(&file));
    let paths: Vec<String> = witness.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/a", "/b", "/c?d", "/a", "/b", "/c?d"]);

    let mut command = load([&witness.url("/base"), "-i", "-", "-n", "2"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"/x\n/y\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!((witness.count("/x"), witness.count("/y"), witness.count("/base")), (1, 1, 0));
}

#[test]
fn a_file_of_requests_says_everything_of_each() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("order.json"), "{}").unwrap();
    let text = format!(
        r#"
        url = "{}"
        [[request]]
        url = "/list"
        weight = 4
        headers = ["Accept: text/html"]
        [[request]]
        url = "/order"
        headers = ["Content-Type: application/json", "X-Own: 1"]
        body_file = "order.json"
        [[request]]
        url = "/order/1"
        method = "DELETE"
        body = "why"
        "#,
        witness.url("/")
    );
    let file = folder.path().join("requests.toml");
    fs::write(&file, text).unwrap();
    let common = ["-n", "60", "-H", "Accept: */*", "-H", "X-Own: 2"];
    measured(load(["--request-file"]).arg(&file).args(common));
    for (path, expected) in [("/list", 38..=42), ("/order", 8..=12), ("/order/1", 8..=12)] {
        assert!(expected.contains(&witness.count(path)), "{path}: {} of 60", witness.count(path));
    }
    for request in witness.requests() {
        let fields = ["accept", "content-type", "x-own"].map(|name| request.header(name));
        let (method, body) = (request.method.as_str(), request.body.as_slice());
        let expected = match request.path.as_str() {
            "/list" => ("GET", &b""[..], [Some("text/html"), None, Some("2")]),
            "/order" => ("POST", &b"{}"[..], [Some("*/*"), Some("application/json"), Some("1")]),
            _ => ("DELETE", &b"why"[..], [Some("*/*"), None, Some("2")]),
        };
        assert_eq!((method, body, fields), expected, "{}", request.path);
    }
}

#[test]
fn header_fields_come_from_a_file_too() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fields");
    fs::write(&file, "X-One: 1\nX-Two: a: b\n").unwrap();
    measured(load([&witness.url("/"), "-H", &format!("@{}", file.display()), "-H", "Host: other"]));
    let request = &witness.requests()[0];
    let fields = ["x-one", "x-two", "host"].map(|name| request.header(name));
    assert_eq!(fields, [Some("1"), Some("a: b"), Some("other")]);
}

#[test]
fn responses_are_checked() {
    let origin = Origin::start();
    let load = |path: &str, arguments: &[&str]| origin.load(Protocol::H2, path, arguments);
    let message = failed(load("/nothing", &["-n", "3", "--json"]), 1);
    assert_eq!(message, "fairlane: status 404 (3 times)\n");
    failed(load("/nothing", &["--expect-status", "200,4xx"]), 0);
    assert_eq!(failed(load("/api/test", &["--expect-status", "204"]), 1), "fairlane: status 200\n");
    failed(load("/bytes/1000", &["--expect-size", "1kB"]), 0);
    let message = failed(load("/bytes/1000", &["--expect-size", "999"]), 1);
    assert!(message.contains("1000 bytes instead of 999"), "{message}");
}
