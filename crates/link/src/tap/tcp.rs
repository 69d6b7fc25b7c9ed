use std::collections::BTreeMap;

use etherparse::TcpSlice;

use super::hello::HelloReader;
use crate::model::{Direction, LossKind};

/// Two segments start "at the same place" if they start in the same cell of the stream, this many bytes wide: the
/// payload of a full segment (1500 bytes less the headers of IPv4 and of TCP with timestamps).
///
/// Exact sequence numbers would not survive a repetition. Where a stream is cut depends on timing, and the signature in
/// a TLS handshake alone varies by a byte or two, which shifts all that follows and would redraw every loss. But
/// wherever full segments are cut, exactly one of them starts in each cell; short ones that share a cell are numbered.
/// Any two of six equal downloads over a link with 3 % loss shared 99 % of their keys; with exact sequence numbers it
/// was 4 % in the median.
const CELL_BYTES: u64 = 1448;

/// The state of one TCP connection.
#[derive(Debug)]
pub struct TcpFlow {
    opener: Direction,
    sides: [Option<Side>; 2],
    completed: bool,
    retransmissions: u64,
    hello: HelloReader,
}

/// What one end has sent. Positions count from its initial sequence number and do not wrap.
#[derive(Debug)]
struct Side {
    initial: u32,
    /// One past the highest position sent.
    sent: u64,
    syns: u32,
    new: Counter,
    acks: Counter,
    /// Repeated segments by cell; forgotten once the cell is acknowledged, so it holds no more than a window.
    again: BTreeMap<u64, u32>,
}

impl TcpFlow {
    /// A connection whose first SYN comes from `opener`.
    pub fn new(opener: Direction) -> TcpFlow {
        TcpFlow { opener, sides: [None, None], completed: false, retransmissions: 0, hello: HelloReader::new() }
    }

    /// Whether a segment opens another connection between the same ports.
    pub fn is_succeeded_by(&self, direction: Direction, segment: &TcpSlice) -> bool {
        let opener = self.sides[self.opener.index()].as_ref();
        is_opening(segment)
            && direction == self.opener
            && opener.is_some_and(|side| side.initial != segment.sequence_number())
    }

    /// Takes note of a segment; gives its class, its cell, and its number within both.
    pub fn observe(&mut self, direction: Direction, segment: &TcpSlice) -> (LossKind, u64, u32) {
        let [up, down] = &mut self.sides;
        let (side, peer) = match direction {
            Direction::Up => (up, down),
            Direction::Down => (down, up),
        };
        let (syn, sequence) = (segment.syn(), segment.sequence_number());
        let side = side.get_or_insert_with(|| Side::new(if syn { sequence } else { sequence.wrapping_sub(1) }));

        let mut acknowledged = 0;
        if let Some(peer) = peer.as_mut().filter(|_| segment.ack()) {
            acknowledged = peer.position(segment.acknowledgment_number()).min(peer.sent);
            peer.again = peer.again.split_off(&(acknowledged / CELL_BYTES));
            let answers_syn_ack = direction == self.opener && peer.syns > 0 && !syn && !segment.rst();
            self.completed |= answers_syn_ack;
        }

        let payload = segment.payload();
        let start = side.position(sequence.wrapping_add(u32::from(syn)));
        let length = payload.len() as u64 + u64::from(segment.fin());
        let repeats = length > 0 && start < side.sent;
        side.sent = side.sent.max(start.saturating_add(length));
        if direction == Direction::Up && start > 0 && !payload.is_empty() {
            self.hello.push(start - 1, payload);
        }

        let cell = start / CELL_BYTES;
        let key = if syn {
            side.syns += 1;
            (LossKind::TcpSyn, 0, side.syns - 1)
        } else if repeats {
            let count = side.again.entry(cell).or_default();
            *count += 1;
            (LossKind::TcpAgain, cell, *count - 1)
        } else if length > 0 {
            (LossKind::TcpNew, cell, side.new.next(cell))
        } else {
            let cell = acknowledged / CELL_BYTES;
            (LossKind::TcpAck, cell, side.acks.next(cell))
        };
        self.retransmissions += u64::from(repeats || (syn && side.syns > 1));
        key
    }

    /// Whether the client opened it.
    pub fn is_from_client(&self) -> bool {
        self.opener == Direction::Up
    }

    /// Whether the opener has acknowledged a SYN-ACK.
    pub fn completed(&self) -> bool {
        self.completed
    }

    /// Segments that repeated data, SYN or FIN, both directions.
    pub fn retransmissions(&self) -> u64 {
        self.retransmissions
    }

    /// The start of the client's stream.
    pub fn hello(&self) -> &HelloReader {
        &self.hello
    }
}

/// Whether a segment is the first of a handshake.
pub fn is_opening(segment: &TcpSlice) -> bool {
    segment.syn() && !segment.ack() && !segment.rst()
}

impl Side {
    fn new(initial: u32) -> Side {
        Side { initial, sent: 1, syns: 0, new: Counter::default(), acks: Counter::default(), again: BTreeMap::new() }
    }

    /// The position of a sequence number: the one nearest to what was sent last (RFC 9293 section 3.4).
    fn position(&self, sequence: u32) -> u64 {
        let latest = self.initial.wrapping_add(self.sent as u32);
        let ahead = sequence.wrapping_sub(latest) as i32;
        self.sent.saturating_add_signed(i64::from(ahead))
    }
}

/// Numbers segments within a cell, where cells only move forward.
#[derive(Debug, Default)]
struct Counter {
    cell: u64,
    count: u32,
}

impl Counter {
    fn next(&mut self, cell: u64) -> u32 {
        if cell != self.cell {
            *self = Counter { cell, count: 0 };
        }
        self.count += 1;
        self.count - 1
    }
}
