use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Command;
use std::time::Duration;

use measure::{ChildUsage, CpuTime};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::{LabError, sys};

/// A signal that arrived.
#[derive(Clone, Copy)]
pub struct Received {
    /// Which.
    pub kind: Signal,
    /// Whether a process sent it; otherwise the kernel did, for the terminal.
    pub from_process: bool,
}

/// The signals that end a program, and the one that tells of an ended child: held back, to be read when convenient.
pub struct Signals(SignalFd);

impl Signals {
    /// Begins to hold them back from the calling thread and those it starts.
    pub fn watch() -> Result<Signals, LabError> {
        let watch = || {
            watched().thread_block()?;
            SignalFd::with_flags(&watched(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        };
        watch().map(Signals).map_err(|error| LabError::setup("watching signals", error))
    }

    /// The next signal that waits to be read, other than that of an ended child.
    pub fn next(&self) -> nix::Result<Option<Received>> {
        while let Some(info) = self.0.read_signal()? {
            let kind = Signal::try_from(info.ssi_signo as i32)?;
            if kind != Signal::SIGCHLD {
                return Ok(Some(Received { kind, from_process: info.ssi_code <= 0 }));
            }
        }
        Ok(None)
    }
}

fn watched() -> SigSet {
    SigSet::from_iter([Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD])
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// How a program ended.
#[derive(Clone, Copy)]
pub struct Ended {
    /// Exit code; 128 + n when signal n ended it.
    pub exit_code: i32,
    /// CPU time of the program and the children it waited for.
    pub cpu: CpuTime,
}

impl Ended {
    /// The record of the program that had this command line.
    pub fn usage(self, command: &[String]) -> ChildUsage {
        ChildUsage { command: command.to_vec(), exit_code: self.exit_code, cpu: self.cpu }
    }
}

/// The programs that a keeper started, and the orphans that it inherits as process 1.
pub struct Processes {
    signals: Signals,
    ended: HashMap<Pid, Ended>,
}

impl Processes {
    /// None so far.
    pub fn new() -> Result<Processes, LabError> {
        Ok(Processes { signals: Signals::watch()?, ended: HashMap::new() })
    }

    /// Starts a program; it receives signals as usual.
    pub fn start(&mut self, command: &mut Command) -> Result<Pid, LabError> {
        sys::unblock(command, watched());
        let child = command.spawn().map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            match error.kind() {
                io::ErrorKind::NotFound => LabError::NotFound { program },
                _ => LabError::NotExecutable { program, cause: error.to_string() },
            }
        })?;
        Ok(Pid::from_raw(child.id() as i32))
    }

    /// How a program ended; `None` while it runs.
    pub fn ended(&self, program: Pid) -> Option<Ended> {
        self.ended.get(&program).copied()
    }

    /// Waits until a program ends, a signal arrives or the time is over, and returns the signals.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Vec<Received>, LabError> {
        let timeout = limit
            .map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit.as_millis()).unwrap_or(PollTimeout::MAX));
        let mut wait = || {
            poll(&mut [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)], timeout)?;
            let mut signals = Vec::new();
            while let Some(signal) = self.signals.next()? {
                signals.push(signal);
            }
            while let Some((program, exit_code, cpu)) = reap()? {
                self.ended.insert(program, Ended { exit_code, cpu });
            }
            Ok(signals)
        };
        wait().map_err(|error: Errno| LabError::setup("waiting for the programs", error))
    }
}

/// Collects an ended child; having no child at all is nothing to collect.
fn reap() -> nix::Result<Option<(Pid, i32, CpuTime)>> {
    match sys::reap() {
        Err(Errno::ECHILD) => Ok(None),
        result => result,
    }
}
