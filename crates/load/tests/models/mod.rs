//! What decides when requests go out, against nginx: the counts that each model promises.

use std::collections::BTreeMap;
use std::time::Duration;

use load::{Amount, Arrivals, Expectation, Model, Plan, Planned, Stage};
use measure::{Bottleneck, LoadModel, LoadSummary, Protocol};

use crate::servers::{Server, run};

const ENDLESS: &str = "keepalive_requests 10000000;";

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// What must be true of every run that went well.
fn assert_consistent(server: &Server, summary: &LoadSummary) {
    let requests = &summary.requests;
    assert_eq!((requests.failed, summary.errors.len()), (0, 0), "{:?}", summary.errors);
    assert_eq!((requests.started, requests.done), (requests.succeeded, requests.succeeded));
    assert_eq!(requests.total, requests.started + requests.dropped);
    assert_eq!(server.access_log(requests.done).len() as u64, requests.done);
    assert_eq!(summary.intervals.iter().map(|second| second.done).sum::<u64>(), requests.done);
    assert_eq!(summary.latency.count(), requests.done);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    for (protocol, arrivals) in
        [(Protocol::H1c, Arrivals::Uniform), (Protocol::H2, Arrivals::Poisson), (Protocol::H1, Arrivals::Uniform)]
    {
        let Some(server) = Server::nginx(ENDLESS) else { return };
        let stages = vec![Stage { length: Duration::ZERO, level: 300.0 }, Stage { length: seconds(1.5), level: 300.0 }];
        let model = Model::OpenLoop { stages, arrivals, seed: 3 };
        let amount = Amount::Duration(seconds(1.5));
        let streams = if protocol.multiplexes() { 10 } else { 1 };
        let plan = Plan { model, connections: 10, streams, threads: 2, ..server.plan(protocol, "/small", amount) };
        let summary = run(&plan).unwrap();
        assert_consistent(&server, &summary);
        assert_eq!(summary.model, LoadModel::OpenLoop);
        let total = summary.requests.total;
        match arrivals {
            Arrivals::Uniform => assert_eq!(total, 450),
            Arrivals::Poisson => assert!((350..550).contains(&total), "{total} arrivals, 450 expected"),
        }
        assert_eq!(summary.connections.used, 10, "requests go round the connections");
        assert_eq!(summary.intended_latency_us.count(), summary.requests.done);
        let [intended, sent] = [&summary.intended_latency_us, &summary.latency].map(|h| h.quantile_us(0.5).unwrap());
        assert!(intended >= sent, "{intended} < {sent}");
    }
}

#[test]
fn a_number_of_arrivals_ends_an_open_loop() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let model = Model::constant_rate(2000.0, seconds(3600.0));
    let plan = Plan { model, connections: 4, ..server.plan(Protocol::H1c, "/small", Amount::Requests(101)) };
    let summary = run(&plan).unwrap();
    assert_consistent(&server, &summary);
    assert_eq!(summary.requests.total, 101);
    assert_eq!(summary.bottleneck, Bottleneck::None);
}

#[test]
fn users_have_a_connection_each_and_think() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    // From 1 to 6 users, and back.
    let stages = vec![
        Stage { length: Duration::ZERO, level: 1.0 },
        Stage { length: seconds(0.6), level: 6.0 },
        Stage { length: seconds(0.6), level: 1.0 },
    ];
    let amount = Amount::Duration(Stage::total_length(&stages));
    let model = Model::Users { stages, think: seconds(0.05) };
    let plan = Plan { model, connections: 6, threads: 2, ..server.plan(Protocol::H1, "/small", amount) };
    let summary = run(&plan).unwrap();
    assert_consistent(&server, &summary);
    assert_eq!((summary.connections.used, summary.connections.opened), (6, 6));
    assert_eq!(summary.connections.max_streams, 1);
    // Nobody can make more than one request per pause; the user who is always there makes the most of all.
    let most = (1.2 / 0.05) as u64 + 1;
    assert!((6..=6 * most).contains(&summary.requests.done), "{}", summary.requests.done);
}

#[test]
fn workers_share_a_pool_and_wait_for_it() {
    for protocol in [Protocol::H1, Protocol::H2] {
        let Some(server) = Server::nginx(ENDLESS) else { return };
        let model = Model::Pool { workers: 8, think: Duration::ZERO };
        let plan = Plan { model, connections: 3, ..server.plan(protocol, "/small", Amount::Requests(400)) };
        let summary = run(&plan).unwrap();
        assert_consistent(&server, &summary);
        assert_eq!((summary.requests.succeeded, summary.connections.opened), (400, 3));
        assert!(summary.max_in_flight <= 3, "a worker without a connection waits");
        assert_eq!(summary.connections.reused, 3);
        assert!(summary.queue_us.count() >= 400 - 3 && summary.queue_us.quantile_us(0.9) > Some(1));
    }
    // With streams enough for all workers, one connection would do; while it is being made the others are begun.
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let model = Model::Pool { workers: 8, think: seconds(0.01) };
    let plan =
        Plan { model, connections: 3, streams: 100, ..server.plan(Protocol::H2, "/small", Amount::Requests(80)) };
    let summary = run(&plan).unwrap();
    assert_consistent(&server, &summary);
    assert!(summary.max_in_flight <= 8);
}

#[test]
fn clients_share_neither_connections_nor_sessions() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let base = server.plan(Protocol::H1, "/small", Amount::Requests(60));
    let plan = Plan { clients: 3, connections: 2, ..base };
    let summary = run(&plan).unwrap();
    assert_consistent(&server, &summary);
    assert_eq!((summary.connections.used, summary.clients), (6, 3));
}

#[test]
fn without_keep_alive_every_request_has_its_connection() {
    for protocol in [Protocol::H1c, Protocol::H1, Protocol::H2] {
        let Some(server) = Server::nginx(ENDLESS) else { return };
        let base = server.plan(protocol, "/small", Amount::Requests(40));
        let summary = run(&Plan { keep_alive: false, connections: 2, ..base }).unwrap();
        assert_consistent(&server, &summary);
        assert_eq!((summary.connections.used, summary.connections.reused), (40, 0), "{protocol}");
    }
}

#[test]
fn requests_are_chosen_by_weight() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let mut plan = Plan { connections: 2, threads: 2, ..server.plan(Protocol::H2, "/small", Amount::Requests(1000)) };
    let weighted = |path: &str, weight| Planned { weight, ..Planned::get(path.to_owned()) };
    plan.requests = vec![weighted("/small?a", 7.0), weighted("/small?b", 2.0), weighted("/small?c", 1.0)];
    let summary = run(&plan).unwrap();
    assert_consistent(&server, &summary);
    let mut counts = BTreeMap::<char, i64>::new();
    for line in server.access_log(1000) {
        let name = ['a', 'b', 'c'].into_iter().find(|name| line.contains(&format!("?{name}"))).unwrap();
        *counts.entry(name).or_default() += 1;
    }
    for (name, expected) in [('a', 700), ('b', 200), ('c', 100)] {
        assert!((counts[&name] - expected).abs() <= 10, "{counts:?}");
    }
}

#[test]
fn responses_that_are_not_as_expected_have_failed() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let base = server.plan(Protocol::H2, "/missing", Amount::Requests(5));
    let missing = Expectation { statuses: vec![404..=404], body_bytes: None };
    assert_eq!(run(&Plan { expect: missing, ..base.clone() }).unwrap().requests.succeeded, 5);
    let empty = Expectation { statuses: vec![404..=404], body_bytes: Some(0) };
    let summary = run(&Plan { expect: empty, ..base }).unwrap();
    assert_eq!((summary.requests.failed, summary.requests.done), (5, 5));
    assert!(summary.errors.keys().all(|reason| reason.contains("instead of 0")), "{:?}", summary.errors);
}

#[test]
fn connections_are_opened_at_the_rate_asked_for() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let mut plan = Plan { connections: 5, ..server.plan(Protocol::H1c, "/small", Amount::Requests(5)) };
    plan.transport.connection_rate = Some(20.0);
    let summary = run(&plan).unwrap();
    assert_consistent(&server, &summary);
    assert!(summary.wall_s >= 4.0 / 20.0, "{} s for 5 connections", summary.wall_s);
}

#[test]
fn every_request_stands_in_the_log() {
    let Some(server) = Server::nginx(ENDLESS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.csv");
    let plan = Plan { connections: 3, streams: 4, ..server.plan(Protocol::H2, "/small?a,b", Amount::Requests(500)) };
    let summary = run(&Plan { request_log: Some(path.clone()), ..plan }).unwrap();
    assert_consistent(&server, &summary);
    let mut rows = csv::Reader::from_path(&path).unwrap();
    let latency = rows.headers().unwrap().iter().position(|name| name == "latency_us").unwrap();
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 500);
    let longest = rows.iter().map(|row| row[latency].parse::<u64>().unwrap()).max();
    // The histogram has three digits.
    assert!(longest.unwrap().abs_diff(summary.latency.spread().unwrap().max) <= longest.unwrap() / 500);
    assert!(
        rows.iter().all(|row| &row[4] == "200" && &row[7] == "GET" && &row[8] == "/small?a,b" && row[9].is_empty())
    );
}
