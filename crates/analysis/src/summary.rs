use std::fmt;

use measure::{Environment, Protocol};
use serde::{Deserialize, Serialize};

/// What a race is about and how it is to be run: everything the analysis has to know besides the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Short name of the experiment.
    pub name: String,
    /// The question in one sentence.
    pub question: String,
    /// What the client does, in a sentence.
    pub workload: String,
    /// What is compared, for example `page load time`. Smaller is better.
    pub metric: String,
    /// The entrants, in the order of the tables. The same protocol may stand here twice.
    pub entrants: Vec<Protocol>,
    /// The links, in the order of the tables.
    pub links: Vec<PlannedLink>,
    /// Rounds that the race is to run.
    #[serde(rename = "rounds_planned")]
    pub rounds: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Smallest effect worth a verdict, as a share: 0.03 is 3 %.
    pub practical: f64,
    /// The server under test, in words.
    pub origin: String,
    /// The command line that repeats the race.
    pub repeat: String,
    /// Whether an emulated link stands between client and origin.
    pub has_link: bool,
}

/// One link of a race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLink {
    /// The name under which trials refer to it.
    pub name: String,
    /// The name that a headline uses, for example `Slow 4G + 2 % loss`.
    pub title: String,
    /// Its parameters in words, for example `1.6/0.75 Mbit/s, 150 ms, queue 64 kB`.
    pub detail: String,
}

/// The result of a race: `summary.json`. Documented in docs/formats.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of this format.
    pub schema: u32,
    /// The race as it was planned.
    #[serde(flatten)]
    pub plan: Plan,
    /// Rounds in which at least one trial was made.
    pub rounds_done: u32,
    /// Whether every planned round is complete.
    pub finished: bool,
    /// One entry per entrant and link: links in their order, entrants in theirs.
    pub conditions: Vec<Condition>,
    /// One entry per link and entrant other than the baseline.
    pub comparisons: Vec<Comparison>,
    /// One sentence per link.
    pub verdicts: Vec<Verdict>,
    /// What a reader must know before trusting the figures.
    pub warnings: Vec<String>,
    /// Tool, kernel and machine.
    pub environment: Environment,
}

impl Summary {
    /// The version of the format that this code writes.
    pub const SCHEMA: u32 = 1;

    /// The conditions on one link, in the order of the entrants.
    pub fn conditions_on<'a>(&'a self, link: &'a str) -> impl Iterator<Item = &'a Condition> {
        self.conditions.iter().filter(move |condition| condition.link == link)
    }

    /// The comparison of a condition with its baseline; `None` for the baseline itself.
    pub fn comparison_of(&self, condition: &Condition) -> Option<&Comparison> {
        self.comparisons
            .iter()
            .find(|comparison| comparison.link == condition.link && comparison.entrant == condition.entrant)
    }

    /// The label of the entrant that the others are compared with.
    pub fn baseline_label(&self) -> &str {
        let baseline = crate::entrants::baseline(&self.plan.entrants);
        self.conditions.iter().find(|condition| condition.entrant == baseline).map_or("", |condition| &condition.label)
    }
}

/// One cell of the matrix: an entrant on a link. Counts are medians over valid trials; `None` is unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Position in the list of entrants, from 0.
    pub entrant: usize,
    /// The protocol.
    pub protocol: Protocol,
    /// What a table calls the entrant: the protocol, and `(2)` after it when it runs a second time.
    pub label: String,
    /// The link.
    pub link: String,
    /// Valid trials.
    pub trials: u32,
    /// Invalid trials; each was repeated unless its attempts were used up.
    pub invalid: u32,
    /// Median time, milliseconds.
    pub median_ms: Option<f64>,
    /// Lower end of the 95 % interval of the median, milliseconds; needs 6 trials.
    pub low_ms: Option<f64>,
    /// Upper end of the 95 % interval of the median, milliseconds; needs 6 trials.
    pub high_ms: Option<f64>,
    /// Connections opened, as counted on the wire, or by the client where there is no tap.
    pub connections: Option<f64>,
    /// Handshakes, as counted on the wire, or by the client where there is no tap.
    pub handshakes: Option<f64>,
    /// TCP segments that repeated data, or QUIC packets that either end declared lost.
    pub retransmissions: Option<f64>,
    /// CPU time of the client, milliseconds.
    pub client_cpu_ms: Option<f64>,
    /// CPU time of the origin, milliseconds.
    pub origin_cpu_ms: Option<f64>,
    /// Congestion control in force.
    pub congestion_control: Ends<String>,
    /// Initial congestion window, packets.
    pub initial_window: Ends<u32>,
    /// Who ran out of CPU in more than half of the valid trials: `client`, `origin`, `machine`.
    pub bound: Vec<String>,
}

/// A fact about both ends of the path; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends<T> {
    /// At the client.
    pub client: Option<T>,
    /// At the origin.
    pub origin: Option<T>,
}

/// One entrant against the baseline on one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The link.
    pub link: String,
    /// The protocol that is compared.
    pub protocol: Protocol,
    /// What a table calls the entrant.
    pub label: String,
    /// Position in the list of entrants, from 0.
    pub entrant: usize,
    /// The protocol it is compared with.
    pub baseline: Protocol,
    /// What is compared.
    pub metric: String,
    /// Time of the entrant divided by time of the baseline; `None` when no round has both.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of the ratio; needs 3 rounds.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval of the ratio; needs 3 rounds.
    pub high: Option<f64>,
    /// The answer.
    pub answer: Answer,
    /// Rounds in which both have a valid trial.
    pub rounds: u32,
    /// With `cannot tell`: rounds that would probably settle it, as an estimate.
    pub rounds_needed: Option<u32>,
}

/// Whether two entrants differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// Less time than the baseline, by at least the practical size.
    #[serde(rename = "faster")]
    Faster,
    /// More time than the baseline, by at least the practical size.
    #[serde(rename = "slower")]
    Slower,
    /// No difference of practical size was found, and a large one is ruled out.
    #[serde(rename = "no difference")]
    NoDifference,
    /// The rounds at hand do not settle it.
    #[serde(rename = "cannot tell")]
    CannotTell,
}

impl Answer {
    /// The words that files and tables use.
    pub const fn name(self) -> &'static str {
        match self {
            Answer::Faster => "faster",
            Answer::Slower => "slower",
            Answer::NoDifference => "no difference",
            Answer::CannotTell => "cannot tell",
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The answer for one link, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The link.
    pub link: String,
    /// Its title.
    pub title: String,
    /// Position of the entrant that was faster than every other; `None` when that is not established.
    pub fastest: Option<usize>,
    /// The answer.
    pub sentence: String,
}
