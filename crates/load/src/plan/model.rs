use std::time::Duration;

use super::{Amount, Plan, bad};
use crate::LoadError;

/// What decides when a request goes out.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// As soon as a request ends, the next one goes out on the same connection, as in h2load and wrk.
    ClosedLoop,
    /// Requests are due at times that do not depend on the responses. One that finds no free place waits in the client,
    /// at most for the request timeout; then, or at the end of the run, it is counted as dropped.
    OpenLoop {
        /// Arrivals per second over time: the rate goes in a straight line from stage to stage.
        stages: Vec<Stage>,
        /// How arrivals are spread.
        arrivals: Arrivals,
        /// Seed of the randomness of [`Arrivals::Poisson`].
        seed: u64,
    },
    /// Virtual users, as in k6: each has a connection and a loop of its own, and thinks after each response. There are as
    /// many as connections.
    Users {
        /// How many of them are active over time, in a straight line from stage to stage; empty for all of them always.
        stages: Vec<Stage>,
        /// Pause of a user between a response and the next request.
        think: Duration,
    },
    /// So many workers of an application that share the connections as a pool: a worker takes one with a free place,
    /// opens one if there are fewer than the plan's connections, or else waits.
    Pool {
        /// Workers, each with one request at a time.
        workers: u32,
        /// Pause of a worker between a response and its next request.
        think: Duration,
    },
    /// Loads of a page with its objects, one after the other, each with fresh connections.
    Pages,
}

/// A level that is reached, from the level before it, in a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How long it takes; zero is at once.
    pub length: Duration,
    /// The level at its end: arrivals per second, or users.
    pub level: f64,
}

impl Stage {
    /// How long all of them take together.
    pub fn total_length(stages: &[Stage]) -> Duration {
        stages.iter().map(|stage| stage.length).sum()
    }
}

/// How arrivals are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Uniform,
    /// As independent users make them: exponential distances.
    Poisson,
}

impl Model {
    /// A constant rate of arrivals, per second, for a time.
    pub fn constant_rate(rate: f64, length: Duration) -> Model {
        let at_once = Stage { length: Duration::ZERO, level: rate };
        Model::OpenLoop { stages: vec![at_once, Stage { length, level: rate }], arrivals: Arrivals::Uniform, seed: 1 }
    }

    pub(super) fn check(&self, plan: &Plan) -> Result<(), LoadError> {
        let in_parts = |what: &str, flag: &str, parts: u64| match plan.amount {
            Amount::Requests(requests) if requests < parts => {
                bad(format!("{requests} requests leave some of {parts} {what} idle; {flag} is at most -n"))
            }
            _ => Ok(()),
        };
        match self {
            Model::ClosedLoop => in_parts("connections", "-c", u64::from(plan.connections) * u64::from(plan.clients)),
            Model::OpenLoop { stages, .. } => {
                check_stages(stages)?;
                if let Some(stage) = stages.iter().find(|stage| stage.level > HIGHEST_RATE) {
                    return bad(format!(
                        "{} requests per second are beyond any machine; give at most 10 million",
                        stage.level
                    ));
                }
                let mut from = 0.0;
                let arrivals: f64 = stages
                    .iter()
                    .map(|stage| {
                        (std::mem::replace(&mut from, stage.level) + stage.level) / 2.0 * stage.length.as_secs_f64()
                    })
                    .sum();
                if arrivals == 0.0 {
                    return bad("a rate of 0 makes no request; give --rate a number of requests per second".to_owned());
                }
                if arrivals < 0.5 {
                    return bad(
                        "at so low a rate no request is due within the run; raise --rate or the time".to_owned()
                    );
                }
                Ok(())
            }
            Model::Users { stages, .. } => {
                check_stages(stages)?;
                if plan.streams > 1 {
                    return bad("a virtual user makes one request at a time, so -m is 1; raise --vus".to_owned());
                }
                in_parts("users", "--vus", u64::from(plan.connections) * u64::from(plan.clients))
            }
            Model::Pool { workers: 0, .. } => bad("--workers 0 does nothing; give at least 1".to_owned()),
            Model::Pool { workers, .. } => {
                if plan.threads > 1 {
                    return bad(
                        "the workers of a client share one pool on one thread; use --clients for more".to_owned()
                    );
                }
                in_parts("workers", "--workers", u64::from(*workers) * u64::from(plan.clients))
            }
            Model::Pages => {
                if plan.threads > 1 || plan.clients > 1 {
                    return bad("--page loads one page after the other, so -t and --clients are 1".to_owned());
                }
                let request = &plan.requests[0];
                if plan.requests.len() > 1 || request.method != "GET" || !request.body.is_empty() {
                    return bad("--page fetches one URL with GET, without a body".to_owned());
                }
                if !matches!(plan.amount, Amount::Requests(_)) {
                    return bad("--page loads a number of pages: use -n instead of -D".to_owned());
                }
                Ok(())
            }
        }
    }
}

/// Arrivals per second that nothing can make; each of them costs time to count even so.
const HIGHEST_RATE: f64 = 1e7;

fn check_stages(stages: &[Stage]) -> Result<(), LoadError> {
    match stages.iter().find(|stage| !stage.level.is_finite() || stage.level < 0.0) {
        Some(stage) => bad(format!("a stage cannot reach {}; give a number of at least 0", stage.level)),
        None => Ok(()),
    }
}
