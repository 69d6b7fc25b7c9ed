use std::collections::BTreeMap;

use measure::Trial;

use crate::counts::Observed;
use crate::rounds::Rounds;
use crate::summary::{Condition, Ends, Plan};
use crate::{counts, entrants, words};

/// Reasons for invalid trials that a warning lists; the rest are in trials.jsonl.
const REASONS_LISTED: usize = 3;

/// Says what a reader must know before trusting the figures.
pub(crate) fn warnings(plan: &Plan, trials: &[Trial], rounds: &Rounds, conditions: &[Condition]) -> Vec<String> {
    let done = rounds_done(trials);
    let mut warnings = Vec::new();
    if done < plan.rounds {
        warnings.push(format!("The race ended after {done} of {} rounds.", plan.rounds));
    }
    if !plan.has_link {
        warnings.push("There is no emulated link: loopback times show the cost in CPU, not the network.".to_owned());
    }
    warnings.extend(encryption(plan));
    warnings.extend(unlike(conditions, "congestion control", |condition| condition.congestion_control.clone()));
    warnings.extend(unlike(conditions, "initial congestion window", |condition| {
        let packets = |window: &Option<u32>| window.map(|window| format!("{window} packets"));
        let Ends { client, origin } = &condition.initial_window;
        Ends { client: packets(client), origin: packets(origin) }
    }));
    warnings.extend(disagreements(plan, rounds));
    warnings.extend(invalid(trials));
    warnings.extend(missing(plan, conditions, done));
    warnings
}

/// Rounds in which at least one trial was made.
pub(crate) fn rounds_done(trials: &[Trial]) -> u32 {
    trials.iter().map(|trial| trial.round).max().unwrap_or(0)
}

fn encryption(plan: &Plan) -> Option<String> {
    let (encrypted, clear): (Vec<_>, Vec<_>) = plan.entrants.iter().partition(|protocol| protocol.is_encrypted());
    let names = |protocols: Vec<measure::Protocol>| {
        let mut names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
        names.dedup();
        words::list(&names)
    };
    (!encrypted.is_empty() && !clear.is_empty()).then(|| {
        let (encrypted, clear) = (names(encrypted), names(clear));
        format!("{encrypted} carried TLS and {clear} did not: their difference is that of HTTP and TLS together.")
    })
}

/// Warns where a setting that must be equal is not, or where it is not known.
fn unlike(conditions: &[Condition], setting: &str, value: impl Fn(&Condition) -> Ends<String>) -> Vec<String> {
    let mut client: BTreeMap<Option<String>, Vec<&str>> = BTreeMap::new();
    let mut origin = client.clone();
    for condition in conditions.iter().filter(|condition| condition.trials > 0) {
        let ends = value(condition);
        for same in [client.entry(ends.client).or_default(), origin.entry(ends.origin).or_default()] {
            if !same.contains(&condition.label.as_str()) {
                same.push(&condition.label);
            }
        }
    }
    let mut warnings = Vec::new();
    for (end, mut values) in [("client", client), ("origin", origin)] {
        if let Some(unknown) = values.remove(&None) {
            warnings.push(format!("The {setting} of the {end} is unknown for {}.", words::list(&unknown)));
        }
        if values.len() > 1 {
            let part = |(value, labels): (&Option<String>, &Vec<&str>)| {
                format!("{} for {}", value.as_deref().unwrap_or_default(), words::list(labels))
            };
            let parts: Vec<String> = values.iter().map(part).collect();
            warnings.push(format!("The {setting} of the {end} differs: {}.", parts.join("; ")));
        }
    }
    warnings
}

/// Client, wire and origin must count the same connections and handshakes.
fn disagreements(plan: &Plan, rounds: &Rounds) -> Vec<String> {
    let labels = entrants::labels(&plan.entrants);
    let mut warnings = Vec::new();
    for link in &plan.links {
        for (entrant, label) in labels.iter().enumerate() {
            let trials = rounds.trials(&link.name, entrant);
            let connections: Vec<Observed> = trials.iter().map(|trial| counts::connections(trial)).collect();
            let handshakes: Vec<Observed> = trials.iter().map(|trial| counts::handshakes(trial)).collect();
            for (what, observed) in [("connections", connections), ("handshakes", handshakes)] {
                let unequal: Vec<&Observed> = observed.iter().filter(|observed| !observed.agree()).collect();
                if let Some(example) = unequal.first() {
                    warnings.push(format!(
                        "{label} on {}: client, wire and origin count different {what} in {} of {} trials, for example \
                         {example}.",
                        link.name,
                        unequal.len(),
                        trials.len(),
                    ));
                }
            }
        }
    }
    warnings
}

fn invalid(trials: &[Trial]) -> Option<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let invalid: Vec<&Trial> = trials.iter().filter(|trial| !trial.is_valid()).collect();
    for trial in &invalid {
        for reason in &trial.invalid {
            // What follows the colon is this trial's own figure; the record has it.
            let kind = reason.split_once(": ").map_or(reason.as_str(), |(kind, _)| kind);
            *reasons.entry(kind).or_default() += 1;
        }
        if trial.invalid.is_empty() {
            *reasons.entry("no result").or_default() += 1;
        }
    }
    let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut listed: Vec<String> = reasons
        .iter()
        .take(REASONS_LISTED)
        .map(|(reason, count)| format!("{} ({count})", reason.trim_end_matches('.')))
        .collect();
    if reasons.len() > REASONS_LISTED {
        listed.push(format!("{} other reasons", reasons.len() - REASONS_LISTED));
    }
    (!invalid.is_empty()).then(|| {
        let verb = if invalid.len() == 1 { "was invalid and does" } else { "were invalid and do" };
        let remedy = if invalid.len() * 10 > trials.len() {
            " A quieter machine, or fewer trials at once (--jobs 1), would help if the link was late."
        } else {
            ""
        };
        format!("{} of {} trials {verb} not count: {}.{remedy}", invalid.len(), trials.len(), listed.join("; "))
    })
}

fn missing(plan: &Plan, conditions: &[Condition], done: u32) -> Option<String> {
    let short = conditions.iter().filter(|condition| done >= plan.rounds && condition.trials < done);
    let cells: Vec<String> = short
        .map(|condition| format!("{} on {} ({} of {done})", condition.label, condition.link, condition.trials))
        .collect();
    (!cells.is_empty()).then(|| format!("Some conditions lack valid trials in some rounds: {}.", cells.join("; ")))
}
