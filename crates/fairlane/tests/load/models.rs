//! What decides when a request goes out: each model, and what the server saw of it.

use std::time::Duration;

use measure::{LoadModel, Protocol, ProtocolCounters};

use crate::support::{Origin, Service, Witness, load, measured};

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
            let facts = (tls.version.as_str(), tls.group.as_str(), tls.verification.as_str());
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
fn an_open_loop_makes_what_is_due_over_every_protocol() {
    let origin = Origin::start();
    for protocol in Protocol::ALL {
        let before = origin.requests(protocol);
        let summary = origin.measure(protocol, "/bytes/10", &["--rate", "200", "-D", "1s", "--timeout", "20s"]);
        assert_eq!(summary.model, LoadModel::OpenLoop);
        // 200 requests are due; a busy machine may reach the end of the run before it has sent all of them.
        assert_eq!(summary.requests.started + summary.requests.dropped, 200, "{protocol}");
        assert_eq!(summary.requests.succeeded, summary.requests.started);
        assert_eq!(summary.intended_latency_us.count(), summary.requests.succeeded);
        assert_eq!(origin.requests(protocol) - before, summary.requests.succeeded);
    }
}

#[test]
fn a_rate_with_a_number_of_requests_makes_that_many() {
    let witness = Witness::start();
    for arrivals in ["uniform", "poisson"] {
        let arguments = ["-n", "100", "--rate", "30000/m", "-t", "2", "-c", "5", "--arrivals", arrivals, "--seed", "7"];
        let summary = measured(load([&witness.url("/")]).args(arguments));
        assert_eq!((summary.requests.succeeded, summary.requests.dropped), (100, 0));
    }
    assert_eq!(witness.count("/"), 200);
}

#[test]
fn stages_raise_and_lower_the_rate() {
    let witness = Witness::start();
    let stages = "500ms:200,500ms:200,500ms:0";
    let summary = measured(load([&witness.url("/")]).args(["--rate", "0", "--stages", stages]));
    // The areas under the ramps and the plateau: 50, 100 and 50.
    assert_eq!(summary.requests.started + summary.requests.dropped, 200);
    assert_eq!(witness.count("/") as u64, summary.requests.succeeded);
}

#[test]
fn what_cannot_start_is_dropped_counted_and_never_forgotten() {
    let service = Service::start(Duration::from_millis(20));
    let arguments = ["-n", "100", "--rate", "1000", "-c", "1", "--timeout", "300ms"];
    let summary = measured(load([&service.url()]).args(arguments));
    let requests = &summary.requests;
    // Within the timeout of the last arrival the server can have served a few more than (100 + 300) / 20.
    assert!(requests.dropped > 50, "{requests:?}");
    assert_eq!((requests.started + requests.dropped, requests.failed), (100, 0));
    assert_eq!(service.served(), requests.succeeded);
    assert_eq!(summary.bottleneck, measure::Bottleneck::Concurrency);
}

#[test]
fn virtual_users_have_a_connection_each_and_think() {
    let witness = Witness::start();
    let arguments = ["--vus", "5", "--think", "20ms", "-n", "50"];
    let summary = measured(load([&witness.url("/")]).args(arguments));
    assert_eq!((summary.model, summary.connections_limit), (LoadModel::Users, 5));
    assert_eq!((summary.requests.succeeded, summary.connections.used), (50, 5));
    assert_eq!((witness.count("/"), witness.connections()), (50, 5));
    assert!(summary.wall_s >= 9.0 * 0.020, "nine pauses of each user: {} s", summary.wall_s);
}

#[test]
fn virtual_users_come_in_stages() {
    let witness = Witness::start();
    let arguments = ["--vus", "1", "--stages", "300ms:4,200ms:4", "--think", "5ms"];
    let summary = measured(load([&witness.url("/")]).args(arguments));
    assert_eq!((summary.connections_limit, summary.connections.used), (4, 4));
    assert_eq!((witness.count("/") as u64, witness.connections()), (summary.requests.started, 4));
}

#[test]
fn workers_share_a_pool_and_their_wait_for_it_is_told_apart() {
    let service = Service::start(Duration::from_millis(2));
    let arguments = ["--workers", "8", "--max-connections", "3", "-n", "80"];
    let summary = measured(load([&service.url()]).args(arguments));
    assert_eq!((summary.model, summary.requests.succeeded, service.served()), (LoadModel::Pool, 80, 80));
    assert_eq!((summary.connections.used, summary.max_in_flight), (3, 3));
    assert!(summary.queue_us.count() > 0, "five of eight workers wait at any time");
    let alone = measured(load([&service.url()]).args(["--workers", "1", "--max-connections", "6", "-n", "10"]));
    assert_eq!(alone.connections.opened, 1, "connections are opened on demand");
}

#[test]
fn clients_share_nothing() {
    let witness = Witness::start();
    let summary = measured(load([&witness.url("/")]).args(["--clients", "3", "-c", "2", "-n", "60"]));
    assert_eq!((summary.clients, summary.connections.used, summary.requests.succeeded), (3, 6, 60));
    assert_eq!((witness.count("/"), witness.connections()), (60, 6));
}

#[test]
fn without_keep_alive_each_request_has_its_connection() {
    let witness = Witness::start();
    let summary = measured(load([&witness.url("/")]).args(["-n", "20", "-c", "2", "--no-keepalive"]));
    assert_eq!((summary.connections.used, summary.connections.reused), (20, 0));
    assert_eq!((witness.count("/"), witness.connections()), (20, 20));
}

#[test]
fn a_warm_up_is_not_measured() {
    let witness = Witness::start();
    let summary = measured(load([&witness.url("/")]).args(["-D", "300ms", "--warm-up-time", "300ms"]));
    assert!(summary.requests.succeeded > 0);
    assert!((summary.requests.succeeded as usize) < witness.count("/"), "the server saw the warm-up too");
    assert!(summary.wall_s < 0.6, "{} s", summary.wall_s);
}
