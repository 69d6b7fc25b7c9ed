use std::time::Instant;

use measure::QuicCounts;
use wire::{Event, FailureKind, Token};

use crate::channel::{Channel, Sink, Volume};
use crate::plan::Expectation;
use crate::request_log::LogLines;
use crate::schedule::{Job, Outcome, Schedule};
use crate::tally::Tally;

/// A place for one connection: when one ends, the next takes its place.
#[derive(Debug)]
pub(crate) struct Lane<C> {
    pub channel: Option<C>,
    pub slots: Slots,
    /// When the present connection was begun.
    pub opened: Instant,
    /// Whether its handshakes are over.
    pub ready: bool,
    /// Requests that were sent on it.
    pub requests: u64,
    /// Responses that came over it.
    pub answers: u64,
    /// Connections in a row that brought no response, and when the last one ended that did.
    pub fruitless: u32,
    pub fruitless_since: Instant,
    /// When it last had a request in flight, or became ready.
    pub busy: Instant,
    /// Index of the address that it goes to.
    pub address: usize,
    /// Whether a new connection waits for its time.
    pub waiting: bool,
    /// Whether no further connection will be tried.
    pub given_up: bool,
    /// Whether the worker's list of places has it.
    pub listed: bool,
    counted: Volume,
    quic_counted: QuicCounts,
}

impl<C: Channel> Lane<C> {
    pub(crate) fn new(slots: usize, now: Instant) -> Lane<C> {
        Lane {
            channel: None,
            slots: Slots::new(slots, now),
            opened: now,
            ready: false,
            requests: 0,
            answers: 0,
            fruitless: 0,
            fruitless_since: now,
            busy: now,
            address: 0,
            waiting: false,
            given_up: false,
            listed: false,
            counted: Volume::default(),
            quic_counted: QuicCounts::default(),
        }
    }

    /// A new connection takes the place.
    pub(crate) fn occupy(&mut self, channel: C, address: usize, now: Instant) {
        *self = Lane {
            channel: Some(channel),
            opened: now,
            ready: false,
            requests: 0,
            answers: 0,
            address,
            waiting: false,
            counted: Volume::default(),
            quic_counted: QuicCounts::default(),
            slots: Slots { refusals: 0, ..std::mem::take(&mut self.slots) },
            ..*self
        };
    }

    /// Whether a connection is being made.
    pub(crate) fn is_connecting(&self) -> bool {
        self.channel.is_some() && !self.ready
    }

    /// Adds what the connection has transferred since the last call.
    pub(crate) fn collect(&mut self, tally: &mut Tally) {
        let Some(channel) = &self.channel else { return };
        let volume = channel.volume();
        tally.traffic.received_bytes += volume.received - self.counted.received;
        tally.traffic.sent_bytes += volume.sent - self.counted.sent;
        self.counted = volume;
        if let Some(counts) = channel.quic_counts() {
            let before = std::mem::replace(&mut self.quic_counted, counts.clone());
            tally.add_quic(QuicCounts {
                sent_packets: counts.sent_packets - before.sent_packets,
                lost_packets: counts.lost_packets - before.lost_packets,
                congestion_events: counts.congestion_events - before.congestion_events,
            });
        }
    }
}

/// The requests in flight on a connection, by token.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<Token>,
    /// Requests that the server refused since its last response.
    pub refusals: u32,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub job: Job,
    /// When it was sent.
    pub sent: Instant,
    /// When the first byte of its response came.
    pub first_byte: Option<Instant>,
    /// Status of the response, 0 before it has come.
    pub status: u16,
    /// Bytes of the response's body.
    pub body_bytes: u64,
    live: bool,
}

impl Slots {
    fn new(count: usize, now: Instant) -> Slots {
        let empty = Slot::new(Job { request: 0, due: now }, now);
        // The last one is taken first, so low tokens come first.
        Slots { slots: vec![empty; count], free: (0..count as Token).rev().collect(), refusals: 0 }
    }

    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gives a token to a request; the caller has seen [`Slots::has_free`].
    pub(crate) fn take(&mut self, job: Job, now: Instant) -> Token {
        let token = self.free.pop().expect("the caller has seen a free slot");
        self.slots[token as usize] = Slot { live: true, ..Slot::new(job, now) };
        token
    }

    /// Frees a token. `None` when it was free already.
    pub(crate) fn release(&mut self, token: Token) -> Option<Slot> {
        let slot = &mut self.slots[token as usize];
        if !std::mem::take(&mut slot.live) {
            return None;
        }
        self.free.push(token);
        Some(*slot)
    }

    /// The tokens in flight and when each was sent.
    pub(crate) fn live(&self) -> impl Iterator<Item = (Token, Instant)> {
        let slots = self.slots.iter().enumerate();
        slots.filter(|(_, slot)| slot.live).map(|(token, slot)| (token as Token, slot.sent))
    }
}

impl Slot {
    /// A request that is sent now.
    pub(crate) fn new(job: Job, sent: Instant) -> Slot {
        Slot { job, sent, first_byte: None, status: 0, body_bytes: 0, live: false }
    }
}

#[cfg(test)]
impl Slot {
    /// A request that was sent just now, and its response's status.
    pub(crate) fn answered(status: u16, now: Instant) -> Slot {
        let job = Job { request: 0, due: now };
        Slot { first_byte: Some(now), status, ..Slot::new(job, now) }
    }
}

/// Listens to a lane's channel and writes down what it says.
pub(crate) struct Recorder<'a, 'log, S> {
    /// Index of the lane.
    pub lane: usize,
    pub slots: &'a mut Slots,
    pub answers: &'a mut u64,
    pub tally: &'a mut Tally,
    pub schedule: &'a mut S,
    pub expect: &'a Expectation,
    pub log: &'a mut Option<LogLines<'log>>,
    /// Requests that failed; judged when it is known what became of the connection.
    pub failed: &'a mut Vec<(Token, FailureKind)>,
    /// When the bytes arrived that are being taken: one reading of the clock per read from the socket.
    pub now: Instant,
}

impl<S: Schedule> Sink for Recorder<'_, '_, S> {
    fn arrived(&mut self, at: Instant) {
        self.now = at;
        self.tally.last = Some(at);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Head { token, status, header_bytes, decoded_bytes } => {
                self.tally.traffic.header_bytes += u64::from(header_bytes);
                self.tally.traffic.header_bytes_uncompressed += u64::from(decoded_bytes);
                let slot = &mut self.slots.slots[token as usize];
                slot.status = status;
                slot.first_byte = Some(self.now);
                self.schedule.head(slot.job.request, self.now);
            }
            Event::Data { token, bytes } => {
                self.tally.traffic.data_bytes += bytes.len() as u64;
                let slot = &mut self.slots.slots[token as usize];
                slot.body_bytes += bytes.len() as u64;
                self.schedule.data(slot.job.request, bytes, self.now);
            }
            Event::Done { token } => {
                self.slots.refusals = 0;
                if let Some(slot) = self.slots.release(token) {
                    self.done(&slot);
                }
            }
            Event::Failed { token, kind } => self.failed.push((token, kind)),
            Event::Field { .. } | Event::Draining => {}
        }
    }
}

impl<S: Schedule> Recorder<'_, '_, S> {
    /// A response is complete.
    fn done(&mut self, slot: &Slot) {
        *self.answers += 1;
        let request = slot.job.request;
        let objection = self.expect.objection(slot.status, slot.body_bytes);
        let objection = objection
            .or_else(|| (!self.schedule.accepts(request, slot.status)).then(|| format!("status {}", slot.status)));
        self.tally.answered(slot, self.now, S::TIMED);
        match &objection {
            None => self.tally.requests.succeeded += 1,
            Some(reason) => self.tally.refused(reason),
        }
        if let Some(log) = self.log {
            log.write(self.schedule.request(request), self.lane, slot, self.now, objection.as_deref());
        }
        self.schedule.end(self.lane, request, Outcome::Answered(slot.status), self.now);
    }
}
