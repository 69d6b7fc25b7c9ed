use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use measure::{CongestionControl, Protocol};

use crate::tls::Identity;

/// What to serve, and where.
pub struct Config {
    /// Addresses to listen on; empty means every address of both families, or of IPv4 where there is no IPv6.
    pub bind: Vec<IpAddr>,
    /// Port for TCP and UDP; 0 takes one that is free for both.
    pub port: u16,
    /// Protocols that are switched on; at least one.
    pub protocols: BTreeSet<Protocol>,
    /// Certificate and key, the same for every encrypted protocol.
    pub identity: Identity,
    /// Address of the counters (`/stats`); `None` switches them off. Port 0 takes a free one.
    pub admin: Option<SocketAddr>,
    /// Delay of every answer; at most [`MAX_DELAY`].
    pub delay: Duration,
    /// Directory of the database of employees; `None` keeps it in memory.
    pub store: Option<PathBuf>,
    /// Congestion control of QUIC, and of TCP where the kernel allows it.
    pub congestion_control: CongestionControl,
    /// Initial congestion window of QUIC in packets of [`CongestionControl::PACKET_BYTES`]; TCP's belongs to the kernel's routes.
    pub initial_window_packets: u32,
}

/// The longest delay of an answer: half the idle timeout, so that none of the protocols gives up meanwhile.
pub const MAX_DELAY: Duration = Duration::from_secs(30);
