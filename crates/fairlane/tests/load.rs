//! `fairlane load` as its users meet it, against `fairlane serve`: what both sides count, what is printed, exit codes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use measure::{LoadSummary, OriginCounters, Protocol, ProtocolCounters};
use serde_json::Value;
use tempfile::TempDir;

/// A running origin; ended when the test is over.
struct Origin {
    child: Child,
    ready: Value,
    directory: TempDir,
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Origin {
    fn start() -> Origin {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let mut child = fairlane()
            .args(["serve", "--json", "--admin", "127.0.0.1:0"])
            .args(["--tls-dir", &path("tls"), "--stats", &path("stats.json")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).expect("one line of JSON when ready");
        Origin { child, ready, directory }
    }

    fn url(&self, protocol: Protocol, path: &str) -> String {
        format!("{}://localhost:{}{path}", protocol.scheme(), self.ready["port"])
    }

    /// `fairlane load` over a protocol, with the origin's authority trusted.
    fn load(&self, protocol: Protocol, path: &str, arguments: &[&str]) -> Command {
        let mut command = fairlane();
        command.args(["load", &self.url(protocol, path), "--protocol", protocol.name(), "--cacert"]);
        command.arg(self.directory.path().join("tls/ca.pem")).args(arguments);
        command
    }

    /// A load that succeeds.
    fn measure(&self, protocol: Protocol, path: &str, arguments: &[&str]) -> LoadSummary {
        let output = self.load(protocol, path, arguments).arg("--json").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{protocol}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Requests that the origin has received over a protocol so far.
    fn requests(&self, protocol: Protocol) -> u64 {
        let mut admin = TcpStream::connect(self.ready["admin"].as_str().unwrap()).unwrap();
        admin.write_all(b"GET /stats HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        admin.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let counters: OriginCounters = serde_json::from_str(body).unwrap();
        counters.protocols.get(&protocol).map_or(0, |counts| counts.requests)
    }

    /// Ends the origin and gives what it counted.
    fn counters(mut self) -> OriginCounters {
        signal(&self.child, "TERM");
        assert!(self.child.wait().unwrap().success());
        serde_json::from_slice(&fs::read(self.directory.path().join("stats.json")).unwrap()).unwrap()
    }
}

fn fairlane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fairlane"))
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

fn failed(command: &mut Command, code: i32) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{message}");
    message
}

#[test]
fn client_and_origin_count_the_same_over_every_protocol() {
    let origin = Origin::start();
    let mut summaries = Vec::new();
    for protocol in Protocol::ALL {
        let streams = if protocol.multiplexes() { "5" } else { "1" };
        summaries.push(origin.measure(protocol, "/bytes/1000", &["-n", "200", "-c", "4", "-m", streams, "-t", "2"]));
    }
    let counters = origin.counters();
    let mut ciphers: Vec<String> = Vec::new();
    for summary in summaries {
        let protocol = summary.protocol;
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (200, 0));
        let ProtocolCounters { connections, handshakes, requests, body_bytes, max_streams_per_connection, .. } =
            counters.protocols[&protocol];
        assert_eq!((requests, body_bytes), (200, summary.traffic.data_bytes), "{protocol}");
        assert_eq!((connections, handshakes), (summary.connections.completed, summary.connections.handshakes));
        assert_eq!(summary.connections.used, 4);
        assert!(max_streams_per_connection <= u64::from(summary.connections.max_streams));
        assert_eq!(summary.tls.is_some(), protocol.is_encrypted());
        if let Some(tls) = summary.tls {
            let facts = (tls.version.as_str(), tls.key_exchange.as_str(), tls.verification.as_str());
            assert_eq!(facts, ("TLSv1.3", "X25519MLKEM768", "cacert"), "{protocol}");
            ciphers.push(tls.cipher);
        }
        if protocol == Protocol::H3 {
            assert_eq!(summary.congestion_control, "cubic");
            assert_eq!(summary.initial_window_packets, Some(10));
        }
    }
    assert!(ciphers[0].starts_with("TLS_"), "{ciphers:?}");
    assert_eq!(ciphers, vec![ciphers[0].clone(); 3], "the same over h1, h2 and h3");
}

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
fn a_page_takes_one_connection_where_streams_are_and_several_where_not() {
    let origin = Origin::start();
    for protocol in Protocol::ALL {
        let summary = origin.measure(protocol, "/page/30/5000", &["--page", "-n", "2"]);
        assert_eq!(summary.pages.len(), 2);
        assert_eq!(summary.requests.succeeded, 62);
        for page in &summary.pages {
            assert_eq!(page.objects, 30, "{protocol}");
            assert!(page.data_bytes > 30 * 5000);
            // The others are opened, but the first may have fetched everything before their handshakes are over.
            let expected = if protocol.multiplexes() { 1..=1 } else { 1..=6 };
            assert!(expected.contains(&page.connections), "{protocol}: {}", page.connections);
        }
        let expected = if protocol.multiplexes() { 2..=2 } else { 4..=12 };
        assert!(expected.contains(&summary.connections.opened), "{protocol}: {}", summary.connections.opened);
    }
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let origin = Origin::start();
    for protocol in [Protocol::H1c, Protocol::H3] {
        let mut command = origin.load(protocol, "/bytes/10", &["-D", "10m", "-c", "2", "--json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        // By the time of the tenth request on two connections, earlier ones have been answered.
        while origin.requests(protocol) < 10 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{protocol}: ten requests within half a minute");
        }
        signal(&child, "INT");
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(130));
        let summary: LoadSummary = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((summary.requests.succeeded > 0, summary.requests.failed), (true, 0));
        assert!(String::from_utf8_lossy(&output.stderr).contains("stopped before the end"));
    }
}

#[test]
fn exit_codes_say_how_it_went() {
    let origin = Origin::start();
    let load = |protocol, path: &str, arguments: &[&str]| origin.load(protocol, path, arguments);
    let message = failed(&mut load(Protocol::H2, "/nothing", &["-n", "3", "--json"]), 1);
    assert_eq!(message, "fairlane: status 404 (3 times)\n");
    for (arguments, part) in [
        (["-c", "0"], "-c 0"),
        (["-n", "0"], "-n 0"),
        (["-m", "0"], "-m 0"),
        (["-c", "2"], "-c is at most -n"),
        (["-H", "no colon"], "Name: value"),
        (["--initial-window", "1001"], "1..=1000"),
        (["-D", "soon"], "a duration such as"),
    ] {
        let message = failed(&mut load(Protocol::H2, "/", &arguments), 2);
        assert!(message.contains(part), "{message}");
    }
    let message = failed(&mut load(Protocol::H1, "/", &["-n", "2", "-m", "2"]), 2);
    assert!(message.contains("--pipeline"), "{message}");
    let message = failed(fairlane().args(["load", "http://localhost/", "--protocol", "h3"]), 2);
    assert!(message.contains("h1c or h2c"), "{message}");
    let message = failed(fairlane().args(["load", &origin.url(Protocol::H2, "/")]), 3);
    assert!(message.contains("--cacert"), "a certificate that nobody trusts: {message}");
}

#[test]
fn more_connections_than_files_may_be_open_are_refused() {
    let origin = Origin::start();
    let limited = |limit: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit {limit} 100; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_fairlane")]);
        shell.args(["load", &origin.url(Protocol::H1c, "/bytes/1"), "-n", "200", "-c", "200"]);
        shell
    };
    let message = failed(&mut limited("-n"), 2);
    assert!(message.contains("may have 100") && message.contains("ulimit -n"), "{message}");
    assert_eq!(failed(&mut limited("-S -n"), 0), "", "the soft limit is raised");
}

#[test]
fn output_that_nobody_takes_is_no_panic() {
    let origin = Origin::start();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut load = origin.load(Protocol::H1c, "/bytes/1", &[]);
    let message = failed(load.stdout(full()), 3);
    assert!(message.contains("cannot write to standard output"), "{message}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut load = origin.load(Protocol::H1c, "/bytes/1", &[]);
    assert_eq!(failed(load.stdout(writer), 0), "", "a reader that has had enough is no failure");
}

#[test]
fn the_text_says_what_was_spoken_and_how_long_it_took() {
    let origin = Origin::start();
    let output = origin.load(Protocol::H2, "/bytes/100", &["-n", "50", "-c", "2", "-m", "5"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "HTTP/2 (h2) · TLSv1.3 TLS_",
        "ALPN h2",
        "2 connections x 5 streams = 10 in flight",
        "requests: 50 total, 50 started, 50 done, 50 succeeded, 0 failed, 0 errored, 0 timeout",
        "status codes: 50 2xx, 0 3xx, 0 4xx, 0 5xx",
        "space savings",
        "percentiles     50%",
        "first byte",
        "us per request",
    ] {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
}
