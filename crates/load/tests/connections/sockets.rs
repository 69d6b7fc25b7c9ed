use std::collections::BTreeMap;

use load::{Amount, Plan, Target};
use measure::Protocol;

use crate::servers::{Server, run};

#[test]
fn connections_come_from_the_addresses_of_the_plan_in_turn() {
    for protocol in [Protocol::H1c, Protocol::H1, Protocol::H2] {
        let Some(server) = Server::nginx_that_tells_of_tls("TLSv1.3", "keepalive_requests 5;") else { return };
        let mut plan = Plan { connections: 4, ..server.plan(protocol, "/small", Amount::Requests(100)) };
        plan.transport.sources = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().unwrap()).into();
        let summary = run(&plan).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (100, 0), "{:?}", summary.errors);
        let mut connections = BTreeMap::<String, Vec<String>>::new();
        for line in server.access_log(100) {
            let mut words = line.split(' ').map(str::to_owned);
            let (connection, address) = (words.next().unwrap(), words.next().unwrap());
            connections.entry(address).or_default().push(connection);
        }
        assert!(connections.keys().eq(["127.0.0.2", "127.0.0.3"]), "{connections:?}");
        assert_eq!(connections.values().map(Vec::len).collect::<Vec<_>>(), [50, 50]);
    }
}

#[test]
fn quic_comes_from_the_addresses_of_the_plan_too() {
    let Some(server) = Server::caddy() else { return };
    let mut plan = Plan { connections: 2, ..server.plan(Protocol::H3, "/small", Amount::Requests(4)) };
    plan.transport.sources = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().unwrap()).into();
    assert_eq!(run(&plan).unwrap().requests.succeeded, 4);
    let log = server.access_log(4).join("\n");
    assert!(log.contains("\"127.0.0.2\"") && log.contains("\"127.0.0.3\""), "{log}");
}

#[test]
fn sources_of_the_wrong_kind_are_refused() {
    let target = Target::parse("http://127.0.0.1:9/", None).unwrap();
    let mut plan = Plan::new(target, Protocol::H1c, load::Model::ClosedLoop, Amount::Requests(1));
    plan.transport.sources = vec!["::1".parse().unwrap()];
    let message = run(&plan).unwrap_err().to_string();
    assert!(message.contains("no --source can reach 127.0.0.1:9"), "{message}");
}

#[test]
fn a_unix_socket_carries_every_protocol_over_byte_streams() {
    let extra = "listen unix:ROOT/clear.sock; listen unix:ROOT/tls.sock ssl http2;";
    let Some(server) = Server::nginx_that_tells_of_tls("TLSv1.3", extra) else { return };
    for (number, protocol) in [Protocol::H1c, Protocol::H1, Protocol::H2].into_iter().enumerate() {
        let mut plan = Plan { connections: 2, ..server.plan(protocol, "/small", Amount::Requests(50)) };
        let socket = server.file(if protocol.is_encrypted() { "tls.sock" } else { "clear.sock" });
        plan.target = Target::parse(plan.target.url().as_str(), None).unwrap().through_socket(socket);
        let summary = run(&plan).unwrap();
        assert_eq!((summary.requests.succeeded, summary.requests.failed), (50, 0), "{:?}", summary.errors);
        assert_eq!(summary.connections.used, 2);
        let lines = server.access_log(50 * (number as u64 + 1));
        assert!(lines.last().unwrap().contains(" unix: "), "{lines:?}");
    }
    let missing = server.file("missing.sock");
    let mut plan = server.plan(Protocol::H1c, "/small", Amount::Requests(1));
    plan.target = plan.target.through_socket(missing.clone());
    let message = run(&plan).unwrap_err().to_string();
    assert!(message.contains(&missing.display().to_string()) && message.contains("No such file"), "{message}");
}
