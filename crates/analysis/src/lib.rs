//! What a race means: paired statistics, answers, verdicts in words, and warnings. Pure: data in, data out.
//!
//! ```text
//!  Plan ─────────┐             last valid attempt      log ratio          Holm, practical size
//!  Trial … ──────┼─> Rounds ── of every round ──> pairs ────> Estimate ──────────────────────> Answer ─> Verdict
//!  Environment ──┘      └────────────────────────> Condition (medians, counts, who was bound) ──────────> warnings
//!                                                                                                   = Summary
//! ```
//!
//! Trials of a round share a seed and ran close to each other, so what is compared is the logarithm of the ratio of
//! their times, one for each round: a slow minute hurts both sides of a ratio, and on this scale twice and half are
//! equally far from equal. [`statistics`] says how a centre, an interval and a p-value come from those logarithms, and
//! [`summarize`] how answers come from these. docs/statistics.md has the reasons and the figures.

mod bottleneck;
mod comparisons;
mod conditions;
pub mod counts;
mod entrants;
mod rounds;
pub mod statistics;
mod summary;
mod verdicts;
mod warnings;
pub mod words;

use std::collections::BTreeSet;

use measure::{Environment, Trial};

use crate::rounds::Rounds;
pub use crate::summary::{Answer, Comparison, Condition, Ends, Plan, PlannedLink, Summary, Verdict};

/// Differences larger than this share must be ruled out by the 95 % interval before an answer is `no difference`. What
/// a race in fact rules out is usually far less, and its verdict says so.
pub const RESOLUTION: f64 = 0.20;

/// Judges a race. `trials` may be incomplete, in any order, and hold invalid attempts; links and entrants that the plan
/// does not name are left out.
pub fn summarize(plan: &Plan, trials: &[Trial], environment: &Environment) -> Summary {
    let rounds = Rounds::new(trials);
    let conditions = conditions::conditions(plan, trials, &rounds, environment);
    let comparisons = comparisons::comparisons(plan, &rounds);
    Summary {
        schema: Summary::SCHEMA,
        plan: plan.clone(),
        rounds_done: warnings::rounds_done(trials),
        finished: is_finished(plan, trials),
        verdicts: verdicts::verdicts(plan, &rounds, &conditions, &comparisons),
        warnings: warnings::warnings(plan, trials, &rounds, &conditions),
        conditions,
        comparisons,
        environment: environment.clone(),
    }
}

/// Whether every condition was tried in every planned round.
fn is_finished(plan: &Plan, trials: &[Trial]) -> bool {
    let tried: BTreeSet<(u32, &str, usize)> =
        trials.iter().map(|trial| (trial.round, trial.link.as_str(), trial.entrant)).collect();
    (1..=plan.rounds).all(|round| {
        plan.links
            .iter()
            .all(|link| (0..plan.entrants.len()).all(|entrant| tried.contains(&(round, link.name.as_str(), entrant))))
    })
}
