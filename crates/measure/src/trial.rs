use serde::{Deserialize, Serialize};

use crate::{LinkSummary, LoadSummary, OriginCounters, Protocol};

/// One run of one condition: one line of `trials.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Round, from 1. Trials of a round share a seed and are compared with each other.
    pub round: u32,
    /// Position of the protocol in the experiment's list, from 0; tells two entrants of the same protocol apart.
    pub entrant: usize,
    /// The protocol.
    pub protocol: Protocol,
    /// The link, as the experiment names it.
    pub link: String,
    /// Which try of this condition in this round, from 1; an invalid trial is repeated.
    pub attempt: u32,
    /// Seed of the link.
    pub seed: u64,
    /// When the trial began, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// The command line that repeats this trial.
    pub command: Vec<String>,
    /// The command line of the origin, where `command` does not start it itself.
    pub origin_command: Option<Vec<String>>,
    /// Why the trial does not count; empty when it does.
    pub invalid: Vec<String>,
    /// The metric that is compared: time of the workload, milliseconds. `None` when the trial has no result.
    pub time_ms: Option<f64>,
    /// What the client saw.
    pub load: Option<LoadSummary>,
    /// What crossed the link; `None` without a link.
    pub link_summary: Option<LinkSummary>,
    /// What the origin counted; `None` for an origin that is not ours.
    pub origin: Option<OriginCounters>,
}

impl Trial {
    /// Whether the trial counts.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty() && self.time_ms.is_some()
    }
}
