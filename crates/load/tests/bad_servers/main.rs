//! Servers written for the occasion, which see every byte and do what no good server does: the run ends, soon, and says
//! what happened under the right name.

mod floods;
mod frames;
mod http1;
mod http2;
mod streams;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use load::{Amount, LoadError, Model, Plan, Target, Verification};
use measure::{LoadSummary, Protocol};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::PrivateKeyDer;

/// How a request is counted that has no answer in time.
const TIMED_OUT: &str = "no response within the timeout";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A server that handles each connection with `handle`. Gives its port and counts its connections.
fn serve(handle: impl Fn(TcpStream) + Send + Sync + 'static) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicU64::new(0));
    let (count, handle) = (Arc::clone(&connections), Arc::new(handle));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            count.fetch_add(1, Ordering::SeqCst);
            let handle = Arc::clone(&handle);
            std::thread::spawn(move || handle(stream));
        }
    });
    (port, connections)
}

/// Makes the connection end with RST.
fn end_with_reset(stream: &TcpStream) {
    setsockopt(stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
}

/// Reads and forgets until the client goes.
fn read_on(stream: &mut TcpStream) {
    while matches!(stream.read(&mut [0; 1024]), Ok(count) if count > 0) {}
}

/// Reads up to the end of one request without a body; false at the end of the connection.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

fn plan(protocol: Protocol, port: u16, amount: Amount) -> Plan {
    let url = format!("{}://127.0.0.1:{port}/", protocol.scheme());
    let target = Target::parse(&url, None).unwrap();
    let mut plan = Plan::new(target, protocol, Model::ClosedLoop, amount);
    plan.tls.verification = Verification::Insecure;
    plan
}

/// Runs a plan to its end, which comes within a time that only a run that hangs exceeds.
fn run(plan: &Plan) -> Result<LoadSummary, LoadError> {
    let (sender, receiver) = mpsc::channel();
    let plan = plan.clone();
    std::thread::spawn(move || drop(sender.send(load::run(&plan, &mut |_| true))));
    receiver.recv_timeout(Duration::from_secs(30)).expect("the run ends, and without a panic")
}

/// Runs a plan in which every request fails: `timed_out` of them for that reason, the others because something broke.
/// Gives the reasons.
fn run_in_vain(plan: &Plan, timed_out: u64) -> Vec<String> {
    let summary = run(plan).unwrap();
    let Amount::Requests(requests) = plan.amount else { panic!("{:?} is no number of requests", plan.amount) };
    let counts = &summary.requests;
    assert_eq!((counts.total, counts.succeeded, counts.failed), (requests, 0, requests), "{:?}", summary.errors);
    assert_eq!((counts.errored, counts.timed_out), (requests - timed_out, timed_out), "{:?}", summary.errors);
    assert_eq!(summary.errors.get(TIMED_OUT).copied().unwrap_or(0), timed_out, "{:?}", summary.errors);
    assert_eq!(summary.latency.count(), 0);
    summary.errors.into_keys().collect()
}

/// A plan whose requests wait half a second for their answers.
fn impatient(plan: Plan) -> Plan {
    Plan { timeout: Duration::from_millis(500), ..plan }
}

#[test]
fn a_server_that_never_answers_ends_in_failure() {
    let (port, connections) = serve(|mut stream| {
        read_request(&mut stream);
        let _ = stream.shutdown(Shutdown::Both);
    });
    for protocol in [Protocol::H1c, Protocol::H2c] {
        let summary = run(&Plan { connections: 2, ..plan(protocol, port, Amount::Requests(1000)) }).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (0, 1000), "{protocol}");
        assert_eq!(summary.errors.values().sum::<u64>(), 1000, "{:?}", summary.errors);
        assert!(connections.load(Ordering::SeqCst) <= 20);
    }
}

#[test]
fn a_server_that_hangs_up_on_tls_ends_in_failure() {
    let (port, _) = serve(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.shutdown(Shutdown::Both);
    });
    for protocol in [Protocol::H1, Protocol::H2] {
        let message = run(&plan(protocol, port, Amount::Requests(10))).unwrap_err().to_string();
        assert!(message.contains("cannot connect"), "{message}");
    }
}

#[test]
fn a_server_that_speaks_no_tls_is_named() {
    let (port, _) = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        read_on(&mut stream);
    });
    let message = run(&plan(Protocol::H2, port, Amount::Requests(1))).unwrap_err().to_string();
    assert!(message.contains("TLS"), "{message}");
}

#[test]
fn a_stalled_request_times_out_and_the_next_goes_on() {
    // Every third connection never answers.
    let count = AtomicU64::new(0);
    let (port, _) = serve(move |mut stream| {
        let stalls = count.fetch_add(1, Ordering::SeqCst).is_multiple_of(3);
        while read_request(&mut stream) {
            if !stalls {
                stream.write_all(RESPONSE).unwrap();
            }
        }
    });
    let timeout = Duration::from_secs(1);
    let summary = run(&Plan { timeout, ..plan(Protocol::H1c, port, Amount::Requests(5)) }).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.done, counts.succeeded, counts.failed, counts.timed_out), (5, 4, 1, 1));
    assert_eq!(summary.connections.used, 2, "the stalled connection was replaced");
    assert_eq!(summary.latency.count(), 4, "a request that was given up has no time");
}

#[test]
fn a_run_without_an_answer_tells_no_time() {
    let (port, _) = serve(|mut stream| while read_request(&mut stream) {});
    let plan = Plan { timeout: Duration::from_millis(100), ..plan(Protocol::H1c, port, Amount::Requests(2)) };
    let summary = run(&plan).unwrap();
    assert_eq!((summary.requests.failed, summary.requests.timed_out), (2, 2));
    let text = load::render(&summary);
    assert!(text.contains("no request was answered\n") && !text.contains("finished in"), "{text}");
}

#[test]
fn a_page_whose_document_is_elsewhere_has_not_loaded() {
    let (port, _) = serve(|mut stream| {
        while read_request(&mut stream) {
            stream.write_all(b"HTTP/1.1 302 Found\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    let summary =
        run(&Plan { model: Model::Pages, connections: 6, ..plan(Protocol::H1c, port, Amount::Requests(1)) }).unwrap();
    assert_eq!((summary.requests.done, summary.requests.succeeded, summary.requests.failed), (1, 0, 1));
    assert!(summary.pages.is_empty());
    assert_eq!(summary.errors["page load 1 failed: / was answered with status 302"], 1);
}

#[test]
fn a_stalled_server_does_not_hold_up_a_timed_run() {
    let (port, _) = serve(|mut stream| while read_request(&mut stream) {});
    let (amount, timeout) = (Amount::Duration(Duration::from_millis(300)), Duration::from_millis(900));
    let summary = run(&Plan { connections: 3, timeout, ..plan(Protocol::H1c, port, amount) }).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.started, counts.done, counts.timed_out), (3, 3, 3), "the slowest are not forgotten");
    assert!((250_000..800_000).contains(&summary.wall_us()), "the wait is not measured: {}", summary.wall_us());
}

#[test]
fn a_server_that_dies_shows_in_an_open_loop() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        assert!(read_request(&mut stream));
        stream.write_all(RESPONSE).unwrap();
    });
    let length = Duration::from_secs(1);
    let model = Model::constant_rate(20.0, length);
    let summary = run(&Plan { model, ..plan(Protocol::H1c, port, Amount::Duration(length)) }).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.total, counts.started + counts.dropped), (20, 20), "no arrival is forgotten: {counts:?}");
    assert!(counts.dropped > 10, "{counts:?}");
    assert!(summary.errors.keys().any(|reason| reason.contains("refused")), "{:?}", summary.errors);
}

#[test]
fn a_server_that_goes_away_and_comes_back_is_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        for _ in 0..3 {
            assert!(read_request(&mut stream));
            stream.write_all(RESPONSE).unwrap();
        }
        drop(stream);
        thread::sleep(Duration::from_millis(500));
        let listener = TcpListener::bind(address).unwrap();
        while let Ok((mut stream, _)) = listener.accept() {
            while read_request(&mut stream) && stream.write_all(RESPONSE).is_ok() {}
        }
    });
    let summary = run(&plan(Protocol::H1c, address.port(), Amount::Duration(Duration::from_secs(3)))).unwrap();
    let counts = &summary.requests;
    assert!(counts.succeeded > 3, "{counts:?}");
    assert!((1..=20).contains(&counts.failed), "each attempt in vain is a failed request: {counts:?}");
    assert_eq!((counts.done, counts.started), (counts.succeeded + counts.failed, counts.done));
    assert!(summary.errors.keys().any(|reason| reason.contains("refused")), "{:?}", summary.errors);
    assert!(summary.wall_s > 2.9, "the run lasts as long as it was meant to: {} s", summary.wall_s);
}

#[test]
fn a_connection_that_is_never_accepted_times_out() {
    // A bound UDP socket that says nothing, and a TCP listener that accepts and says nothing to the ClientHello.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (port, _) = serve(|mut stream| read_on(&mut stream));
    for (protocol, port) in [(Protocol::H3, silent.local_addr().unwrap().port()), (Protocol::H2, port)] {
        let timeout = Duration::from_millis(300);
        let message = run(&Plan { timeout, connect_timeout: timeout, ..plan(protocol, port, Amount::Requests(2)) })
            .unwrap_err()
            .to_string();
        assert!(message.contains("no answer within the timeout"), "{message}");
    }
}

#[test]
fn nonsense_is_not_taken_for_an_answer() {
    let (port, _) = serve(|mut stream| {
        let _ = stream.write_all(b"220 mail.example.org ESMTP\r\n");
        read_on(&mut stream);
    });
    for (protocol, part) in [(Protocol::H1c, "malformed HTTP/1.1"), (Protocol::H2c, "HTTP/2 connection error")] {
        let summary = run(&plan(protocol, port, Amount::Requests(10))).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (0, 10));
        assert!(summary.errors.keys().all(|reason| reason.contains(part)), "{:?}", summary.errors);
    }
}

#[test]
fn a_response_cut_short_is_a_failure_with_a_reason() {
    let (port, _) = serve(|mut stream| {
        for _ in 0..3 {
            if !read_request(&mut stream) {
                return;
            }
            stream.write_all(RESPONSE).unwrap();
        }
        read_request(&mut stream);
        stream.write_all(&RESPONSE[..RESPONSE.len() - 1]).unwrap();
    });
    let summary = run(&plan(Protocol::H1c, port, Amount::Requests(8))).unwrap();
    assert_eq!((summary.requests.succeeded, summary.requests.errored), (6, 2));
    assert_eq!(summary.errors["the server closed the connection"], 2, "{:?}", summary.errors);
}

#[test]
fn responses_in_single_bytes_are_whole() {
    let (port, _) = serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        while read_request(&mut stream) {
            for byte in RESPONSE {
                stream.write_all(std::slice::from_ref(byte)).unwrap();
            }
        }
    });
    let summary = run(&plan(Protocol::H1c, port, Amount::Requests(20))).unwrap();
    assert_eq!((summary.requests.succeeded, summary.traffic.data_bytes), (20, 40));
}

#[test]
fn a_connection_closed_at_once_is_called_so() {
    for with_reset in [false, true] {
        let (port, connections) = serve(move |stream| {
            if with_reset {
                end_with_reset(&stream);
            }
        });
        for protocol in [Protocol::H1c, Protocol::H2c] {
            let reasons = run_in_vain(&Plan { connections: 2, ..plan(protocol, port, Amount::Requests(100)) }, 0);
            let expected = ["the server closed the connection", "reset by peer", "Broken pipe"];
            for reason in &reasons {
                assert!(expected.iter().any(|part| reason.contains(part)), "{protocol}: {reasons:?}");
            }
        }
        for protocol in [Protocol::H1, Protocol::H2] {
            match run(&plan(protocol, port, Amount::Requests(10))).unwrap_err() {
                LoadError::Connect { .. } => {}
                other => panic!("{protocol}: {other}"),
            }
        }
        assert!(connections.load(Ordering::SeqCst) <= 30, "a server without an answer is left alone soon");
    }
}

#[test]
fn garbage_within_tls_is_named() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(config);
    // No record, and a record that no key of this connection has sealed.
    for (garbage, part) in
        [(RESPONSE, "corrupt"), (b"\x17\x03\x03\x00\x20the key of nobody the key of nobo", "decrypt")]
    {
        let config = Arc::clone(&config);
        let (port, _) = serve(move |mut stream| {
            let mut tls = ServerConnection::new(Arc::clone(&config)).unwrap();
            while tls.is_handshaking() && tls.complete_io(&mut stream).is_ok() {}
            let _ = stream.write_all(garbage);
            read_on(&mut stream);
        });
        for protocol in [Protocol::H1, Protocol::H2] {
            let reasons = run_in_vain(&plan(protocol, port, Amount::Requests(20)), 0);
            for reason in &reasons {
                assert!(reason.contains("TLS: ") && reason.contains(part), "{protocol}: {reasons:?}");
            }
        }
    }
}
