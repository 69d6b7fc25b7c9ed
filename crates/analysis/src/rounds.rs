use std::collections::BTreeMap;

use measure::Trial;

/// The trials that count: for each link and entrant, the last valid attempt of every round.
pub(crate) struct Rounds<'a>(BTreeMap<(&'a str, usize), BTreeMap<u32, Counted<'a>>>);

#[derive(Clone, Copy)]
struct Counted<'a> {
    time_ms: f64,
    trial: &'a Trial,
}

impl<'a> Rounds<'a> {
    pub fn new(trials: &'a [Trial]) -> Rounds<'a> {
        let mut rounds = Rounds(BTreeMap::new());
        let mut in_order: Vec<&Trial> = trials.iter().filter(|trial| trial.is_valid()).collect();
        in_order.sort_by_key(|trial| trial.attempt);
        for trial in in_order {
            // A logarithm is taken of the time, so it must be positive.
            if let Some(time_ms) = trial.time_ms.filter(|time| *time > 0.0 && time.is_finite()) {
                let condition = rounds.0.entry((trial.link.as_str(), trial.entrant)).or_default();
                condition.insert(trial.round, Counted { time_ms, trial });
            }
        }
        rounds
    }

    /// The trials of one condition, in the order of the rounds.
    pub fn trials(&self, link: &str, entrant: usize) -> Vec<&'a Trial> {
        self.condition(link, entrant).map(|(_, counted)| counted.trial).collect()
    }

    /// The times of one condition in milliseconds, in the order of the rounds.
    pub fn times_ms(&self, link: &str, entrant: usize) -> Vec<f64> {
        self.condition(link, entrant).map(|(_, counted)| counted.time_ms).collect()
    }

    /// The logarithm of the ratio of times, entrant over other, for each round in which both have a trial.
    pub fn log_ratios(&self, link: &str, entrant: usize, other: usize) -> Vec<f64> {
        let others: BTreeMap<u32, Counted> = self.condition(link, other).collect();
        self.condition(link, entrant)
            .filter_map(|(round, counted)| others.get(&round).map(|other| (counted.time_ms / other.time_ms).ln()))
            .collect()
    }

    fn condition<'b>(
        &'b self,
        link: &'b str,
        entrant: usize,
    ) -> impl Iterator<Item = (u32, Counted<'a>)> + use<'a, 'b> {
        self.0.get(&(link, entrant)).into_iter().flatten().map(|(round, counted)| (*round, *counted))
    }
}
