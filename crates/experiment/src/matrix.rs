use measure::{Protocol, Trial};

use crate::Experiment;

/// One cell of the matrix: an entrant on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Position in the experiment's protocols.
    pub entrant: usize,
    /// The protocol at that position.
    pub protocol: Protocol,
    /// Position in the experiment's links; `None` without emulated links.
    pub link: Option<usize>,
}

/// One trial to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub condition: Condition,
    /// From 1.
    pub round: u32,
    /// From 1.
    pub attempt: u32,
    /// Seed of the link, the same for the whole round.
    pub seed: u64,
}

/// What stands in the record for the link of a run without emulated links.
pub const NO_LINK: &str = "no link";

/// The name under which the record knows the link of a condition.
pub(crate) fn link_name(experiment: &Experiment, condition: Condition) -> &str {
    condition.link.map_or(NO_LINK, |index| &experiment.links[index])
}

/// Every condition of an experiment.
pub(crate) fn conditions(experiment: &Experiment) -> Vec<Condition> {
    let links: Vec<Option<usize>> =
        if experiment.links.is_empty() { vec![None] } else { (0..experiment.links.len()).map(Some).collect() };
    let of_link = |link: Option<usize>| {
        let entrants = experiment.protocols.iter().enumerate();
        entrants.map(move |(entrant, protocol)| Condition { entrant, protocol: *protocol, link })
    };
    links.into_iter().flat_map(of_link).collect()
}

/// The trials of one round in their random order, without those that `done` holds already: valid ones, and those whose
/// attempts are used up.
pub(crate) fn round(experiment: &Experiment, round: u32, done: &[Trial]) -> Vec<Task> {
    let seed = hash(&[experiment.seed, u64::from(round)]);
    let mut order: Vec<(usize, Condition)> = conditions(experiment).into_iter().enumerate().collect();
    order.sort_by_key(|(index, _)| hash(&[seed, *index as u64]));
    let open = order.into_iter().filter_map(|(_, condition)| {
        let attempts = done.iter().filter(|trial| is_of(trial, experiment, condition, round)).count() as u32;
        let settled = done.iter().any(|trial| is_of(trial, experiment, condition, round) && trial.is_valid());
        let task = Task { condition, round, attempt: attempts + 1, seed };
        (!settled && task.attempt <= MAX_ATTEMPTS).then_some(task)
    });
    open.collect()
}

/// How often a condition is tried in a round before the round goes on without it.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

fn is_of(trial: &Trial, experiment: &Experiment, condition: Condition, round: u32) -> bool {
    trial.round == round && trial.entrant == condition.entrant && trial.link == link_name(experiment, condition)
}

/// Whether a trial is one of this experiment's.
pub(crate) fn has(experiment: &Experiment, trial: &Trial) -> bool {
    let same = |condition: &Condition| {
        condition.entrant == trial.entrant
            && condition.protocol == trial.protocol
            && link_name(experiment, *condition) == trial.link
    };
    conditions(experiment).iter().any(same)
}

/// Mixes words into one (the finaliser of splitmix64, applied in a chain).
fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0x9E37_79B9_7F4A_7C15, |state, word| {
        let mut z = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment::parse("page", include_str!("../../../experiments/page.toml")).unwrap()
    }

    #[test]
    fn a_round_holds_every_condition_once_in_an_order_of_its_own() {
        let experiment = experiment();
        let rounds: Vec<Vec<Task>> = (1..=20).map(|number| round(&experiment, number, &[])).collect();
        for tasks in &rounds {
            let mut seen: Vec<_> = tasks.iter().map(|task| (task.condition.link, task.condition.entrant)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..9).map(|index| (Some(index / 3), index % 3)).collect::<Vec<_>>());
            assert!(tasks.iter().all(|task| task.seed == tasks[0].seed));
        }
        let first = |tasks: &Vec<Task>| (tasks[0].condition.link, tasks[0].condition.entrant);
        assert!(rounds.iter().any(|tasks| first(tasks) != first(&rounds[0])), "the order varies from round to round");
        assert_ne!(rounds[0][0].seed, rounds[1][0].seed);
        assert_eq!(rounds[4], round(&experiment, 5, &[]), "the same seed gives the same order");
    }

    #[test]
    fn without_links_the_matrix_is_the_protocols() {
        let experiment = Experiment { links: Vec::new(), ..experiment() };
        assert_eq!(conditions(&experiment).len(), 3);
        assert_eq!(link_name(&experiment, conditions(&experiment)[0]), "no link");
    }
}
