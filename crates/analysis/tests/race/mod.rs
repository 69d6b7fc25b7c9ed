//! A small race with fixed figures: three protocols on two links, seven rounds, one invalid trial.

use std::collections::BTreeMap;

use analysis::{Plan, PlannedLink, Summary};
use measure::{
    Bottleneck, ChildUsage, ConnectionCounts, CpuTime, DirectionSummary, Environment, Histogram, Lateness, LinkSummary,
    LoadCpu, LoadModel, LoadSummary, OriginCounters, PageLoad, Protocol, ProtocolCounters, QuicCounts, RequestCounts,
    StatusCounts, TapSummary, Traffic, Trial,
};

/// Times in milliseconds of the rounds of one condition.
const TIMES: [(&str, Protocol, [f64; 7]); 6] = [
    ("slow-4g", Protocol::H1, [2210.0, 2214.0, 2209.0, 2221.0, 2216.0, 2212.0, 2219.0]),
    ("slow-4g", Protocol::H2, [2190.0, 2199.0, 2201.0, 2212.0, 2190.0, 2195.0, 2208.0]),
    ("slow-4g", Protocol::H3, [2051.0, 2049.0, 2060.0, 2055.0, 2044.0, 2058.0, 2049.0]),
    ("slow-4g loss=2%", Protocol::H1, [3410.0, 3622.0, 3301.0, 3480.0, 3390.0, 3555.0, 3370.0]),
    ("slow-4g loss=2%", Protocol::H2, [3920.0, 4198.0, 3710.0, 3871.0, 3999.0, 3650.0, 4120.0]),
    ("slow-4g loss=2%", Protocol::H3, [3330.0, 3411.0, 3402.0, 3380.0, 3105.0, 3720.0, 3180.0]),
];

pub fn plan() -> Plan {
    let link = |name: &str, title: &str, detail: &str| PlannedLink {
        name: name.to_owned(),
        title: title.to_owned(),
        detail: detail.to_owned(),
    };
    Plan {
        name: "page".to_owned(),
        question: "Which HTTP version loads a page of <30> small objects fastest?".to_owned(),
        workload: "page fetch from cold: 1 document + 30 objects of 10 kB".to_owned(),
        metric: "page load time".to_owned(),
        entrants: vec![Protocol::H1, Protocol::H2, Protocol::H3],
        links: vec![
            link("slow-4g", "Slow 4G", "1.6/0.75 Mbit/s, 150 ms, queue 64 kB"),
            link("slow-4g loss=2%", "Slow 4G + 2 % loss", "1.6/0.75 Mbit/s, 150 ms, queue 64 kB, loss 2 %"),
        ],
        rounds: 7,
        seed: 7,
        practical: 0.03,
        origin: "built-in origin".to_owned(),
        repeat: "fairlane race page --seed 7 --rounds 7".to_owned(),
        has_link: true,
    }
}

pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for round in 1..=7 {
        for (index, (link, protocol, times)) in TIMES.iter().enumerate() {
            let time = times[round as usize - 1];
            if (round, index) == (3, 5) {
                let mut invalid = trial(round, index % 3, *protocol, link, 5400.0);
                invalid.invalid.push("link lateness p99 is 4 ms, more than 1 ms".to_owned());
                trials.push(invalid);
            }
            let mut valid = trial(round, index % 3, *protocol, link, time);
            valid.attempt = if (round, index) == (3, 5) { 2 } else { 1 };
            trials.push(valid);
        }
    }
    trials
}

pub fn environment() -> Environment {
    Environment {
        fairlane: "0.1.0".to_owned(),
        kernel: "6.18.5".to_owned(),
        cpu: "Example CPU".to_owned(),
        processors: 2,
        memory_bytes: 8_000_000_000,
        tls: "rustls with aws-lc-rs".to_owned(),
        kernel_congestion_control: "bbr".to_owned(),
    }
}

pub fn summary() -> Summary {
    analysis::summarize(&plan(), &trials(), &environment())
}

fn trial(round: u32, entrant: usize, protocol: Protocol, link: &str, time_ms: f64) -> Trial {
    let connections = if protocol.multiplexes() { 1 } else { 6 };
    let is_quic = protocol == Protocol::H3;
    let quic = QuicCounts { sent_packets: 120, lost_packets: u64::from(round) % 3, congestion_events: 1 };
    let counters =
        ProtocolCounters { connections, handshakes: connections, requests: 31, ..ProtocolCounters::default() };
    let command = ["fairlane", "link", link, "--", "fairlane", "load", "--page", "https://origin:8443/page/30/10000"];
    Trial {
        round,
        entrant,
        protocol,
        link: link.to_owned(),
        attempt: 1,
        seed: 7000 + u64::from(round),
        started_unix_ms: 1_800_000_000_000 + u64::from(round) * 60_000,
        command: command.map(str::to_owned).to_vec(),
        origin_command: None,
        invalid: Vec::new(),
        time_ms: Some(time_ms),
        load: Some(load(protocol, connections, is_quic.then(|| quic.clone()), time_ms)),
        link_summary: Some(link_summary(link, protocol, connections, round)),
        origin: Some(OriginCounters {
            protocols: BTreeMap::from([(protocol, counters)]),
            quic: if is_quic { quic } else { QuicCounts::default() },
            tcp_congestion_control: Some("cubic".to_owned()),
            quic_congestion_control: "cubic".to_owned(),
            quic_initial_window_bytes: 14_480,
            cpu: CpuTime { user_us: 12_000, system_us: 9_600 },
            uptime_us: 5_000_000,
        }),
    }
}

fn load(protocol: Protocol, connections: u64, quic: Option<QuicCounts>, time_ms: f64) -> LoadSummary {
    let duration_us = (time_ms * 1000.0) as u64;
    LoadSummary {
        schema: LoadSummary::SCHEMA,
        url: "https://origin:8443/page/30/10000".to_owned(),
        protocol,
        connections_limit: connections as u32,
        streams_limit: 100,
        threads: 1,
        clients: 1,
        different_requests: 1,
        model: LoadModel::Page,
        wall_s: time_ms / 1000.0,
        requests_per_second: 31.0 / (time_ms / 1000.0),
        max_in_flight: 30,
        requests: RequestCounts { total: 31, started: 31, done: 31, succeeded: 31, ..RequestCounts::default() },
        status: StatusCounts { success: 31, ..StatusCounts::default() },
        traffic: Traffic { received_bytes: 312_000, data_bytes: 304_000, sent_bytes: 4_100, ..Traffic::default() },
        connections: ConnectionCounts {
            opened: connections,
            completed: connections,
            used: connections,
            reused: connections,
            handshakes: connections,
            max_streams: 30,
            ..ConnectionCounts::default()
        },
        tls: None,
        congestion_control: "cubic".to_owned(),
        initial_window_packets: Some(10),
        quic,
        latency: Histogram::default(),
        intended_latency_us: Histogram::default(),
        connect_us: Histogram::default(),
        first_byte_us: Histogram::default(),
        queue_us: Histogram::default(),
        rate_per_connection: None,
        intervals: Vec::new(),
        pages: vec![PageLoad {
            duration_us,
            first_byte_us: 470_000,
            objects: 30,
            data_bytes: 304_000,
            connections: connections as u32,
        }],
        cpu: LoadCpu::new(CpuTime { user_us: 20_000, system_us: 11_200 }, 31),
        errors: BTreeMap::new(),
        faults: Vec::new(),
        receive_windows: None,
        bottleneck: Bottleneck::None,
    }
}

fn link_summary(link: &str, protocol: Protocol, connections: u64, round: u32) -> LinkSummary {
    let is_quic = protocol == Protocol::H3;
    let direction = DirectionSummary { drops: BTreeMap::from([("loss".to_owned(), 5)]), ..DirectionSummary::default() };
    LinkSummary {
        schema: LinkSummary::SCHEMA,
        link: link.to_owned(),
        up: DirectionSummary::default(),
        down: direction,
        seed: 7000 + u64::from(round),
        congestion_control: "cubic".to_owned(),
        initial_window_packets: 10,
        lateness: Lateness { p50_us: 40, p99_us: 210, max_us: 900 },
        forwarder_cpu: CpuTime { user_us: 9_000, system_us: 20_000 },
        duration_us: 4_000_000,
        setup_us: 90_000,
        unmodelled_drops: 0,
        invalid: Vec::new(),
        tap: TapSummary {
            tcp_opened: if is_quic { 0 } else { connections },
            tcp_completed: if is_quic { 0 } else { connections },
            quic_opened: if is_quic { connections } else { 0 },
            client_hellos: if is_quic { 0 } else { connections },
            tcp_retransmissions: if is_quic { 0 } else { 10 + u64::from(round) % 4 },
            flows: Vec::new(),
        },
        client: ChildUsage::default(),
        origin: None,
    }
}
