use super::Direction;

/// The identity of a packet within its workload: what random loss is drawn from, together with the seed.
///
/// Loss must strike the *same data* whenever a workload is repeated with the same seed; otherwise the luck of the draw
/// drowns the difference between two protocols. A sequential generator cannot do that: parallel flows interleave
/// differently each time, and from the first difference on every draw falls on another packet. So a packet is lost when
/// `hash(seed, direction, key)` falls below the loss rate, and the key holds only what survives a repetition: no
/// clock, no ephemeral port, no initial sequence number, nothing about other flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LossKey {
    /// Ordinal of the flow (see [`Tap`](crate::tap::Tap)).
    pub flow: u64,
    /// Class of the packet; each class counts for itself.
    pub kind: LossKind,
    /// Where in the stream the packet starts; 0 for kinds without a position.
    pub cell: u64,
    /// Which one, from 0, of the packets that agree in everything above.
    pub nth: u32,
}

/// The classes of packets that [`LossKey`] tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// A TCP SYN or SYN-ACK.
    TcpSyn,
    /// A TCP segment with new data, or a new FIN.
    TcpNew,
    /// A TCP segment that starts with data sent before.
    TcpAgain,
    /// Any other TCP segment: a pure acknowledgement, a reset.
    TcpAck,
    /// A UDP datagram that carries data.
    UdpLarge,
    /// A UDP datagram so short that it is most likely an acknowledgement.
    UdpSmall,
}

/// The loss of one direction of a link.
#[derive(Clone, Debug)]
pub struct Loss {
    origin: u64,
    threshold: u64,
}

/// The draw of a packet is uniform in `0..2^DRAW_BITS`.
const DRAW_BITS: u32 = 53;

impl Loss {
    /// Loses the share `loss` (0 to 1) of all packets with a key.
    pub fn new(loss: f64, direction: Direction, seed: u64) -> Loss {
        let threshold = (loss * (1_u64 << DRAW_BITS) as f64).round() as u64;
        Loss { origin: absorb(mix(seed), direction as u64), threshold }
    }

    /// Whether the packet with this key is lost.
    pub fn strikes(&self, key: &LossKey) -> bool {
        self.draw(key) < self.threshold
    }

    fn draw(&self, key: &LossKey) -> u64 {
        let words = [key.flow, key.kind as u64, key.cell, u64::from(key.nth)];
        words.into_iter().fold(self.origin, absorb) >> (u64::BITS - DRAW_BITS)
    }
}

/// Adds a word to a running hash.
fn absorb(hash: u64, word: u64) -> u64 {
    mix(hash ^ word)
}

/// One step of splitmix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by an independent program from the definition; recorded experiments rest on them.
    #[test]
    fn draws_are_pinned() {
        use Direction::{Down, Up};
        let golden = [
            (0, Up, 0, LossKind::TcpSyn, 0, 0, 0x0019_7a6f_5a53_7276),
            (1, Up, 0, LossKind::TcpNew, 0, 0, 0x000f_6a62_1162_391f),
            (1, Down, 0, LossKind::TcpNew, 0, 0, 0x0009_8639_c000_a9d0),
            (1, Down, 1, LossKind::TcpNew, 7, 0, 0x000c_545f_a65d_457e),
            (1, Down, 1, LossKind::TcpAgain, 7, 2, 0x001c_4247_0c4e_a077),
            (7, Up, 1 << 32, LossKind::TcpAck, 3, 1, 0x000a_71da_c0a0_889a),
            (7, Down, 3, LossKind::UdpLarge, 0, 1000, 0x0014_4d64_19cd_4692),
            (u64::MAX, Down, 2 << 32 | 5, LossKind::UdpSmall, 0, u32::MAX, 0x0012_8f02_15cb_dad1),
        ];
        for (seed, direction, flow, kind, cell, nth, draw) in golden {
            let key = LossKey { flow, kind, cell, nth };
            assert_eq!(Loss::new(0.5, direction, seed).draw(&key), draw, "seed {seed}, {direction:?}, {key:?}");
        }
    }

    #[test]
    fn decisions_are_pinned() {
        let loss = Loss::new(0.02, Direction::Down, 1);
        let is_lost = |cell: &u64| loss.strikes(&LossKey { flow: 0, kind: LossKind::TcpNew, cell: *cell, nth: 0 });
        let lost: Vec<u64> = (0..400).filter(is_lost).collect();
        assert_eq!(lost, [31, 41, 55, 71, 75, 141, 175, 228, 298, 311]);
    }
}
