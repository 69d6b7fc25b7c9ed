//! Experiments: from a file to a finished run directory.
//!
//! An [`Experiment`] names protocols, links, a workload and a number of rounds. Running it makes trials: each is one run
//! of the tool's own public subcommands as child processes, so that any single trial can be repeated by hand. Trials of
//! a round share a seed and run in random order; every finished trial is one synced line of the journal, which is all
//! that a resumed run needs.
//!
//! ```text
//!  Experiment ──> matrix ──> Task ──> `fairlane link … -- fairlane load …` ──> Trial ──> Journal ──> analysis
//!   (a file)     conditions  round,              child processes                       trials.jsonl
//!                x rounds    seed, order
//! ```
//!
//! What a trial means is not decided here: that is the crate `analysis`.

mod children;
mod directory;
mod error;
mod file;
mod journal;
mod matrix;
mod runner;
mod trial;

pub use directory::RunDirectory;
pub use error::Error;
pub use file::{Experiment, OriginKind, RoundLimits, Workload, parse_losses};
pub use matrix::NO_LINK;
pub use runner::{Ending, Progress, Runner};
pub use trial::Programs;
