//! Answers that the peer makes us owe and does not read.

/// Counts the bytes of the output that are answers to the peer: acknowledgements, window updates, resets.
///
/// The driver may send only after it has received a lot, so that some debt is normal. But a peer that goes on asking
/// and does not read would make the output grow without end.
#[derive(Debug)]
pub(super) struct Debt {
    owed: usize,
    limit: usize,
    /// Length of the output when it was last looked at.
    seen: usize,
}

impl Debt {
    /// For a connection with so many streams, each of which may owe a few window updates.
    pub(super) fn new(streams: usize) -> Self {
        Self { owed: 0, limit: streams.saturating_mul(64).max(64 << 10), seen: 0 }
    }

    /// The output has `len` bytes. If it had more, the driver has sent the difference; what has come are requests.
    pub(super) fn settle(&mut self, len: usize) {
        self.owed = self.owed.saturating_sub(self.seen.saturating_sub(len));
        self.seen = len;
    }

    /// The output has `len` bytes, and what has come are answers. Returns whether that is still bearable.
    pub(super) fn add(&mut self, len: usize) -> bool {
        self.owed += len - self.seen;
        self.seen = len;
        self.owed <= self.limit
    }
}
