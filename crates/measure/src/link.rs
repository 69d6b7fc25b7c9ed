use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CpuTime;

/// What an emulated link did during one run; written by `fairlane link --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// Version of this format.
    pub schema: u32,
    /// The link as it was asked for: a profile name, overrides included.
    pub link: String,
    /// Client to origin.
    pub up: DirectionSummary,
    /// Origin to client.
    pub down: DirectionSummary,
    /// Seed of the losses.
    pub seed: u64,
    /// TCP congestion control in force on both sides.
    pub congestion_control: String,
    /// TCP initial congestion window in packets, both sides.
    pub initial_window_packets: u32,
    /// How late packets left the link, against the instant the model set.
    pub lateness: Lateness,
    /// CPU time of the forwarder thread.
    pub forwarder_cpu: CpuTime,
    /// Wall time that the link ran, microseconds.
    pub duration_us: u64,
    /// Time to build the lab, microseconds.
    pub setup_us: u64,
    /// Packets that were lost although the model did not order it (full kernel buffers).
    pub unmodelled_drops: u64,
    /// Why the run does not count; empty when it does.
    pub invalid: Vec<String>,
    /// What crossed the link.
    pub tap: TapSummary,
    /// The client program.
    pub client: ChildUsage,
    /// The origin program, when the link started one.
    pub origin: Option<ChildUsage>,
}

impl LinkSummary {
    /// The version of the format that this code writes.
    pub const SCHEMA: u32 = 1;
}

/// One direction of a link: what was set and what happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Rate in bits per second of IP packets; `None` is unlimited.
    pub rate_bits_per_second: Option<u64>,
    /// One-way delay, microseconds.
    pub delay_us: u64,
    /// Limit of the drop-tail queue, bytes.
    pub queue_bytes: u64,
    /// Share of packets lost at random, 0 to 1.
    pub loss: f64,
    /// Packets that entered the link.
    pub packets: u64,
    /// Bytes of IP packets that entered the link.
    pub bytes: u64,
    /// Packets that the model dropped, by reason (`loss`, `queue`, ...).
    pub drops: BTreeMap<String, u64>,
}

/// Quantiles of the lateness of packets, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Largest.
    pub max_us: u64,
}

/// Counts from the wire, for any program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TapSummary {
    /// TCP connections opened by the client (SYNs, repeated ones not counted).
    pub tcp_opened: u64,
    /// TCP connections whose three-way handshake completed.
    pub tcp_completed: u64,
    /// QUIC connections opened by the client (Initial packets to an ID of its own; repeated ones not counted).
    pub quic_opened: u64,
    /// TLS ClientHellos seen in TCP payload; QUIC's are encrypted and counted by `quic_opened`.
    pub client_hellos: u64,
    /// TCP segments that repeat data, a SYN or a FIN, both directions.
    pub tcp_retransmissions: u64,
    /// One record per TCP connection or UDP flow, in order of appearance.
    pub flows: Vec<FlowRecord>,
}

impl TapSummary {
    /// Connections on the wire, TCP and QUIC together.
    pub fn connections(&self) -> u64 {
        self.tcp_opened + self.quic_opened
    }

    /// Handshakes on the wire, TLS over TCP and QUIC together.
    pub fn handshakes(&self) -> u64 {
        self.client_hellos + self.quic_opened
    }
}

/// The transport of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP whose first datagram was a QUIC Initial.
    Quic,
    /// Any other UDP.
    Udp,
}

/// One TCP connection or UDP flow on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRecord {
    /// TCP, QUIC or other UDP.
    pub transport: Transport,
    /// Port at the client.
    pub client_port: u16,
    /// Port at the origin.
    pub origin_port: u16,
    /// Bytes of transport payload from client to origin, retransmissions included.
    pub up_bytes: u64,
    /// Bytes of transport payload from origin to client, retransmissions included.
    pub down_bytes: u64,
    /// Packets of this flow that the model dropped, both directions.
    pub drops: u64,
    /// TCP segments that repeat data, a SYN or a FIN, both directions; 0 for UDP.
    pub retransmissions: u64,
    /// ALPN identifiers offered in the ClientHello; empty when none was seen in the clear.
    pub alpn: Vec<String>,
    /// Whether the ClientHello offered to resume a session (pre_shared_key or session ticket).
    pub resumption_offered: bool,
}

/// A program that ran inside the lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildUsage {
    /// Its command line.
    pub command: Vec<String>,
    /// Its exit code; 128 + n when signal n ended it.
    pub exit_code: i32,
    /// CPU time of the program and the children it waited for.
    pub cpu: CpuTime,
}
