use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use measure::Protocol;

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
    /// Initial congestion window of QUIC in packets of [`PACKET_BYTES`]; TCP's belongs to the kernel's routes.
    pub initial_window_packets: u32,
}

/// The longest delay of an answer: half the idle timeout, so that none of the protocols gives up meanwhile.
pub const MAX_DELAY: Duration = Duration::from_secs(30);

/// Payload of a full TCP segment on Ethernet with timestamps, bytes: the unit of the initial window.
pub const PACKET_BYTES: u64 = 1448;

/// A congestion control algorithm that both the kernel and QUIC know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// Model-based; version 1 in quinn and the kernel.
    Bbr,
    /// RFC 9002 appendix B in QUIC, RFC 6582 in TCP.
    NewReno,
}

impl CongestionControl {
    /// The name in flags and results.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::Bbr => "bbr",
            CongestionControl::NewReno => "newreno",
        }
    }

    /// The kernel's name for it.
    pub const fn kernel_name(self) -> &'static str {
        match self {
            CongestionControl::NewReno => "reno",
            other => other.name(),
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name given is not one of the algorithms.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown congestion control '{0}': expected one of cubic, bbr, newreno")]
pub struct ParseCongestionControlError(String);

impl FromStr for CongestionControl {
    type Err = ParseCongestionControlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::NewReno]
            .into_iter()
            .find(|algorithm| algorithm.name() == text)
            .ok_or_else(|| ParseCongestionControlError(text.to_owned()))
    }
}
