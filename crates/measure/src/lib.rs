//! The vocabulary that every part of fairlane shares: protocols, units, histograms, and the summaries that the
//! parts hand to each other as JSON.
//!
//! What flows through here is data only. Nothing in this crate opens a socket, starts a process or decides what a
//! number means; the one thing it reads from the machine is the [`Environment`] record and the CPU clock.
//!
//! ```text
//!  serve ── OriginCounters ─┐
//!  load  ── LoadSummary ────┼──> Trial ──> trials.jsonl ──> analysis ──> report
//!  link  ── LinkSummary ────┘
//! ```

mod congestion;
mod cpu;
mod environment;
mod histogram;
mod link;
mod load;
mod origin;
mod protocol;
mod trial;
pub mod units;

pub use congestion::{CongestionControl, ParseCongestionControlError};
pub use cpu::CpuTime;
pub use environment::Environment;
pub use histogram::{Histogram, Spread};
pub use link::{ChildUsage, DirectionSummary, FlowRecord, Lateness, LinkSummary, TapSummary, Transport};
pub use load::{
    Bottleneck, ConnectionCounts, Interval, LoadCpu, LoadModel, LoadSummary, PageLoad, QuicCounts, RateSpread,
    ReceiveWindows, RequestCounts, StatusCounts, TlsFacts, Traffic,
};
pub use origin::{OriginCounters, ProtocolCounters};
pub use protocol::{ParseProtocolError, Protocol};
pub use trial::Trial;
