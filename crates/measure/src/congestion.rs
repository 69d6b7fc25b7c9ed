use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A congestion control algorithm that both kernel TCP and QUIC have, under the kernel's name for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// RFC 9438.
    #[default]
    Cubic,
    /// Model-based; version 1 in the kernel and in quinn.
    Bbr,
    /// RFC 6582 in TCP, RFC 9002 section 7 in QUIC.
    Reno,
}

impl CongestionControl {
    /// Every algorithm.
    pub const ALL: [CongestionControl; 3] = [CongestionControl::Cubic, CongestionControl::Bbr, CongestionControl::Reno];

    /// Payload of a full TCP segment on Ethernet with timestamps, bytes. A packet of an initial window has this size
    /// with every transport, so that the same number of packets is the same number of bytes.
    pub const PACKET_BYTES: u64 = 1448;

    /// The name in flags, files and results.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::Bbr => "bbr",
            CongestionControl::Reno => "reno",
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
#[error("unknown congestion control '{0}': expected one of cubic, bbr, reno")]
pub struct ParseCongestionControlError(String);

impl FromStr for CongestionControl {
    type Err = ParseCongestionControlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = CongestionControl::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        known.ok_or_else(|| ParseCongestionControlError(text.to_owned()))
    }
}
