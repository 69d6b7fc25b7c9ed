//! The emulated link between a client and an origin: any two programs, any transport, without root.
//!
//! What flows in is a [`Profile`](profile::Profile), a seed and two command lines ([`Run`]); what flows out is a
//! [`measure::LinkSummary`]: what the link did to the packets, what the tap saw, and whether the run counts.
//!
//! ```text
//!  run ── starts ──> client ══ c0 ═ m0 ══ forwarder ══ m1 ═ s0 ══ origin       lab: namespaces, cables, names, routes
//!                                          │     ▲
//!                                   packet │     │ when it is due, or that it is dropped
//!                                          ▼     │
//!                                         tap ─> model <── profile             pure: no clock, no I/O
//! ```
//!
//! `unsafe` is confined to one private module, `sys`.

mod error;
mod forwarder;
mod lab;
pub mod model;
pub mod profile;
mod run;
mod sys;
pub mod tap;

pub use error::LabError;
pub use lab::{CLIENT, ORIGIN, Side, Transport, availability};
pub use run::{Outcome, PortWatch, Run};
pub use sys::die_with_parent;
