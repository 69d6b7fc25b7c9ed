//! What the load engine measures behind a link, against what follows from the link's parameters alone.

use std::process::Command;

use measure::{LinkSummary, LoadSummary, Protocol};

const FAIRLANE: &str = env!("CARGO_BIN_EXE_fairlane");

/// One `fairlane load` behind a link, against the built-in origin.
fn measured(link: &str, protocol: Protocol, path: &str, arguments: &[&str]) -> (LoadSummary, LinkSummary) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("link.json");
    let output = Command::new(FAIRLANE)
        .args(["link", link, "--json", "--origin", &format!("{FAIRLANE} serve --port 8443"), "--output"])
        .arg(&report)
        .args(["--", FAIRLANE, "load", &format!("https://origin:8443{path}"), "--protocol", protocol.name()])
        .args(["--insecure", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let load = serde_json::from_slice(&output.stdout).unwrap();
    (load, serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap())
}

/// Whether a measurement can be had that is not spoilt by a busy machine, which only ever makes things later.
fn eventually(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let mut said = String::new();
    for _ in 0..5 {
        match holds() {
            Ok(()) => return,
            Err(found) => said = found,
        }
    }
    panic!("{what}: {said}");
}

#[test]
fn a_mebibyte_takes_the_time_that_the_rate_says() {
    if let Err(error) = link::availability() {
        return testbed::skip(&error.to_string());
    }
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        eventually(&format!("1 MiB over {protocol} at 10 Mbit/s"), || {
            let (load, link) = measured("rate=10mbit rtt=20ms queue=2MB", protocol, "/bytes/1048576", &[]);
            assert_eq!(load.traffic.data_bytes, 1 << 20);
            // Every packet that came down, headers included, needs its time on the line.
            let on_the_line = link.down.bytes as f64 * 8.0 / 10e6;
            // Three round trips until the request is there, and one in which the initial window does not fill the line.
            let set_up = 4.0 * 0.020;
            let took = load.wall_s;
            assert!(took > on_the_line, "{protocol}: {took} s is faster than the line, {on_the_line} s");
            let limit = on_the_line * 1.01 + set_up;
            if took < limit { Ok(()) } else { Err(format!("{took} s, more than {limit} s")) }
        });
    }
}

#[test]
fn the_first_byte_of_a_cold_request_takes_three_round_trips_or_two_over_quic() {
    if let Err(error) = link::availability() {
        return testbed::skip(&error.to_string());
    }
    for (protocol, round_trips) in [(Protocol::H1, 3.0), (Protocol::H2, 3.0), (Protocol::H3, 2.0)] {
        eventually(&format!("first byte over {protocol} at a round trip of 100 ms"), || {
            let (load, _) = measured("rtt=100ms", protocol, "/api/test", &[]);
            let [connect, first_byte] = [&load.connect_us, &load.first_byte_us]
                .map(|histogram| histogram.quantile_us(0.5).expect("one request was answered") as f64);
            let took = (connect + first_byte) / 100e3;
            assert!(took > round_trips * 0.99, "{protocol}: {took} round trips is faster than light");
            if took < round_trips * 1.05 { Ok(()) } else { Err(format!("{took} round trips, not {round_trips}")) }
        });
    }
}

#[test]
fn the_same_seed_loses_the_same_packets_and_another_seed_others() {
    if let Err(error) = link::availability() {
        return testbed::skip(&error.to_string());
    }
    let lossy = |seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("link.json");
        let status = Command::new(FAIRLANE)
            .args(["link", "rate=20mbit rtt=10ms loss=5%", "--seed", seed, "--json", "--output"])
            .arg(&report)
            .args(["--origin", &format!("{FAIRLANE} serve --port 8443")])
            .args(["--", FAIRLANE, "load", "http://origin:8443/bytes/200000", "-n", "4", "-c", "4", "--json"])
            .output()
            .unwrap()
            .status;
        assert!(status.success());
        let link: LinkSummary = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
        link.tap.flows.iter().map(|flow| flow.drops).collect::<Vec<u64>>()
    };
    // Retransmissions follow the clock, so a flow may lose one or two more of them; new data is lost alike.
    let (first, again, other) = (lossy("1"), lossy("1"), lossy("2"));
    assert_eq!(first.len(), 4);
    let apart = |a: &[u64], b: &[u64]| a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).sum::<u64>();
    assert!(apart(&first, &again) <= 6, "{first:?} and {again:?} come from one seed");
    assert_ne!(first, other);
}
