//! What was counted in one trial, and by whom. `None` is unknown.

use std::fmt;

use measure::{Protocol, Trial};

/// One figure as the three observers count it. They must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// By the client.
    pub client: Option<u64>,
    /// On the wire.
    pub wire: Option<u64>,
    /// By the origin.
    pub origin: Option<u64>,
}

impl Observed {
    /// Whether all who counted came to the same figure.
    pub fn agree(&self) -> bool {
        let mut known = [self.client, self.wire, self.origin].into_iter().flatten();
        let first = known.next();
        known.all(|count| Some(count) == first)
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        write!(f, "{}, {}, {}", text(self.client), text(self.wire), text(self.origin))
    }
}

/// Connections opened.
pub fn connections(trial: &Trial) -> Observed {
    Observed {
        client: trial.load.as_ref().map(|load| load.connections.opened),
        wire: trial.link_summary.as_ref().map(|link| link.tap.connections()),
        origin: trial
            .origin
            .as_ref()
            .map(|origin| origin.protocols.get(&trial.protocol).map_or(0, |counters| counters.connections)),
    }
}

/// TLS handshakes, QUIC's included.
pub fn handshakes(trial: &Trial) -> Observed {
    Observed {
        client: trial.load.as_ref().map(|load| load.connections.handshakes),
        wire: trial.link_summary.as_ref().map(|link| link.tap.handshakes()),
        origin: trial
            .origin
            .as_ref()
            .map(|origin| origin.protocols.get(&trial.protocol).map_or(0, |counters| counters.handshakes)),
    }
}

/// TCP segments that repeated data, as seen on the wire; or QUIC packets declared lost by their sender. QUIC's packets
/// do not show on the wire what they repeat, so both ends must report.
pub fn retransmissions(trial: &Trial) -> Option<u64> {
    match trial.protocol {
        Protocol::H3 => {
            Some(trial.load.as_ref()?.quic.as_ref()?.lost_packets + trial.origin.as_ref()?.quic.lost_packets)
        }
        _ => Some(trial.link_summary.as_ref()?.tap.tcp_retransmissions),
    }
}

/// CPU time of the client, microseconds.
pub fn client_cpu_us(trial: &Trial) -> Option<u64> {
    trial.load.as_ref().map(|load| load.cpu.total_us())
}

/// CPU time of the origin in microseconds, as it reports it itself, else as the kernel accounts it to the program.
pub fn origin_cpu_us(trial: &Trial) -> Option<u64> {
    let program = || trial.link_summary.as_ref()?.origin.as_ref().map(|origin| origin.cpu.total_us());
    trial.origin.as_ref().map(|origin| origin.cpu.total_us()).or_else(program)
}
