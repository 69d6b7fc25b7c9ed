//! The server under test: one application over HTTP/1.1, HTTP/2 and HTTP/3, in cleartext and over TLS, on one port.
//!
//! What flows in: a [`Config`]. What flows out: answers whose bytes do not depend on the protocol, and
//! [`measure::OriginCounters`].
//!
//! ```text
//!  TCP port N ─ h1c h1 h2c h2 ─┐
//!                              ├─> service ──────────> app
//!  UDP port N ─ h3 ────────────┘   (counts, Date, ..)  (routes, store)
//!  admin port ─ /stats <─ counters
//! ```
//!
//! It knows nothing of links, clients or experiments.

mod admin;
mod app;
mod config;
mod counters;
mod error;
mod files;
pub mod tls;
mod transport;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use measure::{OriginCounters, Protocol};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::{Config, MAX_DELAY};
pub use error::Error;

use crate::app::App;
use crate::counters::Counters;
use crate::files::Access;
use crate::transport::{Site, Sockets, Wanted};

/// How long the last packets of closed connections may take to leave.
const FLUSH: Duration = Duration::from_millis(10);

/// A running origin.
pub struct Origin {
    site: Arc<Site>,
    endpoints: Vec<quinn::Endpoint>,
    addresses: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl Origin {
    /// Opens the sockets and serves until [`Origin::shutdown`]; must be called inside a tokio runtime.
    pub fn start(config: &Config) -> Result<Origin, Error> {
        let on = |protocol: &Protocol| config.protocols.contains(protocol);
        let h3 = on(&Protocol::H3);
        let tcp = Protocol::ALL.iter().any(|protocol| *protocol != Protocol::H3 && on(protocol));
        if !tcp && !h3 {
            return Err(Error::NoProtocol);
        }
        let sockets = Sockets::open(&Wanted {
            bind: &config.bind,
            port: config.port,
            tcp,
            udp: h3,
            congestion_control: config.congestion_control,
        })?;
        let alt_svc = format!("h3=\":{}\"; ma=86400", sockets.port());
        tls::warm_up();
        let site = Arc::new(Site {
            app: App::new(config.store.as_deref(), config.delay)?,
            counters: Arc::new(Counters::new(config.congestion_control, config.initial_window_packets)),
            protocols: config.protocols.clone(),
            alt_svc: h3.then(|| HeaderValue::from_str(&alt_svc).expect("a port number is visible ASCII")),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let admin = config
            .admin
            .map(|address| admin::start(address, Arc::clone(&site.counters), site.stop.clone()))
            .transpose()?;
        let acceptor = transport::acceptor(config)?;
        for listener in sockets.tcp {
            let listener = TcpListener::from_std(listener).map_err(Error::Runtime)?;
            site.serve_tcp(listener, acceptor.clone());
        }
        let mut endpoints = Vec::new();
        for socket in sockets.udp {
            let endpoint = transport::endpoint(socket, config)?;
            site.serve_quic(endpoint.clone());
            endpoints.push(endpoint);
        }
        Ok(Origin { site, endpoints, addresses: sockets.addresses, admin })
    }

    /// The addresses listened on, all with the same port.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The port of TCP and UDP.
    pub fn port(&self) -> u16 {
        self.addresses[0].port()
    }

    /// The address of the counters.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Waits for the first TCP connection and gives its congestion control, as the kernel names it.
    ///
    /// It is the route's or the kernel's default where the kernel does not have or allow the one asked for.
    pub async fn tcp_congestion_control(&self) -> &str {
        self.site.counters.tcp_congestion_control().await
    }

    /// The counters as they stand. QUIC's packets are added when their connection ends.
    pub fn counters(&self) -> OriginCounters {
        self.site.counters.read()
    }

    /// Accepts nothing new, lets requests in flight finish within `grace`, and gives the final counters.
    ///
    /// HTTP/2 and HTTP/3 clients get a GOAWAY. Without a request in flight clients have some 10 ms to take note, and QUIC's
    /// last packets 10 ms to leave.
    pub async fn shutdown(self, grace: Duration) -> OriginCounters {
        self.site.stop.cancel();
        self.site.tasks.close();
        if timeout(grace, self.site.tasks.wait()).await.is_err() {
            self.site.abort.cancel();
            self.site.tasks.wait().await;
        }
        let _ = timeout(FLUSH, async {
            for endpoint in &self.endpoints {
                endpoint.wait_idle().await;
            }
        })
        .await;
        self.site.counters.read()
    }
}

/// Checks that [`write_counters`] can write there; nothing is left behind.
pub fn check_counters(path: &Path) -> Result<(), Error> {
    files::check_writable(path)
}

/// Writes counters as JSON, so that a reader finds the whole file or none.
pub fn write_counters(path: &Path, counters: &OriginCounters) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(counters).expect("counters are plain numbers and strings");
    files::write_atomically(path, (json + "\n").as_bytes(), Access::Everyone)
}
