use std::net::SocketAddr;

use measure::{QuicCounts, TlsFacts};
use serde::Serialize;
use wire::trace::Item;

/// Something that happened, and when.
#[derive(Clone, Debug, Serialize)]
pub struct Note {
    /// Microseconds since the command began.
    pub at_us: u64,
    /// Which connection, counted from 1; 0 before the first.
    pub connection: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// The host's addresses are known.
    Resolved {
        /// Host and port.
        endpoint: String,
        /// In the resolver's order.
        addresses: Vec<SocketAddr>,
        /// Time that it took, microseconds.
        took_us: u64,
    },
    /// No connection could be made to an address; the next one is tried, if there is one.
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// There is a TCP connection.
    Connected {
        /// The client's address.
        local: SocketAddr,
        /// The server's address.
        remote: SocketAddr,
        /// Time that it took, microseconds.
        took_us: u64,
    },
    /// The TLS handshake over TCP is over.
    Secured {
        /// What it agreed on.
        tls: Tls,
        /// Time that it took, microseconds.
        took_us: u64,
    },
    /// There is a QUIC connection.
    Quic {
        /// The client's address.
        local: SocketAddr,
        /// The server's address.
        remote: SocketAddr,
        /// QUIC's version.
        version: u32,
        /// The server's transport parameters that differ from their defaults and that the QUIC library knows.
        parameters: Vec<Parameter>,
        /// What TLS agreed on.
        tls: Tls,
        /// Time that the handshake took, microseconds.
        took_us: u64,
    },
    /// A request goes out on a connection that was used before.
    Reused,
    /// The client sent this.
    Sent {
        /// What it means.
        item: Item,
    },
    /// The client received this.
    Received {
        /// What it means.
        item: Item,
    },
    /// The server had closed the connection before the request: it is sent again on a new one.
    Stale,
    /// The connection is over.
    Closed {
        /// Why.
        reason: String,
        /// Counts of QUIC; `None` over TCP.
        quic: Option<QuicCounts>,
    },
}

/// What a TLS handshake agreed on.
#[derive(Clone, Debug, Serialize)]
pub struct Tls {
    /// Version, cipher, key exchange, ALPN, and how the certificate was checked.
    #[serde(flatten)]
    pub facts: TlsFacts,
    /// ALPN identifier that was offered.
    pub alpn_offered: String,
    /// Whether an earlier session was resumed, so that the server showed no certificate.
    pub resumed: bool,
    /// The server's certificate and those that it sent with it; of a resumed session, those shown when it began.
    pub certificates: Vec<Certificate>,
}

/// A certificate (RFC 5280).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// Distinguished name of its owner.
    pub subject: String,
    /// Distinguished name of who signed it.
    pub issuer: String,
    /// DNS names and addresses that it is for (subject alternative names).
    pub names: Vec<String>,
    /// When it begins to be valid (RFC 3339).
    pub not_before: String,
    /// When it ceases to be valid (RFC 3339).
    pub not_after: String,
}

/// A transport parameter of QUIC (RFC 9000 section 18.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Name in the registry, or the identifier as a number.
    pub name: String,
    /// A number, or bytes in hexadecimal; empty for those that say all by being there.
    pub value: String,
}

/// One request and its response.
#[derive(Clone, Debug, Serialize)]
pub struct Exchange {
    /// Which one, counted from 1.
    pub number: u64,
    /// On which connection, counted from 1.
    pub connection: u32,
    /// Whether the connection carried an earlier request.
    pub reused: bool,
    /// Stream identifier; `None` in HTTP/1.1.
    pub stream: Option<u64>,
    /// Status of the final response; `None` if none came.
    pub status: Option<u16>,
    /// Sizes of the request.
    pub sent: Sizes,
    /// Sizes of the response.
    pub received: Sizes,
    /// How long its phases took.
    pub timings: Timings,
    /// Why it is not complete; `None` if it is.
    pub error: Option<String>,
}

/// Sizes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Bytes of the head on the wire: the lines in HTTP/1.1, the field section in HTTP/2 and HTTP/3.
    pub head_bytes: u64,
    /// Bytes of the same head uncompressed: the lengths of names and values; equals `head_bytes` in HTTP/1.1.
    pub head_decoded_bytes: u64,
    /// Bytes of the body, without framing.
    pub body_bytes: u64,
}

/// How long the phases of an exchange took, in microseconds; `None` for those that it did not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timings {
    /// Finding the host's addresses.
    pub lookup_us: Option<u64>,
    /// Making the TCP connection.
    pub connect_us: Option<u64>,
    /// The TLS handshake over TCP, or the QUIC handshake.
    pub handshake_us: Option<u64>,
    /// From the sending of the request to the arrival of the final response's head.
    pub first_byte_us: Option<u64>,
    /// From there to the last byte of the response.
    pub transfer_us: Option<u64>,
    /// All phases together, and what lies between them.
    pub total_us: u64,
}
