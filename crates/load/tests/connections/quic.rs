//! QUIC: early data, logs and windows, by a server of HTTP/3 made of quinn and h3.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use load::{Amount, Model, Plan, Target, Verification};
use measure::Protocol;
use quinn::crypto::rustls::QuicServerConfig;
use rustls_pki_types::PrivateKeyDer;

use super::tap::{Tap, fields};
use crate::servers::run;

/// A server whose connections take turns with so many configurations, each with sessions of its own. Gives its port and
/// the number of requests that it answered; a connection ends after `each`.
fn serve(configurations: usize, each: usize) -> (u16, Arc<AtomicU64>) {
    let configurations: Vec<_> = (0..configurations).map(|_| configuration()).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let requests = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let first = (*configurations[0]).clone();
            let runtime = Arc::new(quinn::TokioRuntime);
            let endpoint =
                quinn::Endpoint::new(quinn::EndpointConfig::default(), Some(first), socket, runtime).unwrap();
            for configuration in configurations.iter().cycle() {
                let Some(incoming) = endpoint.accept().await else { return };
                let connecting = incoming.accept_with(Arc::clone(configuration)).unwrap();
                tokio::spawn(answer(connecting, Arc::clone(&count), each));
            }
        });
    });
    (port, requests)
}

async fn answer(connecting: quinn::Connecting, requests: Arc<AtomicU64>, each: usize) -> Option<()> {
    let connection = h3_quinn::Connection::new(connecting.await.ok()?);
    let mut http = h3::server::Connection::<_, Bytes>::new(connection).await.ok()?;
    for number in 1_usize.. {
        let resolver = http.accept().await.ok()??;
        let (_, mut stream) = resolver.resolve_request().await.ok()?;
        requests.fetch_add(1, Ordering::SeqCst);
        if number == each {
            // One more than this, as h3 counts; RFC 9114 section 5.2 counts this one as processed.
            http.shutdown(1).await.ok()?;
        }
        stream.send_response(http::Response::new(())).await.ok()?;
        stream.finish().await.ok()?;
    }
    Some(())
}

fn configuration() -> Arc<quinn::ServerConfig> {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut tls = builder.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    tls.max_early_data_size = u32::MAX;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Arc::new(quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap())))
}

fn plan(port: u16, requests: u64) -> Plan {
    let target = Target::parse(&format!("https://localhost:{port}/path"), Some("127.0.0.1")).unwrap();
    let mut plan = Plan::new(target, Protocol::H3, Model::ClosedLoop, Amount::Requests(requests));
    plan.tls.verification = Verification::Insecure;
    plan
}

#[test]
fn early_requests_are_accepted_once_or_sent_again_once() {
    for (configurations, streams) in [(1, 1), (1, 5), (2, 1), (2, 5)] {
        let (port, requests) = serve(configurations, 5);
        let mut plan = Plan { streams, ..plan(port, 40) };
        plan.tls.early_data = true;
        let summary = run(&plan).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (40, 0), "{:?}", summary.errors);
        assert_eq!(requests.load(Ordering::SeqCst), 40, "each request was made once");
        let connections = &summary.connections;
        assert!(connections.completed >= 8, "{connections:?}");
        // A connection may be over before its ticket comes, so that a later one offers an older ticket or none.
        assert_eq!(connections.early_data_accepted, connections.resumed);
        if configurations == 1 {
            assert!(connections.early_data_accepted > 0, "{connections:?}");
            assert_eq!(connections.early_data_rejected, 0);
        } else {
            assert!(connections.early_data_rejected > 0, "{connections:?}");
        }
    }
}

#[test]
fn sessions_are_resumed_as_the_plan_says() {
    for resume in [true, false] {
        let (port, _) = serve(1, 5);
        let mut plan = plan(port, 20);
        plan.tls.resume = resume;
        let connections = run(&plan).unwrap().connections;
        assert_eq!(connections.completed, 4);
        assert_eq!((connections.resumed, connections.early_data_accepted), (if resume { 3 } else { 0 }, 0));
    }
}

#[test]
fn every_connection_has_a_qlog_of_its_own() {
    let (port, _) = serve(1, 5);
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(port, 20);
    plan.transport.qlog = Some(folder.path().join("made/when/missing"));
    let summary = run(&plan).unwrap();
    assert_eq!((summary.requests.succeeded, summary.connections.opened), (20, 4));
    let mut sent = 0;
    for number in 1..=4 {
        let path = folder.path().join(format!("made/when/missing/connection-{number}.sqlog"));
        let text = std::fs::read_to_string(&path).unwrap();
        // JSON text sequences, RFC 7464: each begins with a record separator and ends with a line feed.
        let records: Vec<serde_json::Value> = text
            .strip_prefix('\u{1e}')
            .unwrap()
            .split('\u{1e}')
            .map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap())
            .collect();
        let (head, events) = records.split_first().unwrap();
        assert_eq!(head["qlog_format"], "JSON-SEQ", "{head}");
        assert!(head["qlog_version"].is_string() && head["trace"]["vantage_point"].is_object(), "{head}");
        assert!(events.iter().all(|event| event["time"].is_number() && event["data"].is_object()));
        let is = |event: &&serde_json::Value, name: &str| event["name"].as_str().unwrap().ends_with(name);
        sent += events.iter().filter(|event| is(event, ":packet_sent")).count() as u64;
        assert!(events.iter().any(|event| is(&event, ":packet_received")));
    }
    // The counts leave each connection's farewell out.
    let counted = summary.quic.unwrap().sent_packets;
    assert!((counted..=counted + 4).contains(&sent), "{sent} packets in the logs, {counted} in the summary");
    assert_eq!(std::fs::read_dir(folder.path().join("made/when/missing")).unwrap().count(), 4);
}

#[test]
fn windows_are_those_of_the_plan_and_the_key_log_fits() {
    if !testbed::has(&["tshark"]) {
        return;
    }
    let (port, _) = serve(1, 5);
    let tap = Tap::udp(port);
    let mut plan = plan(tap.port(), 2);
    plan.transport.stream_window = 123_456;
    plan.transport.connection_window = 654_321;
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    plan.tls.key_log = Some(keys.clone());
    assert_eq!(run(&plan).unwrap().requests.succeeded, 2);
    let field = |name| fields(&tap.capture(), &keys, tap.port(), name);
    assert_eq!(field("tls.quic.parameter.initial_max_data")[0], "654321");
    for direction in ["bidi_local", "bidi_remote", "uni"] {
        let name = format!("tls.quic.parameter.initial_max_stream_data_{direction}");
        assert_eq!(fields(&tap.capture(), &keys, tap.port(), &name)[0], "123456");
    }
    // In the stream, which only the keys open: HTTP/3's SETTINGS and HEADERS.
    let types = field("http3.frame_type");
    assert!(types.iter().any(|kind| kind.contains('1')) && types.iter().any(|kind| kind.contains('4')), "{types:?}");
}
