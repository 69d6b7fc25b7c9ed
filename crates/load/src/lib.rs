//! The load engine: makes requests over any of the five protocols and measures how they fare.
//!
//! A [`Plan`] goes in and a [`measure::LoadSummary`] comes out. What this crate does not do: HTTP itself (crate
//! `wire`), reading a command line, comparing runs.
//!
//! ```text
//!  Plan ──> schedule ──> workers, one event loop per thread ──> tallies ──> LoadSummary
//!           what next     │ lanes: places for connections        merged
//!                         │ channels: socket + TLS or QUIC + wire
//! ```
//!
//! Beside the engine, [`get`] makes single requests and shows everything about them.
//!
//! What the numbers mean:
//! - The clock is read once after each read from a socket. All responses in those bytes share that time, and so do the
//!   requests that are sent because of them. A request's time ends when its last byte was read.
//! - In a closed loop with several requests per connection a worker may let responses gather, for at most
//!   50 us, so that a wake-up and a packet serve several of them.
//! - In a closed loop the next request goes out when one ends, so nothing waits in the client, except what a server has
//!   refused and gets again. In an open loop, a pool and in page mode the time that a request waits for a free
//!   connection or stream is its queue time and no part of its latency. In an open loop there is a second latency, from
//!   the instant at which the request was due: what its user would have felt.
//! - A timed run starts no request after its end. What is in flight then is waited for, at most until its timeout, and
//!   counts: the slowest requests are those that are worth knowing. The rate is that until the end of the time. Other
//!   runs end with the last byte that arrived.
//! - With a warm-up, requests and traffic are those after it; connections are those of the whole run.
//! - Connections that a server ends in an orderly way are replaced and requests that it certainly did not process are
//!   sent again: neither is an error. A server that has never answered is given up after five connections in vain, one
//!   that has is tried again, at least once a second, for the connect timeout. Requests of a place that is given up have
//!   failed, and so has in a closed loop one per connection that could not be made.
//! - Receive windows are the same over HTTP/2 and QUIC ([`TransportPlan`]). TLS offers the key exchanges of browsers, the
//!   post-quantum hybrid first, over TCP and QUIC alike.

mod alarm;
mod channel;
mod descriptors;
mod error;
pub mod get;
mod lane;
mod moderation;
mod page;
mod plan;
mod request_log;
mod run;
mod schedule;
mod tally;
mod target;
mod text;
mod timers;
mod tls;
mod worker;

pub use error::LoadError;
pub use plan::{
    Amount, Arrivals, Expectation, Identity, Model, Plan, Planned, Stage, TlsPlan, TransportPlan, Verification,
};
pub use run::{Progress, run};
pub use target::Target;
pub use text::render;
pub use tls::{Cipher, Group, TlsVersion};
