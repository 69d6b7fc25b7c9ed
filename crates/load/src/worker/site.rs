use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use measure::{Histogram, Protocol};

use crate::channel::Channel;
use crate::channel::socket::Address;
use crate::plan::Expectation;
use crate::request_log::RequestLog;

/// What all workers of a client share.
pub(crate) struct Site<C: Channel> {
    pub settings: C::Settings,
    /// Host and port, for messages.
    pub host: String,
    pub protocol: Protocol,
    pub addresses: Vec<Address>,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    pub streams: usize,
    pub keep_alive: bool,
    /// Time between two connection attempts of a worker, at least.
    pub connection_gap: Duration,
    pub expect: Expectation,
    pub window: Window,
    pub request_log: Option<Arc<RequestLog>>,
    pub watch: Arc<Watch>,
}

impl<C: Channel> Site<C> {
    /// The same for a client that has made no connection yet.
    pub(crate) fn of_another_client(&self) -> Site<C> {
        Site {
            settings: C::cold(&self.settings),
            host: self.host.clone(),
            addresses: self.addresses.clone(),
            expect: self.expect.clone(),
            request_log: self.request_log.clone(),
            watch: Arc::clone(&self.watch),
            ..*self
        }
    }
}

/// When to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// When the run, its warm-up included, starts.
    pub starts: Instant,
    /// The end of the warm-up.
    pub begins: Option<Instant>,
    /// When no further request starts.
    pub ends: Option<Instant>,
}

/// What a run and the outside world tell each other while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Set from outside: stop now.
    pub stop: AtomicBool,
    /// Requests that have ended.
    pub done: AtomicU64,
    /// Those of them that failed.
    pub failed: AtomicU64,
    /// Requests in flight.
    pub in_flight: AtomicU64,
}

/// What a worker measured in one second of the run, or in what was left of one at its end.
#[derive(Debug)]
pub(crate) struct Second {
    /// Which second, from 0.
    pub number: u64,
    /// How much of it passed before the run ended.
    pub length: Duration,
    pub done: u64,
    pub failed: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Latency since the intended start where there is one, else since the sending.
    pub latency: Histogram,
}
