//! One run: two processes around the programs, so that whatever happens nothing is left behind.
//!
//! ```text
//!  caller ── fork ──> keeper: process 1 of its process namespace; builds the lab, forwards, writes the report
//!    │ waits for the   │
//!    │ report          ├──> origin, in a process group of its own
//!    └ passes signals  └──> client, in the terminal's foreground with the caller's stdin, stdout and stderr
//! ```
//!
//! The keeper dies with the caller, and everything in its process namespace dies with the keeper.

mod keeper;
mod listening;
mod processes;

use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use measure::LinkSummary;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::sys::wait::waitpid;
use nix::unistd::{AccessFlags, Pid, access, pipe2};
use serde::{Deserialize, Serialize};

use crate::lab::{self, Transport};
use crate::profile::Profile;
use crate::{LabError, sys};
pub use listening::PortWatch;
use processes::Signals;

/// What to run, and behind which link.
#[derive(Clone, Debug)]
pub struct Run {
    /// The link.
    pub profile: Profile,
    /// Seed of its losses.
    pub seed: u64,
    /// TCP at both ends.
    pub transport: Transport,
    /// The program at the origin's end, if any: name and arguments.
    pub origin: Option<Vec<String>>,
    /// The port on which the origin is expected to listen, TCP or UDP.
    pub port: u16,
    /// The program at the client's end: name and arguments. Never empty.
    pub client: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What the link and the programs did.
    pub summary: LinkSummary,
    /// What is not as it should be and did not prevent the run.
    pub warnings: Vec<String>,
}

impl Run {
    /// Runs the client behind the link and waits until it ends.
    ///
    /// Call it once in a process, before any thread is started: the process is moved into namespaces and stays there.
    /// From then on SIGINT, SIGQUIT, SIGTERM and SIGHUP do not end the process; the client gets them.
    pub fn execute(&self) -> Result<Outcome, LabError> {
        let began = Instant::now();
        for words in self.origin.iter().chain([&self.client]) {
            find_program(&words[0])?;
        }
        let count = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if count > 1 {
            return Err(LabError::Threads { count });
        }
        let signals = Signals::watch()?;
        let (report, sender) =
            pipe2(OFlag::O_CLOEXEC).map_err(|error| LabError::setup("making a pipe for the report", error))?;
        lab::enter().map_err(lab::forbidden)?;
        let (keeper, (report, sender)) =
            sys::fork((report, sender), |(report, sender)| keeper::main(self, began, report, sender))
                .map_err(|error| LabError::setup("starting the process that holds the lab", error))?;
        drop(sender);
        let report = read_report(report, &signals, keeper)
            .map_err(|error| LabError::setup("reading the report of the process that holds the lab", error))?;
        let status = waitpid(keeper, None);
        serde_json::from_slice(&report).unwrap_or_else(|_| Err(LabError::Lost { status: format!("{status:?}") }))
    }
}

/// Reads the keeper's report to its end and passes on the signals that arrive meanwhile.
fn read_report(report: OwnedFd, signals: &Signals, keeper: Pid) -> io::Result<Vec<u8>> {
    let mut report = File::from(report);
    let mut text = Vec::new();
    loop {
        let mut events = [report.as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        poll(&mut events, PollTimeout::NONE)?;
        let [reported, _] = events.map(|event| event.any().unwrap_or(false));
        while let Some(signal) = signals.next()? {
            // What the terminal sends reaches the whole foreground group, the client included.
            if signal.from_process {
                let _ = kill(keeper, signal.kind);
            }
        }
        if reported {
            let mut chunk = [0; 65_536];
            match report.read(&mut chunk)? {
                0 => return Ok(text),
                length => text.extend_from_slice(&chunk[..length]),
            }
        }
    }
}

/// Looks for a program as `execvp` does, so that a wrong name is reported before anything is started.
fn find_program(program: &str) -> Result<PathBuf, LabError> {
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        env::split_paths(&path).map(|directory| directory.join(program)).collect()
    };
    let mut refusal = LabError::NotFound { program: program.to_owned() };
    for candidate in candidates.into_iter().filter(|candidate| candidate.exists()) {
        let executable = if candidate.is_dir() { Err(Errno::EISDIR) } else { access(&candidate, AccessFlags::X_OK) };
        match executable {
            Ok(()) => return Ok(candidate),
            Err(error) => {
                refusal = LabError::NotExecutable { program: program.to_owned(), cause: error.desc().to_owned() };
            }
        }
    }
    Err(refusal)
}
