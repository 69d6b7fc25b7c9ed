use std::ops::ControlFlow;
use std::time::Instant;

use wire::trace::{Content, Item};
use wire::{Event, FailureKind, Request};

use super::report::{Exchange, Note, Sizes, Timings, What};
use crate::tally::micros;

/// Takes what a request shows.
pub trait Listener {
    /// Something happened.
    fn note(&mut self, note: Note);

    /// Bytes of a response's body, in order. [`ControlFlow::Break`] gives the request up.
    fn body(&mut self, bytes: &[u8]) -> ControlFlow<()>;

    /// An exchange is over.
    fn done(&mut self, exchange: &Exchange);
}

/// Gives notes their times, and sums the current exchange up.
pub(super) struct Journal<'a> {
    listener: &'a mut dyn Listener,
    begun: Instant,
    /// The current connection, counted from 1.
    connection: u32,
    /// Phases of the current exchange before its request.
    phases: Timings,
    /// When the current exchange began, its connection included.
    exchange_begun: Instant,
    /// When its request was sent.
    sent_at: Instant,
    /// When the head of its response came.
    head_at: Option<Instant>,
    /// When something of its response came last.
    last_at: Instant,
    exchange: Exchange,
    /// How the response ended.
    end: Option<End>,
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Failed(FailureKind),
    /// The listener wants no more of it.
    Unwanted,
}

impl<'a> Journal<'a> {
    pub(super) fn new(listener: &'a mut dyn Listener) -> Self {
        let now = Instant::now();
        Journal {
            listener,
            begun: now,
            connection: 0,
            phases: Timings::default(),
            exchange_begun: now,
            sent_at: now,
            head_at: None,
            last_at: now,
            exchange: exchange(0),
            end: None,
        }
    }

    pub(super) fn note(&mut self, what: What) {
        self.note_at(Instant::now(), what);
    }

    fn note_at(&mut self, at: Instant, what: What) {
        match what {
            What::Resolved { took_us, .. } => self.phases.lookup_us = Some(took_us),
            What::Connected { took_us, .. } => self.phases.connect_us = Some(took_us),
            What::Secured { took_us, .. } | What::Quic { took_us, .. } => self.phases.handshake_us = Some(took_us),
            _ => {}
        }
        let at_us = micros(at.saturating_duration_since(self.begun));
        self.listener.note(Note { at_us, connection: self.connection, what });
    }

    /// A connection is about to be made.
    pub(super) fn begin_connection(&mut self) {
        self.connection += 1;
    }

    /// An exchange begins, with its connection if it needs a new one.
    pub(super) fn begin_exchange(&mut self, number: u64) {
        self.exchange = exchange(number);
        if number > 1 {
            self.exchange_begun = Instant::now();
            self.phases = Timings::default();
        }
        self.end = None;
        self.head_at = None;
    }

    /// The request of the exchange is about to be sent.
    pub(super) fn begin_request(&mut self, request: &Request, reused: bool) {
        self.exchange.connection = self.connection;
        self.exchange.reused = reused;
        self.exchange.sent = Sizes { body_bytes: request.body.len() as u64, ..Sizes::default() };
        if reused {
            self.note(What::Reused);
        }
        self.sent_at = Instant::now();
        self.last_at = self.sent_at;
    }

    /// Whether and how the response has ended.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether nothing of the response has come.
    pub(super) fn is_unanswered(&self) -> bool {
        self.head_at.is_none()
    }

    /// Whether nothing of the request has been sent.
    pub(super) fn is_unsent(&self) -> bool {
        self.exchange.sent.head_bytes == 0
    }

    pub(super) fn sent(&mut self, item: Item) {
        let head = match &item {
            Item::Head { bytes, .. } => Some((*bytes, *bytes)),
            Item::Frame(frame) => match frame.content {
                Content::Fields { encoded_bytes, decoded_bytes, .. } => {
                    self.exchange.stream = Some(frame.stream);
                    Some((encoded_bytes, decoded_bytes))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some((head_bytes, head_decoded_bytes)) = head {
            self.exchange.sent = Sizes { head_bytes, head_decoded_bytes, ..self.exchange.sent };
        }
        self.note(What::Sent { item });
    }

    pub(super) fn received(&mut self, at: Instant, item: Item) {
        self.note_at(at, What::Received { item });
    }

    /// HTTP says something about the request.
    pub(super) fn event(&mut self, at: Instant, event: Event<'_>) {
        self.last_at = at;
        let received = &mut self.exchange.received;
        match event {
            Event::Head { status, header_bytes, decoded_bytes, .. } => {
                self.exchange.status = Some(status);
                self.head_at = Some(at);
                received.head_bytes = header_bytes.into();
                received.head_decoded_bytes = decoded_bytes.into();
            }
            Event::Data { bytes, .. } => {
                received.body_bytes += bytes.len() as u64;
                if self.end.is_none() && self.listener.body(bytes).is_break() {
                    self.end = Some(End::Unwanted);
                }
            }
            Event::Done { .. } => self.end = self.end.or(Some(End::Complete)),
            Event::Failed { kind, .. } => self.end = self.end.or(Some(End::Failed(kind))),
            Event::Field { .. } | Event::Draining => {}
        }
    }

    /// The exchange is over.
    pub(super) fn finish_exchange(&mut self, error: Option<String>) -> Exchange {
        let until_last = |begun: Instant| micros(self.last_at.saturating_duration_since(begun));
        self.exchange.error = error;
        self.exchange.timings = Timings {
            first_byte_us: self.head_at.map(|at| micros(at.saturating_duration_since(self.sent_at))),
            transfer_us: self.head_at.map(until_last),
            total_us: until_last(self.exchange_begun),
            ..self.phases
        };
        self.listener.done(&self.exchange);
        self.exchange.clone()
    }
}

fn exchange(number: u64) -> Exchange {
    Exchange {
        number,
        connection: 0,
        reused: false,
        stream: None,
        status: None,
        sent: Sizes::default(),
        received: Sizes::default(),
        timings: Timings::default(),
        error: None,
    }
}
