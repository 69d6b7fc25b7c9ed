use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuTime, Protocol, QuicCounts};

/// What the origin counted; served as JSON at `/stats` on the admin address and written at shutdown by `--stats FILE`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginCounters {
    /// Counts per protocol; a protocol that nobody spoke is absent.
    pub protocols: BTreeMap<Protocol, ProtocolCounters>,
    /// Counts of the QUIC endpoint, as its transport reports them.
    pub quic: QuicCounts,
    /// Congestion control of the first TCP connection accepted; `None` without one.
    pub tcp_congestion_control: Option<String>,
    /// Congestion control of the origin's QUIC.
    pub quic_congestion_control: String,
    /// Initial window of the origin's QUIC, bytes.
    pub quic_initial_window_bytes: u64,
    /// CPU time since the origin was ready.
    pub cpu: CpuTime,
    /// Time since the origin was ready, microseconds.
    pub uptime_us: u64,
}

/// What the origin counted for one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolCounters {
    /// Connections accepted (TCP) or whose first Initial was accepted (QUIC).
    pub connections: u64,
    /// TLS handshakes completed, QUIC's included.
    pub handshakes: u64,
    /// Requests received.
    pub requests: u64,
    /// Requests being answered now.
    pub in_flight: u64,
    /// The largest number of requests being answered at once.
    pub max_in_flight: u64,
    /// The largest number of requests being answered at once on one connection.
    pub max_streams_per_connection: u64,
    /// Bytes of response bodies sent.
    pub body_bytes: u64,
}
