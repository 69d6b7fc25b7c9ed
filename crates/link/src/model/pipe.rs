use super::loss::Loss;
use super::{Direction, DropReason, PacketMeta, Verdict};
use crate::profile::DirectionProfile;

/// Bits times nanoseconds per second: `bytes * SCALE / rate` is a time in nanoseconds.
const SCALE: u128 = 8 * 1_000_000_000;

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct Pipe {
    loss: Loss,
    rate: Option<u64>,
    queue_bytes: u64,
    delay_ns: u64,
    /// When everything admitted so far has been sent, whole nanoseconds ...
    free_ns: u64,
    /// ... and the rest of that instant in units of 1/rate ns, always below `rate`: no time is lost to rounding.
    free_rest: u64,
}

impl Pipe {
    pub fn new(profile: &DirectionProfile, direction: Direction, seed: u64) -> Pipe {
        Pipe {
            loss: Loss::new(profile.loss, direction, seed),
            rate: profile.rate,
            queue_bytes: profile.queue_bytes,
            delay_ns: profile.delay_ns,
            free_ns: 0,
            free_rest: 0,
        }
    }

    pub fn admit(&mut self, now_ns: u64, packet: &PacketMeta) -> Verdict {
        if packet.key.is_some_and(|key| self.loss.strikes(&key)) {
            return Verdict::Drop(DropReason::Loss);
        }
        if now_ns > self.free_ns {
            (self.free_ns, self.free_rest) = (now_ns, 0);
        }
        if let Some(rate) = self.rate {
            let size = u128::from(packet.ip_bytes) * SCALE;
            let backlog = u128::from(self.free_ns - now_ns) * u128::from(rate) + u128::from(self.free_rest);
            // An idle link sends any packet at once; the limit is for packets that have to wait.
            if backlog > 0 && backlog + size > u128::from(self.queue_bytes) * SCALE {
                return Verdict::Drop(DropReason::Queue);
            }
            let busy = size + u128::from(self.free_rest);
            let busy_ns = u64::try_from(busy / u128::from(rate)).unwrap_or(u64::MAX);
            self.free_ns = self.free_ns.saturating_add(busy_ns);
            self.free_rest = (busy % u128::from(rate)) as u64;
        }
        Verdict::Deliver { due_ns: self.free_ns.saturating_add(self.delay_ns) }
    }
}
