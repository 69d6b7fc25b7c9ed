use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuTime, Histogram, Protocol};

/// What one run of the load engine saw; printed by `fairlane load --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSummary {
    /// Version of this format.
    pub schema: u32,
    /// The URL asked for.
    pub url: String,
    /// The protocol that was spoken (a run that spoke another than the wanted one fails).
    pub protocol: Protocol,
    /// Connections allowed at once (`-c`).
    pub connections_limit: u32,
    /// Requests in flight allowed on each connection (`-m`).
    pub streams_limit: u32,
    /// Threads (`-t`).
    pub threads: u32,
    /// True window of measurement, from the first connect or request to the last byte, microseconds.
    pub duration_us: u64,
    /// Requests by fate.
    pub requests: RequestCounts,
    /// Responses by status class.
    pub status: StatusCounts,
    /// Bytes in and out.
    pub traffic: Traffic,
    /// Connections by fate.
    pub connections: ConnectionCounts,
    /// What TLS agreed on; `None` in cleartext.
    pub tls: Option<TlsFacts>,
    /// Congestion control of the client's transport (`cubic`, `bbr`, ...), as the transport itself reports it.
    pub congestion_control: String,
    /// Initial congestion window of the client's transport in packets, where it can be known.
    pub initial_window_packets: Option<u32>,
    /// QUIC's own counts; `None` over TCP.
    pub quic: Option<QuicCounts>,
    /// Time from the start of a request's sending to the last byte of its response.
    pub request_time: Histogram,
    /// Time from the start of connecting to a connection ready for requests (TCP, TLS and QUIC handshakes included).
    pub connect_time: Histogram,
    /// Time from the start of connecting to the first byte of the first response, one value per connection.
    pub first_byte_time: Histogram,
    /// Time that requests waited in the client for a free connection or stream.
    pub queue_time: Histogram,
    /// One entry per page load (`--page`), in order; empty otherwise.
    pub pages: Vec<PageLoad>,
    /// CPU time of the client during the window.
    pub cpu: CpuTime,
    /// Why requests failed, with counts; empty when none did.
    pub errors: BTreeMap<String, u64>,
    /// True when the client used at least 90 % of the processors its threads could use.
    pub client_bound: bool,
}

impl LoadSummary {
    /// The version of the format that this code writes.
    pub const SCHEMA: u32 = 1;
}

/// Requests by fate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Requests that the run meant to make.
    pub total: u64,
    /// Requests that were sent.
    pub started: u64,
    /// Requests that ended in any way.
    pub done: u64,
    /// Requests answered in full with a status of 2xx or 3xx; of a page's document 2xx only.
    pub succeeded: u64,
    /// Requests that did not succeed, for any reason.
    pub failed: u64,
    /// Failed requests whose connection or stream broke.
    pub errored: u64,
    /// Failed requests that took too long.
    pub timed_out: u64,
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
    pub received_bytes: u64,
    /// Bytes of response headers as received.
    pub header_bytes: u64,
    /// Bytes of the same headers uncompressed, by h2load's formula (name and value lengths); equals `header_bytes` in
    /// HTTP/1.1.
    pub header_decoded_bytes: u64,
    /// Bytes of response bodies.
    pub data_bytes: u64,
    /// Bytes sent: headers, framing and bodies.
    pub sent_bytes: u64,
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
    /// TLS handshakes completed, QUIC's included.
    pub handshakes: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
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
    /// Key exchange group.
    pub key_exchange: String,
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
