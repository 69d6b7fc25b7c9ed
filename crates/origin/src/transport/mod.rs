//! Five protocols on one port number.
//!
//! ```text
//!              first byte 0x16 -> TLS -> ALPN http/1.1 -> h1
//!  TCP accept <                              ALPN h2   -> h2
//!              "PRI" -> h2c, else -> h1c
//!  UDP        -> QUIC, ALPN h3 ------------------------> h3
//! ```
//!
//! HTTP/2 in cleartext is spoken with prior knowledge only: RFC 9113 has dropped the `Upgrade` of RFC 7540.
//!
//! The limits below are the same for every protocol that has them, because a flow-control window or a stream limit that
//! differs would decide races.

mod lent;
mod quic;
mod quic_body;
mod service;
mod sockets;
mod tcp;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use measure::Protocol;
use quinn::{Endpoint, VarInt};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::App;
use crate::counters::Counters;

pub(crate) use quic::endpoint;
pub(crate) use sockets::{Sockets, Wanted, refused};
pub(crate) use tcp::{accept, acceptor};

/// Requests at once on one connection of HTTP/2 or HTTP/3.
const MAX_STREAMS: u32 = 256;

/// Flow-control window of a stream, bytes: 1 Gbit/s at a round trip of 64 ms.
const STREAM_WINDOW: u32 = 8 << 20;

/// Flow-control window of a connection, bytes.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Size of a request's header section, bytes.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// Time for the TLS or QUIC handshake, and before it for the bytes that tell the protocol.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the first request (in HTTP/2, that includes the preface), for a header section, and between requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// What a connection without a request in flight gets at shutdown, to take note of it.
const FAREWELL: Duration = Duration::from_millis(10);

/// The code with which HTTP/3 ends a connection in peace (RFC 9114 section 8.1).
pub(crate) const H3_NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// What every connection needs.
pub(crate) struct Site {
    pub app: App,
    pub counters: Arc<Counters>,
    pub protocols: BTreeSet<Protocol>,
    /// Announces HTTP/3 (RFC 7838), when it is on.
    pub alt_svc: Option<HeaderValue>,
    /// Cancelled when no new request is wanted.
    pub stop: CancellationToken,
    /// Cancelled when requests in flight have had their time.
    pub abort: CancellationToken,
    /// Every connection and accept loop.
    pub tasks: TaskTracker,
}

impl Site {
    fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let abort = self.abort.clone();
        self.tasks.spawn(async move {
            abort.run_until_cancelled(task).await;
        });
    }

    /// What a handshake gives, unless it fails, takes too long or the shutdown comes first.
    async fn in_time<T, E>(&self, handshake: impl IntoFuture<Output = Result<T, E>>) -> Option<T> {
        self.stop.run_until_cancelled(timeout(HANDSHAKE_TIMEOUT, handshake)).await?.ok()?.ok()
    }

    /// Accepts TCP connections until the shutdown.
    pub fn serve_tcp(self: &Arc<Self>, listener: TcpListener, tls: TlsAcceptor) {
        self.spawn(tcp::serve(listener, tls, Arc::clone(self)));
    }

    /// Accepts QUIC connections until the shutdown.
    pub fn serve_quic(self: &Arc<Self>, endpoint: Endpoint) {
        self.spawn(quic::serve(endpoint, Arc::clone(self)));
    }
}
