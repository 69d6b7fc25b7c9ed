use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use measure::{Protocol, Trial, units};

use crate::children::Children;
use crate::journal::Journal;
use crate::matrix::{self, Condition, MAX_ATTEMPTS, Task};
use crate::trial::{Bench, Programs};
use crate::{Error, Experiment, OriginKind, RunDirectory};

/// Runs an experiment: hands out tasks, keeps the journal, and holds to the stop rule.
pub struct Runner {
    experiment: Experiment,
    programs: Programs,
    directory: RunDirectory,
    journal: Journal,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The stop rule ended it.
    Complete,
    /// The user ended it; what was measured is in the journal.
    Interrupted,
}

/// What a run reports while it goes on.
pub struct Progress<'a> {
    /// Every trial recorded so far.
    pub trials: &'a [Trial],
    /// The trial that was just begun: protocol and link; `None` when one has just ended.
    pub begun: Option<(Protocol, &'a str)>,
    /// Round of the latest task.
    pub round: u32,
    /// Share of the work that is done, 0 to 1.
    pub share: f64,
    /// Time since the run began, earlier sessions of a resumed run included.
    pub elapsed: Duration,
}

/// How often the run looks whether the user wants it to end.
const TICK: Duration = Duration::from_millis(50);

impl Runner {
    /// Takes the directory for this process and reads what it holds already.
    ///
    /// # Errors
    /// The journal is in use, damaged, or cannot be written.
    pub fn new(experiment: Experiment, directory: RunDirectory, programs: Programs) -> Result<Runner, Error> {
        let journal = Journal::open(&directory.journal())?;
        if let Some(misfit) = journal.trials().iter().position(|trial| !matrix::has(&experiment, trial)) {
            return Err(Error::Journal {
                path: directory.journal(),
                line: misfit + 1,
                message: "experiment.toml was changed after the run began: it has no such entrant and link".to_owned(),
            });
        }
        Ok(Runner { experiment, programs, directory, journal })
    }

    /// Every trial recorded so far.
    pub fn trials(&self) -> &[Trial] {
        self.journal.trials()
    }

    /// The run directory.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// The experiment.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Gives up a run in which nothing was measured, and its directory.
    pub fn discard(self) {
        drop(self.journal);
        self.directory.discard();
    }

    /// Asks the origin for one page over each protocol, on a link without limits or losses, and throws the times
    /// away.
    ///
    /// # Errors
    /// [`Error::Preflight`] names the first protocol that does not work.
    pub fn preflight(&self, stop: &AtomicBool) -> Result<Ending, Error> {
        let links = if self.experiment.links.is_empty() { Vec::new() } else { vec!["online".to_owned()] };
        let experiment = Experiment { links, ..self.experiment.clone() };
        let mut checked: Vec<Protocol> = Vec::new();
        for condition in matrix::conditions(&experiment) {
            if checked.contains(&condition.protocol) {
                continue;
            }
            checked.push(condition.protocol);
            match self.check(&experiment, condition, stop)? {
                None => return Ok(Ending::Interrupted),
                // A late link is no reason not to begin; each trial will be judged for itself.
                Some(trial) if trial.time_ms.is_some() => {}
                Some(trial) => return Err(self.preflight_error(condition.protocol, &trial)),
            }
        }
        Ok(Ending::Complete)
    }

    fn check(&self, experiment: &Experiment, condition: Condition, stop: &AtomicBool) -> Result<Option<Trial>, Error> {
        let task = Task { condition, round: 0, attempt: 1, seed: 0 };
        let children = Children::default();
        let scratch = self.directory.scratch();
        let bench = Bench { experiment, programs: &self.programs, scratch: &scratch, children: &children };
        thread::scope(|scope| {
            let (report, outcome) = mpsc::channel();
            let bench = &bench;
            scope.spawn(move || {
                // The receiver lives until this is received.
                let _ = report.send(bench.run(&task, 0));
            });
            loop {
                match outcome.recv_timeout(TICK) {
                    Ok(outcome) => return outcome,
                    Err(_) if stop.load(Ordering::SeqCst) => children.stop(),
                    Err(_) => {}
                }
            }
        })
    }

    fn preflight_error(&self, protocol: Protocol, trial: &Trial) -> Error {
        let place = format!("origin:{}", self.experiment.lab_port());
        let origin = match self.experiment.origin.kind {
            OriginKind::BuiltIn => "the built-in origin".to_owned(),
            OriginKind::Command | OriginKind::Running => self.experiment.url(protocol, &place),
        };
        let others: Vec<&str> =
            self.experiment.protocols.iter().filter(|other| **other != protocol).map(|other| other.name()).collect();
        let mut cure = match self.experiment.origin.kind {
            OriginKind::Command => format!("Make sure that the origin's command runs and serves {protocol}"),
            OriginKind::BuiltIn | OriginKind::Running => format!("Make sure that it runs and serves {protocol}"),
        };
        if others.len() >= 2 {
            cure += &format!(", or race without {protocol}: --protocols {}", others.join(","));
        }
        Error::Preflight { origin, protocol, reason: trial.invalid.join("; "), cure }
    }

    /// Runs every trial that the journal does not hold yet, until the stop rule or the user ends it.
    ///
    /// # Errors
    /// The journal cannot be written or a child process cannot be started. Everything recorded before is safe.
    pub fn run(&mut self, stop: &AtomicBool, observe: &mut dyn FnMut(&Progress)) -> Result<Ending, Error> {
        let Runner { experiment, programs, directory, journal } = self;
        let scratch = directory.scratch();
        let children = Children::default();
        let bench = Bench { experiment, programs, scratch: &scratch, children: &children };
        let mut schedule = Schedule::new(experiment, journal.trials());
        thread::scope(|scope| {
            let (report, reports) = mpsc::channel();
            let mut free: Vec<usize> = (0..experiment.jobs).rev().collect();
            let mut result = Ok(Ending::Complete);
            loop {
                if stop.load(Ordering::SeqCst) && matches!(result, Ok(Ending::Complete)) {
                    result = Ok(Ending::Interrupted);
                    children.stop();
                }
                while let Some(slot) = free.pop() {
                    let task =
                        if matches!(result, Ok(Ending::Complete)) { schedule.next(journal.trials()) } else { None };
                    let Some(task) = task else {
                        free.push(slot);
                        break;
                    };
                    let begun = (task.condition.protocol, matrix::link_name(experiment, task.condition));
                    observe(&schedule.progress(journal.trials(), Some(begun)));
                    let (report, bench) = (report.clone(), &bench);
                    scope.spawn(move || {
                        // The receiver outlives every trial.
                        let _ = report.send((slot, task, bench.run(&task, slot)));
                    });
                }
                if free.len() == experiment.jobs {
                    return result;
                }
                let (slot, task, outcome) = match reports.recv_timeout(TICK) {
                    Ok(report) => report,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => return result,
                };
                free.push(slot);
                let recorded = outcome.and_then(|trial| match trial {
                    Some(trial) => {
                        let valid = trial.is_valid();
                        journal.append(trial).map(|()| schedule.ended(task, valid))
                    }
                    None => Ok(()),
                });
                match recorded {
                    Ok(()) => observe(&schedule.progress(journal.trials(), None)),
                    Err(error) => {
                        children.stop();
                        result = Err(error);
                    }
                }
            }
        })
    }
}

/// Which trial comes next: rounds one after the other, invalid trials again at once, no round beyond the stop rule.
struct Schedule<'a> {
    experiment: &'a Experiment,
    queue: VecDeque<Task>,
    round: u32,
    limit: Option<Duration>,
    /// Time that earlier sessions of a resumed run took.
    before: Duration,
    began: Instant,
}

impl<'a> Schedule<'a> {
    fn new(experiment: &'a Experiment, done: &[Trial]) -> Schedule<'a> {
        let starts = done.iter().map(|trial| trial.started_unix_ms);
        let before = starts.clone().max().unwrap_or(0) - starts.min().unwrap_or(0);
        let limit = experiment.rounds.within.as_deref();
        Schedule {
            experiment,
            queue: VecDeque::new(),
            round: 0,
            limit: limit.and_then(|text| units::parse_duration(text).ok()),
            before: Duration::from_millis(before),
            began: Instant::now(),
        }
    }

    fn next(&mut self, done: &[Trial]) -> Option<Task> {
        while self.queue.is_empty() && self.may_begin_round(done) {
            self.round += 1;
            self.queue.extend(matrix::round(self.experiment, self.round, done));
        }
        self.queue.pop_front()
    }

    /// Whether the stop rule allows a further round.
    fn may_begin_round(&self, done: &[Trial]) -> bool {
        let rounds = &self.experiment.rounds;
        let begun_before = done.iter().any(|trial| trial.round > self.round);
        match self.limit {
            _ if self.round >= rounds.at_most => false,
            _ if self.round < rounds.at_least || begun_before => true,
            None => true,
            Some(limit) => {
                let a_round = self.elapsed() / self.round;
                let longest = done.iter().filter_map(|trial| trial.time_ms).fold(0.0, f64::max);
                self.elapsed() + a_round + Duration::from_secs_f64(longest / 1000.0) <= limit
            }
        }
    }

    fn ended(&mut self, task: Task, valid: bool) {
        if !valid && task.attempt < MAX_ATTEMPTS {
            self.queue.push_front(Task { attempt: task.attempt + 1, ..task });
        }
    }

    fn elapsed(&self) -> Duration {
        self.before + self.began.elapsed()
    }

    fn progress<'t>(&self, trials: &'t [Trial], begun: Option<(Protocol, &'t str)>) -> Progress<'t> {
        let planned = matrix::conditions(self.experiment).len() as f64 * f64::from(self.experiment.rounds.at_most);
        let done = trials.iter().filter(|trial| trial.is_valid()).count() as f64 / planned;
        let elapsed = self.elapsed();
        let timed = self.limit.map_or(0.0, |limit| elapsed.as_secs_f64() / limit.as_secs_f64());
        Progress { trials, begun, round: self.round.max(1), share: done.max(timed).min(1.0), elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment::parse("page", include_str!("../../../experiments/page.toml")).unwrap()
    }

    fn trial(experiment: &Experiment, task: &Task, valid: bool) -> Trial {
        Trial {
            round: task.round,
            entrant: task.condition.entrant,
            protocol: task.condition.protocol,
            link: matrix::link_name(experiment, task.condition).to_owned(),
            attempt: task.attempt,
            seed: task.seed,
            started_unix_ms: 0,
            command: Vec::new(),
            origin_command: None,
            invalid: if valid { Vec::new() } else { vec!["late packets".to_owned()] },
            time_ms: Some(1.0),
            load: None,
            link_summary: None,
            origin: None,
        }
    }

    #[test]
    fn every_condition_runs_once_a_round_and_an_invalid_trial_again_but_boundedly() {
        let experiment = experiment();
        let mut done: Vec<Trial> = Vec::new();
        let mut schedule = Schedule::new(&experiment, &done);
        while let Some(task) = schedule.next(&done) {
            let unlucky = task.round == 2 && task.condition.entrant == 0 && task.condition.link == Some(1);
            done.push(trial(&experiment, &task, !unlucky));
            schedule.ended(task, !unlucky);
        }
        let planned = 9 * experiment.rounds.at_most as usize;
        assert_eq!(done.iter().filter(|trial| trial.is_valid()).count(), planned - 1);
        assert_eq!(done.iter().filter(|trial| !trial.is_valid()).count(), MAX_ATTEMPTS as usize);
    }

    #[test]
    fn a_resumed_run_does_exactly_what_is_missing() {
        let experiment = experiment();
        let mut schedule = Schedule::new(&experiment, &[]);
        let mut all = Vec::new();
        while let Some(task) = schedule.next(&[]) {
            all.push(task);
        }
        for cut in [0, 1, 8, 9, 40, all.len()] {
            let done: Vec<Trial> = all[..cut].iter().map(|task| trial(&experiment, task, true)).collect();
            let mut resumed = Schedule::new(&experiment, &done);
            let mut rest = Vec::new();
            while let Some(task) = resumed.next(&done) {
                rest.push(task);
            }
            assert_eq!(rest, all[cut..], "killed after {cut} trials");
        }
    }

    #[test]
    fn a_time_limit_ends_the_run_but_not_before_the_least_number_of_rounds() {
        let mut experiment = experiment();
        experiment.rounds.at_least = 3;
        experiment.rounds.within = Some("1ns".to_owned());
        let mut schedule = Schedule::new(&experiment, &[]);
        let mut rounds = Vec::new();
        while let Some(task) = schedule.next(&[]) {
            rounds.push(task.round);
        }
        assert_eq!((rounds.len(), rounds.last()), (27, Some(&3)));
    }
}
