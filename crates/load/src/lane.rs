use std::time::Instant;

use measure::QuicCounts;
use wire::{Event, FailureKind, Token};

use crate::channel::{Channel, Sink, Volume};
use crate::schedule::{Job, Outcome, Schedule};
use crate::tally::{Tally, micros};

/// A place for one connection: when one ends, the next takes its place.
#[derive(Debug)]
pub(crate) struct Lane<C> {
    pub channel: Option<C>,
    pub slots: Slots,
    /// When the present connection was begun.
    pub opened: Instant,
    /// Whether its handshakes are over.
    pub ready: bool,
    /// Whether a request was sent on it.
    pub used: bool,
    /// Whether a response came over it.
    pub answered: bool,
    /// Connections in a row that brought no response.
    pub fruitless: u32,
    /// Index of the address that it goes to.
    pub address: usize,
    /// Whether a new connection waits for its time.
    pub waiting: bool,
    /// Whether no further connection will be tried.
    pub given_up: bool,
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
            used: false,
            answered: false,
            fruitless: 0,
            address: 0,
            waiting: false,
            given_up: false,
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
            used: false,
            answered: false,
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
    status: u16,
    live: bool,
}

impl Slots {
    fn new(count: usize, now: Instant) -> Slots {
        let empty = Slot { job: Job { request: 0, due: now }, sent: now, status: 0, live: false };
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
        self.slots[token as usize] = Slot { job, sent: now, status: 0, live: true };
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

/// Listens to a lane's channel and writes down what it says.
pub(crate) struct Recorder<'a, S> {
    pub slots: &'a mut Slots,
    pub opened: Instant,
    pub answered: &'a mut bool,
    pub tally: &'a mut Tally,
    pub schedule: &'a mut S,
    /// Requests that failed; judged when it is known what became of the connection.
    pub failed: &'a mut Vec<(Token, FailureKind)>,
    /// When the bytes arrived that are being taken: one reading of the clock per read from the socket.
    pub now: Instant,
}

impl<S: Schedule> Sink for Recorder<'_, S> {
    fn arrived(&mut self, at: Instant) {
        self.now = at;
        self.tally.last = Some(at);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Head { token, status, header_bytes, decoded_bytes } => {
                self.tally.traffic.header_bytes += u64::from(header_bytes);
                self.tally.traffic.header_decoded_bytes += u64::from(decoded_bytes);
                let slot = &mut self.slots.slots[token as usize];
                slot.status = status;
                self.schedule.head(slot.job.request, self.now);
                if !std::mem::replace(self.answered, true) {
                    self.tally.first_byte_time.record_us(micros(self.now - self.opened));
                }
            }
            Event::Data { token, bytes } => {
                self.tally.traffic.data_bytes += bytes.len() as u64;
                self.schedule.data(self.slots.slots[token as usize].job.request, bytes, self.now);
            }
            Event::Done { token } => {
                self.slots.refusals = 0;
                if let Some(slot) = self.slots.release(token) {
                    let accepted = self.schedule.accepts(slot.job.request, slot.status);
                    self.tally.answered(slot.status, accepted, self.now - slot.sent);
                    self.schedule.end(slot.job.request, Outcome::Answered(slot.status), self.now);
                }
            }
            Event::Failed { token, kind } => self.failed.push((token, kind)),
            Event::Field { .. } | Event::Draining => {}
        }
    }
}
