use measure::Transport;

use super::quic::{self, Connections};
use crate::model::{Direction, LossKind};

/// Datagrams with at most this many bytes of payload count as acknowledgements.
const SMALL_BYTES: usize = 100;

/// The state of one UDP flow.
#[derive(Debug, Default)]
pub struct UdpFlow {
    content: Content,
    large: [u32; 2],
    small: [u32; 2],
}

#[derive(Debug, Default)]
enum Content {
    /// No datagram of the client's was seen.
    #[default]
    Unknown,
    Quic(Connections),
    Other,
}

impl UdpFlow {
    /// Takes note of a datagram; gives its class and its number within that class.
    pub fn observe(&mut self, direction: Direction, datagram: &[u8]) -> (LossKind, u32) {
        match (direction, &mut self.content) {
            (Direction::Up, content @ Content::Unknown) => {
                *content = match quic::initial_destination(datagram) {
                    Some(_) => {
                        let mut connections = Connections::default();
                        connections.client_sent(datagram);
                        Content::Quic(connections)
                    }
                    None => Content::Other,
                }
            }
            (Direction::Up, Content::Quic(connections)) => connections.client_sent(datagram),
            (Direction::Down, Content::Quic(connections)) => connections.server_sent(datagram),
            _ => {}
        }
        let (kind, counts) = match datagram.len() {
            ..=SMALL_BYTES => (LossKind::UdpSmall, &mut self.small),
            _ => (LossKind::UdpLarge, &mut self.large),
        };
        let count = &mut counts[direction.index()];
        let nth = *count;
        *count = nth.wrapping_add(1);
        (kind, nth)
    }

    pub fn transport(&self) -> Transport {
        match self.content {
            Content::Quic(_) => Transport::Quic,
            Content::Unknown | Content::Other => Transport::Udp,
        }
    }

    /// QUIC connections that the client opened.
    pub fn quic_opened(&self) -> u64 {
        match &self.content {
            Content::Quic(connections) => connections.opened(),
            Content::Unknown | Content::Other => 0,
        }
    }
}
