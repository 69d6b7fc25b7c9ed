//! The same requests by independent clients over every protocol: the answers must be the same.

mod clients;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clients::{Answer, Ask, ask};
use measure::{CongestionControl, OriginCounters, Protocol, ProtocolCounters};
use origin::{Config, Origin, tls};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// An origin in this process.
struct Served {
    runtime: Runtime,
    origin: Origin,
    directory: TempDir,
}

impl Served {
    fn start(protocols: &[Protocol]) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            bind: Vec::new(),
            port: 0,
            protocols: protocols.iter().copied().collect::<BTreeSet<_>>(),
            identity: tls::ensure(directory.path(), &[]).unwrap(),
            admin: None,
            delay: Duration::ZERO,
            store: None,
            congestion_control: CongestionControl::Cubic,
            initial_window_packets: 10,
        };
        let runtime = Runtime::new().unwrap();
        let origin = runtime.block_on(async { Origin::start(&config) }).unwrap();
        Served { runtime, origin, directory }
    }

    fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    fn ask(&self, protocol: Protocol, asks: &[Ask]) -> Option<Vec<Answer>> {
        ask(protocol, self.origin.port(), &self.ca(), asks)
    }

    fn await_count(&self, protocol: Protocol, reached: impl Fn(&ProtocolCounters) -> bool) {
        while !reached(&self.origin.counters().protocols.remove(&protocol).unwrap_or_default()) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn shutdown(self, grace: Duration) -> OriginCounters {
        self.runtime.block_on(self.origin.shutdown(grace))
    }
}

#[test]
fn answers_do_not_depend_on_the_protocol() {
    let served = Served::start(&Protocol::ALL);
    let upload: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let mut asks: Vec<Ask> = [
        "/",
        "/bytes/0",
        "/bytes/1",
        "/bytes/65522",
        "/bytes/3000000?i=3",
        "/page/3/100",
        "/api/test",
        "/delay/1",
        "/rest/v10/employees",
        "/nothing",
        "/bytes/x",
    ]
    .map(Ask::get)
    .to_vec();
    asks.push(Ask { method: "HEAD", ..Ask::get("/bytes/1000") });
    asks.push(Ask { method: "POST", ..Ask::get("/api/test") });
    asks.push(Ask { method: "POST", path: "/echo", body: upload.clone() });
    let statuses = [200, 200, 200, 200, 200, 200, 200, 200, 200, 404, 400, 200, 405, 200];

    let alternative = format!("h3=\":{}\"; ma=86400", served.origin.port());
    let mut reference: Option<Vec<Answer>> = None;
    for protocol in Protocol::ALL {
        let Some(mut answers) = served.ask(protocol, &asks) else { continue };
        assert_eq!(answers.iter().map(|answer| answer.status).collect::<Vec<_>>(), statuses, "{protocol}");
        assert_eq!(answers[4].body.len(), 3_000_000, "{protocol}");
        assert_eq!(answers[8].body.len(), 480, "{protocol}");
        assert_eq!(answers[13].body, upload, "{protocol}");
        for (answer, ask) in answers.iter_mut().zip(&asks) {
            assert!(answer.headers.remove("date").is_some(), "{protocol} {ask:?}");
            let expected = matches!(protocol, Protocol::H1 | Protocol::H2).then(|| alternative.clone());
            assert_eq!(answer.headers.remove("alt-svc"), expected, "{protocol} {ask:?}");
            assert_eq!(answer.headers["cache-control"], "no-store", "{protocol} {ask:?}");
        }
        match &reference {
            None => reference = Some(answers),
            Some(reference) => {
                for ((answer, expected), ask) in answers.iter().zip(reference).zip(&asks) {
                    assert_eq!(answer.headers, expected.headers, "{protocol} {} {}", ask.method, ask.path);
                    assert!(answer.body == expected.body, "the body of {} differs over {protocol}", ask.path);
                }
            }
        }
    }
}

#[test]
fn many_streams_share_one_connection_and_are_counted() {
    let served = Served::start(&[Protocol::H3]);
    let asks = vec![Ask::get("/delay/100"); 50];
    let Some(answers) = served.ask(Protocol::H3, &asks) else { return };
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == br#"{"delay_ms":100}"#));

    let counters = served.shutdown(Duration::from_secs(5));
    let h3 = &counters.protocols[&Protocol::H3];
    assert_eq!((h3.connections, h3.handshakes, h3.requests, h3.in_flight), (1, 1, 50, 0));
    assert!(h3.max_streams_per_connection > 1 && h3.max_streams_per_connection == h3.max_in_flight, "{h3:?}");
    assert_eq!(h3.body_bytes, 50 * 16);
    assert!(counters.quic.sent_packets > 0, "{counters:?}");
}

#[test]
fn a_request_in_flight_outlives_the_shutdown() {
    for protocol in Protocol::ALL {
        let served = Served::start(&[protocol]);
        let (port, ca) = (served.origin.port(), served.ca());
        let client = std::thread::spawn(move || ask(protocol, port, &ca, &[Ask::get("/delay/400")]));
        let in_flight =
            || served.origin.counters().protocols.get(&protocol).is_some_and(|counts| counts.in_flight == 1);
        while !in_flight() && !client.is_finished() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let counters = served.shutdown(Duration::from_secs(20));
        let Some(answers) = client.join().unwrap() else { continue };
        assert_eq!(answers[0].body, br#"{"delay_ms":400}"#, "{protocol}");
        assert_eq!(counters.protocols[&protocol].requests, 1, "{protocol}");
    }
}

/// A socket closed too early resets the connection of a client that is still reading.
#[test]
fn a_slow_reader_gets_all_of_its_answer_despite_the_shutdown() {
    const SIZE: &str = "20000000";
    for (protocol, version) in [(Protocol::H1c, "--http1.1"), (Protocol::H2, "--http2")] {
        let served = Served::start(&[protocol]);
        let url = format!("{}://localhost:{}/bytes/{SIZE}", protocol.scheme(), served.origin.port());
        let client = Command::new("curl")
            .args(["-sS", "--limit-rate", "10M", "-o", "/dev/null", "-w", "%{size_download}", version, "--cacert"])
            .arg(served.ca())
            .arg(url)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        served.await_count(protocol, |counts| counts.body_bytes > 1_000_000);
        served.shutdown(Duration::from_secs(20));
        let output = client.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), SIZE, "{protocol}");
    }
}

#[test]
fn a_request_that_takes_too_long_does_not_hold_the_shutdown() {
    let served = Served::start(&[Protocol::H1c]);
    let mut client = Command::new("curl")
        .args(["-s", &format!("http://localhost:{}/delay/30000", served.origin.port())])
        .spawn()
        .unwrap();
    served.await_count(Protocol::H1c, |counts| counts.in_flight == 1);
    let started = Instant::now();
    served.shutdown(Duration::from_millis(50));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(!client.wait().unwrap().success(), "the request was cut off");
}

#[test]
fn a_protocol_that_is_off_is_not_spoken() {
    let only_h1 = Served::start(&[Protocol::H1]);
    let curl = |served: &Served, scheme: &str, version: &str| {
        let url = format!("{scheme}://localhost:{}/api/test", served.origin.port());
        let output = Command::new("curl")
            .args(["-s", "--max-time", "30", "-w", " %{http_version}", version, "--cacert"])
            .arg(served.ca())
            .arg(url)
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let answer = |version: &str| Some(format!("{{\"message\":\"test\"}} {version}"));

    // curl --http2 offers h2 and http/1.1.
    assert_eq!(curl(&only_h1, "https", "--http2"), answer("1.1"));
    assert_eq!(curl(&only_h1, "http", "--http1.1"), None);
    assert_eq!(curl(&only_h1, "http", "--http2-prior-knowledge"), None);
    assert!(std::net::UdpSocket::bind(("127.0.0.1", only_h1.origin.port())).is_ok(), "no QUIC, so no UDP port");

    let only_h2 = Served::start(&[Protocol::H2]);
    assert_eq!(curl(&only_h2, "https", "--http2"), answer("2"));
    assert_eq!(curl(&only_h2, "https", "--http1.1"), None);

    let cleartext = Served::start(&[Protocol::H1c, Protocol::H2c]);
    assert_eq!(curl(&cleartext, "http", "--http1.1"), answer("1.1"));
    assert_eq!(curl(&cleartext, "http", "--http2-prior-knowledge"), answer("2"));
    assert_eq!(curl(&cleartext, "https", "--http2"), None);
}
