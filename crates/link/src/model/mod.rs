//! The path model: when does a packet that enters the link now leave it, or why does it not?
//!
//! Pure and exact: no clock, no I/O, and integers only, so that the same packets at the same instants with the same
//! seed meet the same verdicts on every machine. Instants are nanoseconds since any fixed origin.
//!
//! ```text
//!            loss            queue                  rate                   delay
//!  packet ──> hash < p ? ──> backlog > limit ? ──> start = max(now, free) ──> due = free + delay
//!              │ Drop(Loss)   │ Drop(Queue)         free = start + bits / rate
//! ```
//!
//! The rate is kept in *virtual time*: `free` is the instant at which everything admitted so far has been sent. It
//! follows from the packets alone and not from when the caller gets round to sending them, so lateness never adds up.

mod loss;
mod pipe;

use std::fmt;

use crate::profile::Profile;
pub use loss::{LossKey, LossKind};
use pipe::Pipe;

/// The way a packet travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Client to origin.
    Up,
    /// Origin to client.
    Down,
}

impl Direction {
    /// Both directions, in the order of their indices.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The other direction.
    pub const fn reverse(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }

    /// 0 for up, 1 for down: an index into arrays that hold one item per direction.
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A flow's place in the table of the [`Tap`](crate::tap::Tap) that numbered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub usize);

/// What the model has to know about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketMeta {
    /// Length of the IP packet, header included. This is what the rate and the queue count.
    pub ip_bytes: u32,
    /// What decides whether the packet is lost at random; a packet without a key never is.
    pub key: Option<LossKey>,
    /// The flow it belongs to, for the tap's books; the model does not look at it.
    pub flow: Option<FlowId>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves the link at this instant.
    Deliver {
        /// Nanoseconds, on the clock of the `now_ns` given to [`Link::admit`].
        due_ns: u64,
    },
    /// It is never seen again.
    Drop(DropReason),
}

/// Why the model dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    /// Random loss.
    Loss,
    /// The queue was full.
    Queue,
}

impl DropReason {
    /// Every reason, in the order of their indices.
    pub const ALL: [DropReason; 2] = [DropReason::Loss, DropReason::Queue];

    /// The word under which summaries count it.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Loss => "loss",
            DropReason::Queue => "queue",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A link: two independent directions that share a seed.
#[derive(Clone, Debug)]
pub struct Link {
    pipes: [Pipe; 2],
}

impl Link {
    /// An idle link. Links with the same profile and seed judge the same packets alike.
    pub fn new(profile: &Profile, seed: u64) -> Link {
        Link { pipes: Direction::BOTH.map(|direction| Pipe::new(profile.direction(direction), direction, seed)) }
    }

    /// Judges a packet that enters the link at `now_ns`.
    ///
    /// Within a direction, packets are due in the order in which they were admitted, even when `now_ns` steps back.
    pub fn admit(&mut self, now_ns: u64, direction: Direction, packet: &PacketMeta) -> Verdict {
        self.pipes[direction.index()].admit(now_ns, packet)
    }
}

#[cfg(test)]
mod tests;
