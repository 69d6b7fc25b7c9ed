use std::collections::HashMap;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use shared_child::{SharedChild, unix::SharedChildExt as _};

use crate::Error;

/// The child processes of a run, so that a run that is stopped can end them all.
#[derive(Default)]
pub(crate) struct Children {
    stopped: AtomicBool,
    next: AtomicU64,
    running: Mutex<HashMap<u64, Arc<SharedChild>>>,
}

/// How a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this exit code (128 + n for signal n).
    Code(i32),
    /// Killed because it took too long.
    TimedOut,
    /// Killed because the run was stopped.
    Stopped,
}

impl Children {
    /// Starts a child in a process group of its own, so that Ctrl-C reaches only fairlane, which ends its children
    /// itself; should fairlane be killed, the kernel kills the child.
    pub(crate) fn start(&self, mut command: Command) -> Result<Child<'_>, Error> {
        command.process_group(0);
        link::die_with_parent(&mut command);
        let process = SharedChild::spawn(&mut command)
            .map_err(|source| Error::Start { program: command.get_program().to_string_lossy().into_owned(), source })?;
        let process = Arc::new(process);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.registry().insert(number, Arc::clone(&process));
        if self.stopped.load(Ordering::SeqCst) {
            let _ = process.kill();
        }
        Ok(Child { children: self, number, process })
    }

    /// Kills every child and lets no other live. A lab dies with the process that made it.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        for child in self.registry().values() {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
        }
    }

    fn registry(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<SharedChild>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One running child process; it is killed when dropped.
pub(crate) struct Child<'a> {
    children: &'a Children,
    number: u64,
    process: Arc<SharedChild>,
}

impl Child<'_> {
    /// Waits for the end, at most `limit`; then the child is killed.
    pub(crate) fn wait(&self, limit: Duration) -> Ended {
        let status = self.process.wait_timeout(limit);
        if self.children.stopped.load(Ordering::SeqCst) {
            return Ended::Stopped;
        }
        match status {
            Ok(Some(status)) => Ended::Code(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
            Ok(None) | Err(_) => Ended::TimedOut,
        }
    }

    /// Asks the child to end (SIGTERM) and waits for it.
    pub(crate) fn terminate(&self) -> Ended {
        let _ = self.process.send_signal(libc::SIGTERM);
        self.wait(Duration::from_secs(5))
    }

    /// Waits until a socket of this machine is bound to `port`; `false` when the child ends first or takes over 10 s.
    pub(crate) fn listens(&self, port: u16) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut watch = link::PortWatch::new(port);
        while Instant::now() < deadline && matches!(self.process.try_wait(), Ok(None)) {
            if watch.is_listening() {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        self.children.registry().remove(&self.number);
    }
}
