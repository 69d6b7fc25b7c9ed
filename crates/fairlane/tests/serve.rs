//! `fairlane serve` as its users meet it: the command line, what it prints, signals, files, and public clients.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use measure::{OriginCounters, Protocol};
use serde_json::Value;

/// A running `fairlane serve`, killed when a test fails half-way.
struct Serve {
    child: Child,
    ready: Value,
}

impl Serve {
    fn start(arguments: &[&str]) -> Serve {
        let mut child = fairlane(arguments).arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Serve { child, ready: serde_json::from_str(&line).expect("one line of JSON when ready") }
    }

    fn port(&self) -> u64 {
        self.ready["port"].as_u64().unwrap()
    }

    fn url(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://localhost:{}{path}", self.port())
    }

    fn counters(&self) -> OriginCounters {
        let url = format!("http://{}/stats", self.ready["admin"].as_str().unwrap());
        serde_json::from_slice(&succeed(Command::new("curl").args(["-sSf", &url]))).unwrap()
    }

    fn await_request_in_flight(&self) {
        while !self.counters().protocols.values().any(|counts| counts.in_flight > 0) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn signal(&self, name: &str) {
        succeed(Command::new("kill").args(["-s", name, &self.child.id().to_string()]));
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fairlane(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlane"));
    command.arg("serve").args(arguments);
    command
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = fairlane(arguments).output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{message}");
    message
}

fn succeed(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_signal_lets_the_request_in_flight_finish_and_writes_the_counters() {
    let directory = tempfile::tempdir().unwrap();
    let stats = directory.path().join("stats.json");
    let mut serve = Serve::start(&["--admin", "127.0.0.1:0", "--stats", path(&stats), "--delay", "5ms"]);
    let client =
        Command::new("curl").args(["-sSf", &serve.url("http", "/delay/400")]).stdout(Stdio::piped()).spawn().unwrap();
    serve.await_request_in_flight();
    serve.signal("TERM");

    assert_eq!(client.wait_with_output().unwrap().stdout, br#"{"delay_ms":400}"#);
    assert_eq!(serve.exit_code(), Some(0));
    let counters: OriginCounters = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    assert_eq!(counters.protocols.keys().collect::<Vec<_>>(), [&Protocol::H1c]);
    assert_eq!((counters.protocols[&Protocol::H1c].requests, counters.protocols[&Protocol::H1c].body_bytes), (1, 16));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut serve = Serve::start(&["--admin", "127.0.0.1:0"]);
    let mut client = Command::new("curl").args(["-s", &serve.url("http", "/delay/30000")]).spawn().unwrap();
    serve.await_request_in_flight();
    serve.signal("INT");
    // The admin address closes when the first signal has been seen.
    let admin = serve.ready["admin"].as_str().unwrap().to_owned();
    while std::net::TcpStream::connect(&admin).is_ok() {
        std::thread::sleep(Duration::from_millis(2));
    }
    serve.signal("INT");
    assert_eq!(serve.exit_code(), Some(130));
    assert!(!client.wait().unwrap().success());
}

#[test]
fn what_cannot_be_served_is_named() {
    let serve = Serve::start(&[]);
    let port = serve.port().to_string();
    let taken = refused(&["--port", &port]);
    assert!(taken.contains(&format!("port {port}")) && taken.contains("0.0.0.0"), "{taken}");

    let missing = refused(&["--cert", "missing.pem", "--key", "missing.pem"]);
    assert!(missing.contains("cannot read missing.pem"), "{missing}");
    let elsewhere = refused(&["--bind", "192.0.2.1"]);
    assert!(elsewhere.contains("192.0.2.1"), "{elsewhere}");
    let protocol = refused(&["--protocols", "h1,http3"]);
    assert!(protocol.contains("'http3'"), "{protocol}");
    let directory = tempfile::tempdir().unwrap();
    let (nowhere, tls) = (directory.path().join("missing/stats.json"), directory.path().join("tls"));
    let stats = refused(&["--stats", path(&nowhere), "--tls-dir", path(&tls)]);
    assert!(stats.contains(path(&nowhere)), "{stats}");
    let stats = refused(&["--stats", path(directory.path())]);
    assert!(stats.contains(path(directory.path())), "{stats}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    let delay = refused(&["--delay", "31s"]);
    assert!(delay.contains("the longest delay is 30s"), "{delay}");
}

#[test]
fn what_it_prints_says_how_to_reach_and_trust_it() {
    let directory = tempfile::tempdir().unwrap();
    let text = |arguments: &[&str]| {
        let mut child = fairlane(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let text: Vec<String> = lines.by_ref().take(3).map(Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        text
    };
    let kept = text(&["--tls-dir", path(directory.path())]);
    assert!(kept[0].starts_with("h1c h2c") && kept[0].contains(" http://localhost:"), "{kept:?}");
    assert!(kept[1].starts_with("h1 h2 h3") && kept[1].contains(" https://localhost:"), "{kept:?}");
    assert!(kept[2].ends_with("ca.pem"), "{kept:?}");
    let temporary = text(&["--congestion-control", "reno"]);
    assert!(temporary[2].contains("--tls-dir DIR"), "{temporary:?}");
}

#[test]
fn the_congestion_control_of_tcp_is_that_of_the_first_connection() {
    let Some(user) = testbed::OrdinaryUser::with(env!("CARGO_BIN_EXE_fairlane")) else { return };
    // Every kernel allows Reno to everyone; CUBIC is up to the machine.
    for asked in ["reno", "cubic"] {
        let mut command = user.command();
        command.args(["serve", "--json", "--admin", "127.0.0.1:0", "--congestion-control", asked]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let stderr = child.stderr.take().unwrap();
        let mut serve = Serve { child, ready: serde_json::from_str(&line).unwrap() };
        assert_eq!(serve.counters().tcp_congestion_control, None);
        for _ in 0..2 {
            succeed(Command::new("curl").args(["-sSf", &serve.url("http", "/api/test")]));
        }
        let got = serve.counters().tcp_congestion_control.expect("there was a connection");
        serve.signal("TERM");
        assert_eq!(serve.exit_code(), Some(0));
        let said = std::io::read_to_string(stderr).unwrap();
        assert!(asked != "reno" || got == "reno", "{got}");
        let expected = if got == asked { 0 } else { 1 };
        assert_eq!(said.matches(&format!("TCP {got}, but QUIC has {asked}")).count(), expected, "{said}");
        assert_eq!(said.lines().count(), expected, "{said}");
    }
}

#[test]
fn output_that_nobody_takes_is_no_panic() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let Output { status, stderr, .. } = fairlane(&[]).stdout(full()).output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(3), "{message}");
    assert!(message.contains("cannot write to standard output"), "{message}");
}

#[test]
fn a_certificate_of_the_users_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    drop(Serve::start(&["--tls-dir", path(directory.path()), "--host", "shop.example"]));
    let serve = Serve::start(&["--cert", path(&at("cert.pem")), "--key", path(&at("key.pem"))]);
    let resolve = format!("shop.example:{}:127.0.0.1", serve.port());
    let url = format!("https://shop.example:{}/api/test", serve.port());
    let ca = at("ca.pem");
    let body = succeed(Command::new("curl").args(["-sSf", "--cacert", path(&ca), "--resolve", &resolve, &url]));
    assert_eq!(body, br#"{"message":"test"}"#);
}

#[test]
fn the_clients_of_nghttp2_work() {
    if !testbed::has(&["nghttp", "h2load"]) {
        return;
    }
    let serve = Serve::start(&["--admin", "127.0.0.1:0"]);
    for scheme in ["http", "https"] {
        let body =
            succeed(Command::new("nghttp").args(["--no-verify-peer", &serve.url(scheme, "/rest/v10/employees")]));
        assert_eq!(body.len(), 480, "{scheme}");
    }
    let load = |arguments: &[&str], scheme: &str| {
        let url = serve.url(scheme, "/rest/v10/employees");
        let output = succeed(Command::new("h2load").args(["-n", "500", "-c", "5"]).args(arguments).arg(&url));
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("500 succeeded, 0 failed, 0 errored, 0 timeout"), "{text}");
        assert!(text.contains("(240000) data"), "{text}");
    };
    load(&["-m", "10"], "http");
    load(&["-m", "10"], "https");
    load(&["--h1", "-m", "2"], "http");
    load(&["--h1"], "https");

    let counters = serve.counters();
    for (protocol, requests, handshakes) in
        [(Protocol::H1c, 500, 0), (Protocol::H1, 500, 5), (Protocol::H2c, 501, 0), (Protocol::H2, 501, 6)]
    {
        let counts = &counters.protocols[&protocol];
        assert_eq!((counts.requests, counts.handshakes), (requests, handshakes), "{protocol}");
        assert_eq!(counts.body_bytes, requests * 480, "{protocol}");
        assert!((1..=6).contains(&counts.connections), "{protocol} {counts:?}");
    }
}
