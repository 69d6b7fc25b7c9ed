//! The engine against independent servers: what the client counts is what the server logged.

mod connections;
mod models;
mod servers;

use std::time::Duration;

use load::{Amount, LoadError, Model, Plan, Verification};
use measure::{LoadSummary, Protocol};
use servers::{Node, OBJECTS, Server, run};

/// Every request succeeded, and the server logged each.
fn assert_all_succeeded(server: &Server, summary: &LoadSummary, requests: u64) {
    assert_eq!(summary.errors.len(), 0, "{:?}", summary.errors);
    let counts = &summary.requests;
    assert_eq!((counts.total, counts.started, counts.done), (requests, requests, requests));
    assert_eq!((counts.succeeded, counts.failed), (requests, 0));
    assert_eq!(summary.status.success, requests);
    assert_eq!(summary.latency.count(), requests);
    assert_eq!(server.access_log(requests).len() as u64, requests);
}

fn assert_tls(summary: &LoadSummary, verification: &str) {
    let tls = summary.tls.as_ref().expect("the connection is encrypted");
    assert_eq!(tls.version, "TLSv1.3");
    assert!(tls.cipher.starts_with("TLS_"), "{}", tls.cipher);
    assert!(!tls.group.is_empty());
    assert_eq!(tls.alpn.as_deref().map(str::as_bytes), summary.protocol.alpn());
    assert_eq!(tls.verification, verification);
    assert_eq!(summary.connections.handshakes, summary.connections.completed);
}

#[test]
fn counts_agree_with_nginx() {
    for (protocol, connections, streams) in [
        (Protocol::H1c, 1, 1),
        (Protocol::H1c, 7, 1),
        (Protocol::H1, 5, 1),
        (Protocol::H2, 1, 1),
        (Protocol::H2, 3, 20),
    ] {
        let Some(server) = Server::nginx("keepalive_requests 100000;") else { return };
        let plan = Plan { connections, streams, ..server.plan(protocol, "/small", Amount::Requests(500)) };
        let summary = run(&plan).unwrap();
        assert_all_succeeded(&server, &summary, 500);
        assert_eq!(summary.traffic.data_bytes, 500 * 100);
        assert!(summary.traffic.received_bytes >= summary.traffic.data_bytes + summary.traffic.header_bytes);
        assert_eq!(summary.connections.used, u64::from(connections));
        assert_eq!(summary.connections.max_streams, streams);
        assert_eq!(summary.connect_us.count(), u64::from(connections));
        assert!(!summary.congestion_control.is_empty());
        if protocol.is_encrypted() {
            assert_tls(&summary, "cacert");
        } else {
            assert_eq!(summary.tls, None);
        }
    }
}

#[test]
fn counts_agree_with_caddy() {
    for protocol in [Protocol::H1c, Protocol::H1, Protocol::H2, Protocol::H3] {
        let Some(server) = Server::caddy() else { return };
        let streams = if protocol.multiplexes() { 10 } else { 1 };
        let plan =
            Plan { connections: 2, streams, threads: 2, ..server.plan(protocol, "/small", Amount::Requests(300)) };
        let summary = run(&plan).unwrap();
        assert_all_succeeded(&server, &summary, 300);
        assert_eq!(summary.connections.used, 2);
        if protocol.is_encrypted() {
            assert_tls(&summary, "cacert");
        }
        let quic = summary.quic.clone().unwrap_or_default();
        assert_eq!(quic.sent_packets > 0, protocol == Protocol::H3);
    }
}

/// 500 requests, once with one in flight, and once with several on each of several connections.
fn assert_counts_agree(server: impl Fn() -> Option<Server>, protocols: &[Protocol]) {
    for &protocol in protocols {
        for (connections, streams) in [(1, 1), (4, if protocol.multiplexes() { 25 } else { 1 })] {
            let Some(server) = server() else { return };
            let plan = Plan { connections, streams, ..server.plan(protocol, "/small", Amount::Requests(500)) };
            let summary = run(&plan).unwrap();
            assert_all_succeeded(&server, &summary, 500);
            assert_eq!(summary.traffic.data_bytes, 500 * 100, "{protocol}");
            if protocol.is_encrypted() {
                assert_tls(&summary, "cacert");
            }
        }
    }
}

#[test]
fn counts_agree_with_h2o() {
    assert_counts_agree(Server::h2o, &[Protocol::H1c, Protocol::H1, Protocol::H2c, Protocol::H2]);
}

#[test]
fn counts_agree_with_nghttpd() {
    assert_counts_agree(|| Server::nghttpd(false), &[Protocol::H2c]);
    assert_counts_agree(|| Server::nghttpd(true), &[Protocol::H2]);
}

#[test]
fn counts_agree_with_node() {
    assert_counts_agree(|| Server::node(Node::Http1), &[Protocol::H1c, Protocol::H1]);
    assert_counts_agree(|| Server::node(Node::Http2), &[Protocol::H2c, Protocol::H1, Protocol::H2]);
}

#[test]
fn large_bodies_arrive_in_full() {
    let Some(server) = Server::caddy() else { return };
    for protocol in [Protocol::H1c, Protocol::H1, Protocol::H2, Protocol::H3] {
        let summary = run(&server.plan(protocol, "/large", Amount::Requests(3))).unwrap();
        assert_eq!((summary.requests.succeeded, summary.traffic.data_bytes), (3, 9_000_000), "{protocol}");
    }
}

#[test]
fn method_fields_and_body_reach_the_server() {
    let body = "b".repeat(200_000);
    for protocol in [Protocol::H1c, Protocol::H1, Protocol::H2] {
        let Some(server) = Server::nginx("location = /post { client_max_body_size 1m; return 204; }") else { return };
        let mut plan = server.plan(protocol, "/post?q=1", Amount::Requests(4));
        plan.requests[0].method = "POST".to_owned();
        plan.requests[0].headers = vec![("X-Test".to_owned(), "yes".to_owned())];
        plan.requests[0].body = body.clone().into();
        let summary = run(&plan).unwrap();
        assert_all_succeeded(&server, &summary, 4);
        let http = if protocol == Protocol::H2 { "HTTP/2.0" } else { "HTTP/1.1" };
        for line in server.access_log(4) {
            assert_eq!(line, format!("POST /post?q=1 204 {http} yes 200000"));
        }
    }
}

#[test]
fn limits_of_keep_alive_lead_to_new_connections_and_no_errors() {
    for (protocol, streams, pipeline) in [
        (Protocol::H1c, 1, false),
        (Protocol::H1, 1, false),
        (Protocol::H2, 1, false),
        (Protocol::H2, 30, false),
        (Protocol::H1c, 8, true),
    ] {
        let Some(server) = Server::nginx("keepalive_requests 10;") else { return };
        let plan =
            Plan { connections: 4, streams, pipeline, ..server.plan(protocol, "/small", Amount::Requests(1000)) };
        let summary = run(&plan).unwrap();
        assert_all_succeeded(&server, &summary, 1000);
        let used = summary.connections.used;
        assert!((90..=130).contains(&used), "{protocol} with {streams} streams used {used} connections");
        if protocol == Protocol::H1 {
            assert!(summary.connections.resumed > 0, "later connections resume the session");
        }
    }
}

#[test]
fn connections_closed_after_each_response_are_replaced() {
    let Some(server) = Server::nginx("keepalive_timeout 0;") else { return };
    let plan = Plan { connections: 3, ..server.plan(Protocol::H1c, "/small", Amount::Requests(100)) };
    let summary = run(&plan).unwrap();
    assert_all_succeeded(&server, &summary, 100);
    assert_eq!(summary.connections.used, 100);
}

#[test]
fn pipelining_keeps_requests_in_flight() {
    let Some(server) = Server::nginx("keepalive_requests 100000;") else { return };
    let plan = Plan { streams: 10, pipeline: true, ..server.plan(Protocol::H1c, "/small", Amount::Requests(200)) };
    let summary = run(&plan).unwrap();
    assert_all_succeeded(&server, &summary, 200);
    assert_eq!(summary.connections.max_streams, 10);
}

#[test]
fn http_errors_are_failures() {
    let Some(server) = Server::caddy() else { return };
    for protocol in [Protocol::H1c, Protocol::H2, Protocol::H3] {
        let summary = run(&server.plan(protocol, "/missing", Amount::Requests(5))).unwrap();
        assert_eq!((summary.requests.done, summary.requests.failed, summary.requests.errored), (5, 5, 0));
        assert_eq!(summary.status.client_error, 5);
        assert_eq!(summary.errors["status 404"], 5);
    }
}

#[test]
fn the_server_decides_how_many_streams_there_are() {
    let Some(server) = Server::nginx("http2_max_concurrent_streams 5;") else { return };
    let plan = Plan { streams: 50, ..server.plan(Protocol::H2, "/small", Amount::Requests(300)) };
    let summary = run(&plan).unwrap();
    assert_all_succeeded(&server, &summary, 300);
    // What is sent before the server's settings arrive does not know them.
    assert!(summary.connections.max_streams <= 50);
}

#[test]
fn certificates_are_checked_unless_told_otherwise() {
    let Some(server) = Server::caddy() else { return };
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let trusting = server.plan(protocol, "/small", Amount::Requests(1));
        let mut careless = trusting.clone();
        careless.tls.verification = Verification::Insecure;
        assert_tls(&run(&careless).unwrap(), "insecure");
        let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = server.certificate().with_file_name("stranger.pem");
        std::fs::write(&file, stranger.cert.pem()).unwrap();
        let mut wary = trusting;
        wary.tls.verification = Verification::CaFile(file);
        let message = run(&wary).unwrap_err().to_string();
        assert!(message.contains("certificate") && message.contains("--insecure"), "{message}");
    }
}

#[test]
fn a_certificate_that_was_named_is_trusted_even_if_it_is_an_authority() {
    let Some(server) = Server::nginx_with_authority() else { return };
    let plan = server.plan(Protocol::H2, "/small", Amount::Requests(1));
    assert_eq!(run(&plan).unwrap().requests.succeeded, 1);
    let target = load::Target::parse("https://elsewhere/", Some(&plan.target.endpoint())).unwrap();
    let message = run(&Plan { target, ..plan }).unwrap_err().to_string();
    assert!(message.contains("not valid for name"), "{message}");
}

#[test]
fn older_tls_is_spoken_and_reported() {
    let Some(server) = Server::nginx_with_old_tls() else { return };
    for protocol in [Protocol::H1, Protocol::H2] {
        let summary = run(&server.plan(protocol, "/small", Amount::Requests(3))).unwrap();
        let tls = summary.tls.unwrap();
        assert_eq!((summary.requests.succeeded, tls.version.as_str()), (3, "TLSv1.2"));
        assert!(tls.cipher.starts_with("TLS_ECDHE_ECDSA_WITH_"), "{}", tls.cipher);
    }
}

#[test]
fn another_protocol_than_the_wanted_one_is_a_failure() {
    let Some(server) = Server::nginx_without_http2() else { return };
    let plan = Plan { connections: 2, ..server.plan(Protocol::H2, "/small", Amount::Requests(4)) };
    match run(&plan).unwrap_err() {
        LoadError::WrongProtocol { protocol, offered, chosen, host } => {
            assert_eq!((protocol, offered.as_str()), (Protocol::H2, "h2"));
            assert!(chosen == "none" || chosen == "'http/1.1'", "{chosen}");
            assert!(host.ends_with(&server.tls_port.to_string()), "{host}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(server.access_log(0).len(), 0, "nothing was asked over the wrong protocol");
}

#[test]
fn nobody_there_is_told_at_once() {
    for protocol in Protocol::ALL {
        let port = servers::free_port();
        let url = format!("{}://localhost:{port}/", protocol.scheme());
        let target = load::Target::parse(&url, Some(&format!("127.0.0.1:{port}"))).unwrap();
        let mut plan = Plan::new(target, protocol, Model::ClosedLoop, Amount::Requests(8));
        plan.connections = 4;
        plan.tls.verification = Verification::Insecure;
        match run(&plan).unwrap_err() {
            LoadError::Connect { reason, .. } => assert!(reason.contains("refused"), "{protocol}: {reason}"),
            other => panic!("{protocol}: {other}"),
        }
    }
}

#[test]
fn a_page_is_loaded_with_its_objects() {
    for (protocol, nginx) in [(Protocol::H1c, true), (Protocol::H1, true), (Protocol::H2, true), (Protocol::H3, false)]
    {
        let Some(server) = (if nginx { Server::nginx("") } else { Server::caddy() }) else { return };
        let summary = run(&server.page(protocol, "/page.html", 3)).unwrap();
        let requests = 3 * u64::from(OBJECTS + 1);
        assert_all_succeeded(&server, &summary, requests);
        assert_eq!(summary.pages.len(), 3);
        for page in &summary.pages {
            assert_eq!(page.objects, OBJECTS);
            assert!(page.data_bytes > 190_000);
            assert!(page.first_byte_us > 0 && page.first_byte_us <= page.duration_us);
            let connections = if protocol.multiplexes() { 1..=1 } else { 2..=6 };
            assert!(connections.contains(&page.connections), "{protocol} used {}", page.connections);
        }
        if protocol.multiplexes() {
            assert_eq!(summary.connections.resumed, 0, "each load is cold");
            assert!(summary.connections.max_streams > 1);
        }
    }
}

#[test]
fn a_page_with_a_missing_object_has_not_loaded() {
    let Some(server) = Server::nginx("") else { return };
    let summary = run(&server.page(Protocol::H2, "/broken.html", 1)).unwrap();
    assert_eq!((summary.pages.len(), summary.requests.failed), (0, 1));
    let expected = "page load 1 failed: /missing.png was answered with status 404";
    assert!(summary.errors.contains_key(expected), "{:?}", summary.errors);
}

#[test]
fn a_timed_run_measures_its_time_after_the_warm_up() {
    let Some(server) = Server::nginx("keepalive_requests 10000000;") else { return };
    for protocol in [Protocol::H1c, Protocol::H2] {
        let amount = Amount::Duration(Duration::from_millis(500));
        let warm_up = Duration::from_millis(200);
        let summary = run(&Plan { connections: 2, warm_up, ..server.plan(protocol, "/small", amount) }).unwrap();
        assert!(summary.wall_us() >= 100_000, "{} us", summary.wall_us());
        assert!(summary.requests.succeeded > 0);
        assert_eq!(summary.requests.failed, 0);
        assert_eq!((summary.connections.used, summary.connections.completed), (2, 2));
        assert_eq!(summary.requests.total, summary.requests.started);
        assert_eq!(summary.requests.started, summary.requests.done, "the server answers within the grace");
    }
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_measured() {
    let Some(server) = Server::nginx("keepalive_requests 10000000;") else { return };
    let amount = Amount::Duration(Duration::from_secs(600));
    let plan = server.plan(Protocol::H1c, "/small", amount);
    let summary = load::run(&plan, &mut |progress| progress.done < 100).unwrap();
    assert!(summary.requests.done >= 100);
    assert!(summary.wall_us() < 600_000_000);
}
