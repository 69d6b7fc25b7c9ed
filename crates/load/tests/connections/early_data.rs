//! Requests that go out with the first flight: accepted ones are made once, and so are rejected ones.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use load::{Amount, Model, Plan, Target, Verification};
use measure::Protocol;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::PrivateKeyDer;

use crate::servers::{Server, run};

#[test]
fn nginx_sees_requests_in_the_first_flight() {
    let mut early = 0;
    for (protocol, streams) in [(Protocol::H1, 1), (Protocol::H2, 1), (Protocol::H2, 4)] {
        let extra = "ssl_early_data on; keepalive_requests 8;";
        let Some(server) = Server::nginx_that_tells_of_tls("TLSv1.3", extra) else { return };
        let mut plan = Plan { connections: 2, streams, ..server.plan(protocol, "/small", Amount::Requests(80)) };
        let without = run(&plan).unwrap();
        assert_eq!((without.connections.early_data_accepted, without.connections.early_data_rejected), (0, 0));
        plan.tls.early_data = true;
        let summary = run(&plan).unwrap();
        let connections = &summary.connections;
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (80, 0), "{:?}", summary.errors);
        assert_eq!((connections.early_data_accepted, connections.early_data_rejected), (connections.resumed, 0));
        assert_eq!(connections.resumed, connections.used - 2);
        let lines = server.access_log(160);
        assert_eq!(lines.len(), 160, "each request was made once");
        early += lines.iter().filter(|line| line.contains(" early=1 ")).count();
    }
    // It calls a request early if the handshake is not over when it is answered, which not every one is so fast for.
    assert!(early > 0);
}

/// A server of HTTP/1.1 over TLS that ends each connection after one request; the connections take turns with the
/// configurations. Gives its port, the number of requests, and the number of those that came early.
fn serve(configurations: Vec<Arc<ServerConfig>>) -> (u16, Arc<AtomicU64>, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (requests, early) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&requests), Arc::clone(&early));
    thread::spawn(move || {
        for (stream, configuration) in listener.incoming().zip(configurations.iter().cycle()) {
            answer(stream.unwrap(), Arc::clone(configuration), &counts.0, &counts.1);
        }
    });
    (port, requests, early)
}

fn answer(mut stream: TcpStream, configuration: Arc<ServerConfig>, requests: &AtomicU64, early: &AtomicU64) {
    let mut tls = ServerConnection::new(configuration).unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"\r\n\r\n") {
        if !matches!(tls.complete_io(&mut stream), Ok((read, written)) if read + written > 0) {
            return;
        }
        if let Some(mut data) = tls.early_data() {
            let before = received.len();
            data.read_to_end(&mut received).unwrap();
            if received.len() > before {
                early.fetch_add(1, Ordering::SeqCst);
            }
        }
        // An error only says that there is nothing.
        let _ = tls.reader().read_to_end(&mut received);
    }
    assert_eq!(received.windows(4).filter(|window| window == b"\r\n\r\n").count(), 1, "the request came twice");
    requests.fetch_add(1, Ordering::SeqCst);
    tls.writer().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
    tls.send_close_notify();
    let _ = tls.complete_io(&mut stream);
}

/// A configuration with sessions of its own; `slow` makes the client say hello twice.
fn configuration(slow: bool) -> Arc<ServerConfig> {
    let mut provider = aws_lc_rs::default_provider();
    if slow {
        provider.kx_groups = vec![kx_group::SECP384R1];
    }
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let builder =
        ServerConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    config.max_early_data_size = 16_384;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn plan(port: u16) -> Plan {
    let target = Target::parse(&format!("https://localhost:{port}/"), Some("127.0.0.1")).unwrap();
    let mut plan = Plan::new(target, Protocol::H1, Model::ClosedLoop, Amount::Requests(8));
    plan.keep_alive = false;
    plan.tls.verification = Verification::Insecure;
    plan.tls.early_data = true;
    plan
}

#[test]
fn accepted_early_data_is_not_sent_again() {
    let (port, requests, early) = serve(vec![configuration(false)]);
    let summary = run(&plan(port)).unwrap();
    assert_eq!((summary.requests.succeeded, summary.requests.failed), (8, 0), "{:?}", summary.errors);
    let connections = &summary.connections;
    assert_eq!((connections.early_data_accepted, connections.early_data_rejected), (7, 0));
    assert_eq!((requests.load(Ordering::SeqCst), early.load(Ordering::SeqCst)), (8, 7));
}

#[test]
fn rejected_early_data_is_sent_again_once() {
    for slow in [false, true] {
        // The server has always forgotten the session that it is offered.
        let (port, requests, early) = serve(vec![configuration(slow), configuration(slow)]);
        let summary = run(&plan(port)).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (8, 0), "{:?}", summary.errors);
        let connections = &summary.connections;
        assert_eq!((connections.early_data_accepted, connections.early_data_rejected), (0, 7));
        assert_eq!((connections.resumed, connections.completed), (0, 8));
        assert_eq!((requests.load(Ordering::SeqCst), early.load(Ordering::SeqCst)), (8, 0));
    }
}

#[test]
fn more_than_the_session_allows_waits_for_the_handshake() {
    let mut config = ServerConfig::clone(&configuration(false));
    config.max_early_data_size = 20;
    let (port, requests, early) = serve(vec![Arc::new(config)]);
    let summary = run(&plan(port)).unwrap();
    assert_eq!((summary.requests.succeeded, summary.requests.failed), (8, 0), "{:?}", summary.errors);
    assert_eq!((requests.load(Ordering::SeqCst), early.load(Ordering::SeqCst)), (8, 7));
    assert_eq!(summary.connections.early_data_accepted, 7);
}
