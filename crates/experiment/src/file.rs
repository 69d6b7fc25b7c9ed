use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use link::profile::Profile;
use measure::{CongestionControl, Protocol, units};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A question put to the protocols, completely resolved: what `experiment.toml` in a run directory holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Short name; the run directory begins with it.
    pub name: String,
    /// The question in one sentence.
    pub question: String,
    /// The entrants, in the order of the tables. The same protocol may stand here twice (an A/A test).
    pub protocols: Vec<Protocol>,
    /// The links: profiles with overrides, as `fairlane link` takes them. Empty: no emulated link.
    pub links: Vec<String>,
    /// Seed of everything random: order of trials, losses.
    pub seed: u64,
    /// Smallest effect worth a verdict, as a share.
    #[serde(default = "default_practical")]
    pub practical: f64,
    /// Trials that run at once. More than one is fair only while the link is the bottleneck.
    #[serde(default = "default_jobs")]
    pub jobs: usize,
    /// How many rounds.
    pub rounds: RoundLimits,
    /// What the client does.
    pub workload: Workload,
    /// Congestion control and initial window, the same for TCP and QUIC.
    #[serde(default)]
    pub transport: Transport,
    /// The server under test.
    #[serde(default)]
    pub origin: Origin,
}

/// The stop rule, fixed before the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundLimits {
    /// Rounds that are run in any case.
    pub at_least: u32,
    /// Rounds after which the run ends.
    pub at_most: u32,
    /// No further round is begun when it would probably end after this time. Written as `25s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

/// What the client does in a trial: load one page from cold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What happens, in a sentence.
    pub description: String,
    /// The document. `None` is the page that the built-in origin makes: 30 objects of 10 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Connections that an HTTP/1.1 client may open (a browser opens 6).
    #[serde(default = "default_connections")]
    pub http1_connections: u32,
    /// Requests in flight on the one connection of HTTP/2 and HTTP/3.
    #[serde(default = "default_streams")]
    pub streams: u32,
}

/// The transport settings that every protocol shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// Congestion control algorithm.
    pub congestion_control: CongestionControl,
    /// Initial congestion window, packets.
    pub initial_window: u32,
}

impl Default for Transport {
    fn default() -> Self {
        Transport { congestion_control: CongestionControl::Cubic, initial_window: 10 }
    }
}

/// The server under test and how its certificate is trusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Built in, a command, or a server that runs already.
    pub kind: OriginKind,
    /// The command that starts it, for `kind = "command"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// CA certificate that the client trusts besides the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacert: Option<PathBuf>,
    /// Whether the client skips certificate checks.
    #[serde(default)]
    pub insecure: bool,
}

/// Where the server under test comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// `fairlane serve`, started for each trial.
    #[default]
    BuiltIn,
    /// A command that is started for each trial.
    Command,
    /// A server that runs already, outside the lab.
    Running,
}

fn default_practical() -> f64 {
    0.03
}

fn default_jobs() -> usize {
    1
}

fn default_connections() -> u32 {
    6
}

fn default_streams() -> u32 {
    100
}

/// No experiment is longer; a device that never ends is not one.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Trials at once beyond this would be a mistake on any machine.
const MAX_JOBS: usize = 256;

/// The page that the built-in origin makes, and the port it is served on inside a lab.
const BUILT_IN_PATH: &str = "page/30/10000";
const LAB_PORT: u16 = 8443;

impl Experiment {
    /// Reads and checks an experiment file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid experiment: the message names file, line and key.
    pub fn read(path: &Path) -> Result<Experiment, Error> {
        let read = |source| Error::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(read)?;
        file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            let message = format!("an experiment file has at most {} bytes", MAX_FILE_BYTES);
            return Err(Error::Experiment { path: path.display().to_string(), message });
        }
        Experiment::parse(&path.display().to_string(), &text)
    }

    /// Checks the text of an experiment file; `name` stands for it in messages.
    ///
    /// # Errors
    /// The text is not a valid experiment.
    pub fn parse(name: &str, text: &str) -> Result<Experiment, Error> {
        let invalid = |message: String| Error::Experiment { path: name.to_owned(), message };
        let experiment: Experiment = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        experiment.check().map_err(invalid)?;
        Ok(experiment)
    }

    /// Checks what types cannot say. The message names the key.
    ///
    /// # Errors
    /// A sentence that names the key, what it holds, and what was expected.
    pub fn check(&self) -> Result<(), String> {
        ensure(is_plain_name(&self.name), || {
            format!("name '{}' may hold letters, digits, '-' and '_' only", self.name)
        })?;
        ensure(self.protocols.len() >= 2, || {
            "protocols: a race needs at least two, for example h1,h2 (or h2,h2 for a test of the race itself)"
                .to_owned()
        })?;
        for text in &self.links {
            Profile::parse(text).map_err(|error| format!("links: {error}"))?;
        }
        for (index, text) in self.links.iter().enumerate() {
            ensure(!self.links[..index].contains(text), || format!("links: '{text}' is listed twice"))?;
        }
        ensure(self.rounds.at_least >= 1, || "rounds.at_least must be 1 or more".to_owned())?;
        ensure(self.rounds.at_most >= self.rounds.at_least, || {
            format!("rounds.at_most is {}, less than rounds.at_least, {}", self.rounds.at_most, self.rounds.at_least)
        })?;
        if let Some(text) = &self.rounds.within {
            units::parse_duration(text).map_err(|error| format!("rounds.within: {error}"))?;
        }
        ensure((0.0..1.0).contains(&self.practical), || {
            format!("practical is {}: expected a share from 0 up to, but not including, 1", self.practical)
        })?;
        ensure((1..=MAX_JOBS).contains(&self.jobs), || {
            format!("jobs is {}: expected 1 to {MAX_JOBS} trials at once", self.jobs)
        })?;
        ensure(self.workload.http1_connections >= 1, || "workload.http1_connections must be 1 or more".to_owned())?;
        ensure(self.workload.streams >= 1, || "workload.streams must be 1 or more".to_owned())?;
        self.check_origin()
    }

    fn check_origin(&self) -> Result<(), String> {
        if self.origin.kind == OriginKind::Command {
            let words = self.origin.command.as_deref().and_then(shlex::split).unwrap_or_default();
            ensure(!words.is_empty(), || {
                "origin.command (--origin) is not a command: expected a program and its arguments, with every quote \
                 closed"
                    .to_owned()
            })?;
        }
        let Some(url) = &self.workload.url else {
            return ensure(self.origin.kind != OriginKind::Running, || {
                "origin: a server that runs already needs its address: workload.url (--url)".to_owned()
            });
        };
        let encrypted = match url.split_once("://") {
            Some(("https", _)) => true,
            Some(("http", _)) => false,
            _ => return Err(format!("url '{url}' must begin with https:// or http://")),
        };
        let port = url.split('/').nth(2).and_then(|authority| authority.rsplit_once(':')).map(|(_, port)| port);
        if let Some(port) = port.filter(|port| !port.ends_with(']')) {
            ensure(port.parse::<u16>().is_ok_and(|port| port > 0), || {
                format!("url '{url}': '{port}' is not a port; expected 1 to 65535")
            })?;
        }
        if let Some(protocol) = self.protocols.iter().find(|protocol| protocol.is_encrypted() != encrypted) {
            return Err(format!(
                "url '{url}' cannot be asked for over {protocol}, which needs {}://",
                protocol.scheme()
            ));
        }
        ensure(self.origin.kind != OriginKind::Running || self.links.is_empty(), || {
            "links: a server that runs already is outside the lab, so no link can be emulated to it: race it with \
             --no-link, or let fairlane start it (--origin 'CMD')"
                .to_owned()
        })
    }

    /// The URL to load over `protocol`; `host_and_port` is where the origin listens when the URL is not given.
    pub(crate) fn url(&self, protocol: Protocol, host_and_port: &str) -> String {
        match &self.workload.url {
            Some(url) => url.clone(),
            None => format!("{}://{host_and_port}/{BUILT_IN_PATH}", protocol.scheme()),
        }
    }

    /// The port on which the origin listens inside a lab.
    pub(crate) fn lab_port(&self) -> u16 {
        let Some((scheme, rest)) = self.workload.url.as_deref().and_then(|url| url.split_once("://")) else {
            return LAB_PORT;
        };
        let authority = rest.split(['/', '?']).next().unwrap_or(rest);
        let port = authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.unwrap_or(if scheme == "https" { 443 } else { 80 })
    }

    /// The experiment as the text of a file that [`Experiment::parse`] reads back.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every field of an experiment can be written as TOML")
    }

    /// Crosses every link with every loss share, in place of the loss that it had: the matrix gets a link for each pair.
    pub fn with_losses(mut self, losses: &[f64]) -> Experiment {
        let mut crossed: Vec<String> = Vec::new();
        for link in &self.links {
            let rest: Vec<&str> = link.split_whitespace().filter(|word| !word.starts_with("loss=")).collect();
            for loss in losses {
                let link = format!("{} loss={}%", rest.join(" "), percent(*loss));
                if !crossed.contains(&link) {
                    crossed.push(link);
                }
            }
        }
        self.links = crossed;
        self
    }
}

fn ensure(condition: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message()) }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// A share in percent without the noise of binary fractions.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// Reads loss shares: `2%`, a list `0,1%,5%`, or a range `0..10%` in steps of one percentage point.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_losses(text: &str) -> Result<Vec<f64>, String> {
    let share = |text: &str| units::parse_share(text.trim()).map_err(|error| error.to_string());
    let Some((first, last)) = text.split_once("..") else {
        return text.split(',').map(share).collect();
    };
    // In `1..5%` the sign stands for both ends.
    let first = if last.ends_with('%') && !first.ends_with('%') { format!("{first}%") } else { first.to_owned() };
    let (first, last) = (share(&first)?, share(last)?);
    let steps = ((last - first) * 100.0).round();
    ensure(steps >= 1.0, || format!("'{text}' is not a range: its end must be at least one percentage point higher"))?;
    Ok((0..=steps as u32).map(|step| first + f64::from(step) / 100.0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../experiments/page.toml");

    fn page() -> Experiment {
        Experiment::parse("page.toml", PAGE).unwrap()
    }

    #[test]
    fn the_built_in_experiment_is_valid_and_its_resolved_copy_reads_back() {
        let experiment = page();
        assert_eq!(experiment.protocols, [Protocol::H1, Protocol::H2, Protocol::H3]);
        assert_eq!(Experiment::parse("copy", &experiment.to_toml()).unwrap(), experiment);
    }

    #[test]
    fn a_bad_key_is_named_with_its_line() {
        let text = PAGE.replace("[rounds]", "[rounds]\nmaximum = 3");
        let line = text.lines().position(|line| line == "maximum = 3").unwrap() + 1;
        let message = Experiment::parse("mine.toml", &text).unwrap_err().to_string();
        assert!(message.contains("mine.toml"), "{message}");
        assert!(message.contains(&format!("line {line}")), "{message}");
        assert!(message.contains("`maximum`"), "{message}");
    }

    #[test]
    fn values_that_make_no_race_are_refused() {
        let refused = |change: fn(&mut Experiment), named: &str| {
            let mut experiment = page();
            change(&mut experiment);
            let message = experiment.check().unwrap_err();
            assert!(message.contains(named), "{message}");
        };
        refused(|e| e.protocols.truncate(1), "at least two");
        refused(|e| e.links[0] = "slow-5g".to_owned(), "slow-5g");
        refused(|e| e.links[1] = e.links[0].clone(), "listed twice");
        refused(|e| e.rounds.at_most = 0, "rounds.at_most");
        refused(|e| e.rounds.within = Some("soon".to_owned()), "rounds.within");
        refused(|e| e.workload.url = Some("origin:8443/".to_owned()), "https://");
        refused(|e| e.workload.url = Some("http://origin/".to_owned()), "cannot be asked for over h1");
        refused(|e| e.origin.kind = OriginKind::Running, "--url");
        refused(|e| e.workload.url = Some("https://origin:99999/".to_owned()), "'99999' is not a port");
        refused(|e| e.origin = Origin { kind: OriginKind::Command, ..Origin::default() }, "--origin");
        refused(|e| e.jobs = usize::MAX, "jobs is");
        refused(|e| e.name = "../elsewhere".to_owned(), "letters, digits");
    }

    #[test]
    fn the_port_comes_from_the_url() {
        let port = |url: &str| {
            let mut experiment = page();
            experiment.workload.url = Some(url.to_owned());
            experiment.lab_port()
        };
        assert_eq!(page().lab_port(), 8443);
        assert_eq!(port("https://origin/a:b"), 443);
        assert_eq!(port("http://origin"), 80);
        assert_eq!(port("https://origin:9000/x"), 9000);
    }

    #[test]
    fn losses_are_lists_or_ranges() {
        assert_eq!(parse_losses("2%"), Ok(vec![0.02]));
        assert_eq!(parse_losses("0,1%,5%"), Ok(vec![0.0, 0.01, 0.05]));
        assert_eq!(parse_losses("0..10%").unwrap().len(), 11);
        assert_eq!(parse_losses("1..3%"), Ok(vec![0.01, 0.02, 0.03]));
        assert!(parse_losses("5%..1%").is_err());
        assert!(parse_losses("two").is_err());
        let links = page().with_losses(&parse_losses("0..3%").unwrap()).links;
        assert_eq!(links.len(), 8, "slow-4g stands there with and without loss, and once afterwards: {links:?}");
        assert!(links.contains(&"fast-4g loss=3%".to_owned()), "{links:?}");
    }
}
