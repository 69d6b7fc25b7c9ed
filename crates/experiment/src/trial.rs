use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use measure::{LinkSummary, LoadSummary, OriginCounters, Protocol, Trial};
use serde::de::DeserializeOwned;

use crate::children::{Children, Ended};
use crate::file::Origin;
use crate::matrix::{Task, link_name};
use crate::{Error, Experiment, OriginKind};

/// The programs and files that every trial of a run uses.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The fairlane binary, whose public subcommands are the trials.
    pub fairlane: PathBuf,
    /// The folder of the built-in origin's certificate.
    pub tls: PathBuf,
}

/// No trial of a page fetch takes this long unless something hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How one trial is put together and judged.
pub(crate) struct Bench<'a> {
    pub experiment: &'a Experiment,
    pub programs: &'a Programs,
    /// Where child processes leave their summaries.
    pub scratch: &'a Path,
    pub children: &'a Children,
}

/// The files in which the child processes of one slot leave what they found.
struct Files {
    link: PathBuf,
    origin: PathBuf,
    client: PathBuf,
    messages: PathBuf,
}

/// What the child processes of one trial left behind.
struct Evidence {
    ended: Ended,
    load: Option<LoadSummary>,
    link: Option<LinkSummary>,
    origin: Option<OriginCounters>,
    message: String,
}

impl Bench<'_> {
    /// Runs one trial in `slot` (trials that run at once have different slots). `None` when the run was stopped.
    ///
    /// # Errors
    /// A child process could not be started. A trial that went wrong is not an error: it is recorded as invalid.
    pub(crate) fn run(&self, task: &Task, slot: usize) -> Result<Option<Trial>, Error> {
        let files = self.files(slot);
        for path in [&files.link, &files.origin, &files.client, &files.messages] {
            remove_if_there(path).map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let link = task.condition.link.map(|index| self.experiment.links[index].as_str());
        let port = self.port(link.is_some())?;
        let (command, origin_command) = match link {
            Some(link) => (self.linked(link, task, &files, port), None),
            None => {
                let client = self.client(task.condition.protocol, &format!("localhost:{port}"));
                (client, self.origin(&files, port))
            }
        };
        let evidence = self.gather(&command, origin_command.as_deref(), link.is_some(), &files, port)?;
        if evidence.ended == Ended::Stopped {
            return Ok(None);
        }
        if evidence.load.is_none() {
            self.check_disk()?;
        }
        Ok(Some(Trial {
            round: task.round,
            entrant: task.condition.entrant,
            protocol: task.condition.protocol,
            link: link_name(self.experiment, task.condition).to_owned(),
            attempt: task.attempt,
            seed: task.seed,
            started_unix_ms: started.as_millis() as u64,
            command,
            origin_command,
            invalid: faults(&evidence, task.condition.protocol),
            time_ms: evidence
                .load
                .as_ref()
                .and_then(|load| load.pages.first())
                .map(|page| page.duration_us as f64 / 1000.0),
            load: evidence.load,
            link_summary: evidence.link,
            origin: evidence.origin,
        }))
    }

    /// A client that left nothing may have had no room for it, and that is not the trial's fault.
    fn check_disk(&self) -> Result<(), Error> {
        const PROBE: [u8; 16_384] = [0; 16_384];
        let path = self.scratch.join("probe");
        let written = fs::write(&path, PROBE);
        // Best effort: what could not be written need not be removed.
        let _ = fs::remove_file(&path);
        written.map_err(|source| Error::Write { path, source })
    }

    fn gather(
        &self,
        command: &[String],
        origin_command: Option<&[String]>,
        linked: bool,
        files: &Files,
        port: u16,
    ) -> Result<Evidence, Error> {
        let origin = match origin_command {
            Some(line) => Some(self.children.start(self.quiet(line, &files.messages)?)?),
            None => None,
        };
        if let Some(origin) = &origin
            && !origin.listens(port)
        {
            // However it ended, this trial has no client whose exit code would count.
            let ended = if origin.terminate() == Ended::Stopped { Ended::Stopped } else { Ended::Code(3) };
            let message = format!("the origin does not listen on port {port}: {}", last_words(&files.messages));
            return Ok(Evidence { ended, load: None, link: None, origin: None, message });
        }
        let mut child = self.quiet(command, &files.messages)?;
        child.stdout(create(&files.client)?);
        let ended = self.children.start(child)?.wait(TIMEOUT);
        if let Some(origin) = origin {
            origin.terminate();
        }
        Ok(Evidence {
            ended,
            load: read_json(&files.client),
            link: if linked { read_json(&files.link) } else { None },
            origin: read_json(&files.origin),
            message: last_words(&files.messages),
        })
    }

    /// The trial behind a link: one `fairlane link` that starts origin and client.
    fn linked(&self, link: &str, task: &Task, files: &Files, port: u16) -> Vec<String> {
        let mut line = words(&[&self.programs.fairlane.display().to_string(), "link", link, "--seed"]);
        line.push(task.seed.to_string());
        line.extend(words(&["--port", &port.to_string()]));
        line.extend(self.transport());
        if let Some(origin) = self.origin_line(&files.origin, port) {
            line.extend(["--origin".to_owned(), origin]);
        }
        line.extend(words(&["--json", "--output", &files.link.display().to_string(), "--"]));
        line.extend(self.client(task.condition.protocol, &format!("origin:{port}")));
        line
    }

    /// The client's command line.
    fn client(&self, protocol: Protocol, host_and_port: &str) -> Vec<String> {
        let Experiment { workload, origin, .. } = self.experiment;
        let mut line = words(&[
            &self.programs.fairlane.display().to_string(),
            "load",
            &self.experiment.url(protocol, host_and_port),
            "--page",
            "--protocol",
            protocol.name(),
        ]);
        if protocol.multiplexes() {
            line.extend(words(&["-c", "1", "-m", &workload.streams.to_string()]));
        } else {
            line.extend(words(&["-c", &workload.http1_connections.to_string()]));
        }
        if protocol == Protocol::H3 {
            line.extend(self.transport());
        }
        if protocol.is_encrypted() {
            line.extend(trust(origin, &self.programs.tls));
        }
        line.push("--json".to_owned());
        line
    }

    /// The origin's command line for a trial without a link; `None` when the origin runs already.
    fn origin(&self, files: &Files, port: u16) -> Option<Vec<String>> {
        let line = self.origin_line(&files.origin, port)?;
        Some(words(&["sh", "-c", &format!("exec {line}")]))
    }

    fn origin_line(&self, stats: &Path, port: u16) -> Option<String> {
        match self.experiment.origin.kind {
            OriginKind::Running => None,
            OriginKind::Command => self.experiment.origin.command.clone(),
            OriginKind::BuiltIn => {
                let mut line = words(&[&self.programs.fairlane.display().to_string(), "serve", "--port"]);
                line.extend(words(&[&port.to_string(), "--tls-dir", &self.programs.tls.display().to_string()]));
                line.extend(self.transport());
                line.extend(words(&["--stats", &stats.display().to_string()]));
                let line = shlex::try_join(line.iter().map(String::as_str));
                Some(line.expect("paths that came from the command line hold no NUL byte"))
            }
        }
    }

    fn transport(&self) -> Vec<String> {
        let transport = &self.experiment.transport;
        let window = transport.initial_window.to_string();
        words(&["--congestion-control", transport.congestion_control.name(), "--initial-window", &window])
    }

    /// The port of the origin: in a lab, and where the URL names it, always the same; else one that is free now.
    fn port(&self, is_linked: bool) -> Result<u16, Error> {
        if is_linked || self.experiment.workload.url.is_some() {
            return Ok(self.experiment.lab_port());
        }
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let start = |source| Error::Start { program: "an origin on a free port".to_owned(), source };
        free.map(|address| address.port()).map_err(start)
    }

    fn files(&self, slot: usize) -> Files {
        let file = |name: &str| self.scratch.join(format!("{slot}-{name}"));
        Files {
            link: file("link.json"),
            origin: file("origin.json"),
            client: file("client.json"),
            messages: file("messages.txt"),
        }
    }

    /// A child process whose messages go to a file and that dies with this process.
    fn quiet(&self, line: &[String], messages: &Path) -> Result<Command, Error> {
        let messages = create(messages)?;
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        Ok(command)
    }
}

/// How the client is told to trust the origin's certificate.
fn trust(origin: &Origin, tls: &Path) -> Vec<String> {
    match (&origin.cacert, origin.kind) {
        _ if origin.insecure => words(&["--insecure"]),
        (Some(file), _) => words(&["--cacert", &file.display().to_string()]),
        (None, OriginKind::BuiltIn) => words(&["--cacert", &tls.join("ca.pem").display().to_string()]),
        (None, _) => Vec::new(),
    }
}

/// Why a trial does not count; empty when it does.
fn faults(evidence: &Evidence, protocol: Protocol) -> Vec<String> {
    let mut faults = Vec::new();
    match (&evidence.load, evidence.ended) {
        (_, Ended::TimedOut) => faults.push(format!("it did not end within {} s", TIMEOUT.as_secs())),
        (Some(load), _) if load.protocol != protocol => {
            faults.push(format!("{} was spoken instead of {protocol}", load.protocol));
        }
        (Some(load), _) if !load.errors.is_empty() => faults.extend(load.errors.keys().cloned()),
        (Some(_), Ended::Code(0)) => {}
        (None, Ended::Code(0)) => faults.push("the client left no summary".to_owned()),
        (_, Ended::Code(code)) if evidence.message.is_empty() => {
            faults.push(format!("the client ended with code {code}"));
        }
        (_, Ended::Code(_) | Ended::Stopped) => faults.push(evidence.message.clone()),
    }
    if let Some(link) = &evidence.link {
        faults.extend(link.invalid.iter().cloned());
    }
    faults
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn create(path: &Path) -> Result<File, Error> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// What the child processes said last: our own programs' last message, or else the last lines.
fn last_words(path: &Path) -> String {
    const OURS: &str = "fairlane: ";
    const LINES: usize = 5;
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.iter().rposition(|line| line.starts_with(OURS));
    let said = match last {
        // An origin that does not start has said why before that.
        Some(last) if lines[last].contains("is above") => &lines[(last + 1).saturating_sub(LINES)..=last],
        Some(last) => &lines[last..],
        None => &lines[lines.len().saturating_sub(LINES)..],
    };
    said.join(" | ").replace(OURS, "")
}
