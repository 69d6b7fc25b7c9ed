use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuTime, Histogram, Protocol};

/// What one run of the load engine saw; printed by `fairlane load --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// Version of this format.
    pub schema: u32,
    /// The URL asked for; the first one of several.
    pub url: String,
    /// Number of different requests that the run chose from.
    pub different_requests: u32,
    /// The protocol that was spoken (a run that spoke another than the wanted one fails).
    pub protocol: Protocol,
    /// What TLS agreed on; `None` in cleartext.
    pub tls: Option<TlsFacts>,
    /// What decided when a request goes out.
    pub model: LoadModel,
    /// Connections allowed at once (`-c`), of each client.
    pub connections_limit: u32,
    /// Requests in flight allowed on each connection (`-m`); pipelined in HTTP/1.1.
    pub streams_limit: u32,
    /// Threads (`-t`) of each client.
    pub threads: u32,
    /// Clients, each with connections and TLS sessions of its own.
    pub clients: u32,
    /// Requests by fate.
    pub requests: RequestCounts,
    /// Responses by status class.
    pub status: StatusCounts,
    /// Bytes in and out.
    pub traffic: Traffic,
    /// Time from the start of a request's sending to the last byte of its response.
    #[serde(flatten, with = "latency_keys")]
    pub latency: Histogram,
    /// Time from the instant at which a request was meant to be sent to the last byte of its response, microseconds:
    /// free of coordinated omission. Only where there is a schedule of arrivals; empty otherwise.
    pub intended_latency_us: Histogram,
    /// Time from the start of a request's sending to the first byte of its response.
    pub first_byte_us: Histogram,
    /// Time from the start of connecting to a connection ready for requests (TCP, TLS and QUIC handshakes included).
    pub connect_us: Histogram,
    /// Time that requests waited in the client for a free connection or stream.
    pub queue_us: Histogram,
    /// Requests per second of each connection over its life.
    pub rate_per_connection: Option<RateSpread>,
    /// Connections by fate.
    pub connections: ConnectionCounts,
    /// The largest number of requests in flight at once, over all connections.
    pub max_in_flight: u64,
    /// Requests that ended with an answer, per second.
    pub requests_per_second: f64,
    /// True window of measurement, from the first connect or request to the last byte, seconds.
    pub wall_s: f64,
    /// CPU time of the client during the window.
    pub cpu: LoadCpu,
    /// What kept the client from doing more.
    pub bottleneck: Bottleneck,
    /// Congestion control of the client's transport (`cubic`, `bbr`, ...), as the transport itself reports it.
    pub congestion_control: String,
    /// Initial congestion window of the client's transport in packets, where it can be known.
    pub initial_window_packets: Option<u32>,
    /// How much the server may send before the client allows more; `None` in HTTP/1.1, where the kernel decides.
    pub receive_windows: Option<ReceiveWindows>,
    /// QUIC's own counts; `None` over TCP.
    pub quic: Option<QuicCounts>,
    /// One entry per second of the run, warm-up included, and one for what was left.
    pub intervals: Vec<Interval>,
    /// One entry per page load (`--page`), in order; empty otherwise.
    pub pages: Vec<PageLoad>,
    /// Why requests failed, and what servers got wrong while no request was in flight, with counts.
    pub errors: BTreeMap<String, u64>,
    /// What went wrong beside the requests, such as a request log on a full disk; empty when nothing did.
    pub faults: Vec<String>,
}

impl LoadSummary {
    /// The version of the format that this code writes.
    pub const SCHEMA: u32 = 2;

    /// The window of measurement in microseconds.
    pub fn wall_us(&self) -> u64 {
        (self.wall_s * 1e6).round() as u64
    }

    /// The latency that a user of the service has: since the intended start where there is one, else since the sending.
    pub fn experienced_latency(&self) -> &Histogram {
        if self.model == LoadModel::OpenLoop { &self.intended_latency_us } else { &self.latency }
    }
}

/// The latency stands in two keys: its figures in `latency_us`, the whole distribution in `histogram`.
mod latency_keys {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::Histogram;
    use crate::histogram::{Figures, Packed};

    #[derive(Serialize, Deserialize)]
    struct Keys {
        latency_us: Figures,
        histogram: Packed,
    }

    pub(super) fn serialize<S: Serializer>(latency: &Histogram, serializer: S) -> Result<S::Ok, S::Error> {
        Keys { latency_us: latency.figures(), histogram: latency.into() }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram, D::Error> {
        Keys::deserialize(deserializer)?.histogram.try_into().map_err(serde::de::Error::custom)
    }
}

/// What decides when a request goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadModel {
    /// As soon as one ends, the next goes out on the same connection.
    ClosedLoop,
    /// At times that do not depend on the responses.
    OpenLoop,
    /// Virtual users, each with a connection and a loop of its own.
    Users,
    /// Workers that share a pool of connections.
    Pool,
    /// Loads of a page, one after the other.
    Page,
}

/// What kept the client from doing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Nothing that the client could see of itself: server or network.
    None,
    /// The client used at least 90 % of the processors that its threads could use.
    Client,
    /// Requests that were due waited for a free place: more connections or streams would have let them start.
    Concurrency,
}

/// Flow control of HTTP/2 and QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveWindows {
    /// Of each stream, bytes.
    pub stream_bytes: u32,
    /// Of each connection, bytes.
    pub connection_bytes: u32,
}

/// CPU time of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadCpu {
    /// In the program itself, seconds.
    pub user_s: f64,
    /// In the kernel on its behalf, seconds.
    pub system_s: f64,
    /// Both, per request that ended, microseconds; `None` when none did.
    pub us_per_request: Option<f64>,
}

impl LoadCpu {
    /// The figures for so much time and so many requests.
    pub fn new(time: CpuTime, requests: u64) -> LoadCpu {
        LoadCpu {
            user_s: time.user_us as f64 / 1e6,
            system_s: time.system_us as f64 / 1e6,
            us_per_request: (requests > 0).then(|| time.total_us() as f64 / requests as f64),
        }
    }

    /// User and system time together, microseconds.
    pub fn total_us(self) -> u64 {
        ((self.user_s + self.system_s) * 1e6).round() as u64
    }
}

/// One second of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its end, seconds since the start of the run.
    pub end_s: f64,
    /// Its length in seconds; the last one may be shorter.
    pub length_s: f64,
    /// Requests that ended in it.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Median latency of what ended in it, microseconds; `None` when nothing was answered.
    pub p50_us: Option<u64>,
    /// 99th percentile of the same.
    pub p99_us: Option<u64>,
}

/// Requests per second of connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateSpread {
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Share of connections within one standard deviation of the mean, 0 to 1.
    pub within_sd: f64,
}

/// Requests by fate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Requests that the run meant to make.
    pub total: u64,
    /// Requests that were sent; one that was sent again counts once.
    pub started: u64,
    /// Requests that ended in any way after they were sent.
    pub done: u64,
    /// Requests answered in full as was expected: with a status of 2xx or 3xx (of a page's document 2xx only) or what
    /// the checks ask for.
    pub succeeded: u64,
    /// Requests that did not succeed, for any reason; dropped ones are not among them.
    pub failed: u64,
    /// Failed requests whose connection or stream broke.
    pub errored: u64,
    /// Failed requests that took too long.
    #[serde(rename = "timeout")]
    pub timed_out: u64,
    /// Requests that were due and never sent, because no place became free for them.
    pub dropped: u64,
    /// Times that a request was sent again because the server had certainly not processed it.
    pub retried: u64,
}

/// Responses by status class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCounts {
    /// 200 to 299.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// 300 to 399.
    #[serde(rename = "3xx")]
    pub redirect: u64,
    /// 400 to 499.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// 500 to 599.
    #[serde(rename = "5xx")]
    pub server_error: u64,
}

impl StatusCounts {
    /// Counts one response.
    pub fn record(&mut self, status: u16) {
        match status {
            200..300 => self.success += 1,
            300..400 => self.redirect += 1,
            400..500 => self.client_error += 1,
            _ => self.server_error += 1,
        }
    }
}

/// Bytes at the level of HTTP framing, after TLS and before TCP or QUIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Bytes received: headers, framing and data.
    #[serde(rename = "total_bytes")]
    pub received_bytes: u64,
    /// Bytes of response headers as received.
    pub header_bytes: u64,
    /// Bytes of the same headers uncompressed, by h2load's formula (name and value lengths); equals `header_bytes` in
    /// HTTP/1.1.
    pub header_bytes_uncompressed: u64,
    /// Bytes of response bodies.
    pub data_bytes: u64,
    /// Bytes sent: headers, framing and bodies.
    pub sent_bytes: u64,
    /// Bytes of request headers as sent.
    pub sent_header_bytes: u64,
    /// Bytes of the same headers uncompressed.
    pub sent_header_bytes_uncompressed: u64,
}

/// Connections by fate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Connection attempts.
    pub opened: u64,
    /// Connections whose handshakes completed.
    pub completed: u64,
    /// Connections that carried at least one request.
    pub used: u64,
    /// Connections that carried more than one.
    pub reused: u64,
    /// TLS handshakes completed, QUIC's included.
    pub handshakes: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
    /// Connections whose first flight carried requests (0-RTT) that the server accepted.
    #[serde(default)]
    pub early_data_accepted: u64,
    /// Connections whose first flight carried requests that the server rejected, so that they were sent again.
    #[serde(default)]
    pub early_data_rejected: u64,
    /// The largest number of requests in flight at once on any connection.
    pub max_streams: u32,
}

/// What TLS agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: String,
    /// Cipher suite, IANA name.
    pub cipher: String,
    /// Key exchange group; empty where there was none, as in a resumed session of TLS 1.2.
    pub group: String,
    /// ALPN identifier chosen by the server.
    pub alpn: Option<String>,
    /// How the certificate was checked: `roots`, `cacert` or `insecure`.
    pub verification: String,
}

/// Counts of a QUIC endpoint, summed over its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuicCounts {
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets that this endpoint sent and declared lost (RFC 9002). QUIC retransmits data, never packets, so this is
    /// what stands beside TCP's retransmissions.
    pub lost_packets: u64,
    /// Congestion events (window reductions).
    pub congestion_events: u64,
}

/// One load of a page: a document and the objects it embeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLoad {
    /// From the start of the first connection to the last byte of the last object, microseconds.
    pub duration_us: u64,
    /// From the start of the first connection to the first byte of the document, microseconds.
    pub first_byte_us: u64,
    /// Objects fetched besides the document.
    pub objects: u32,
    /// Bytes of all bodies.
    pub data_bytes: u64,
    /// Connections that carried a request.
    pub connections: u32,
}
