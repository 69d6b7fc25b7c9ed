use std::io;
use std::path::PathBuf;

use measure::Protocol;

/// Why an experiment could not be read or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A file of the run directory could not be written, for example because the disk is full. What was measured
    /// before is safe in the journal.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The experiment file is not valid; the message names line and key.
    #[error("{path}: {message}")]
    Experiment {
        /// The file.
        path: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// A line of the journal is not a trial of this run.
    #[error("{path} line {line} is not a trial of this run: {message}. Undo what was changed, or start a new run")]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// Another process runs in the same directory.
    #[error("{0} is in use by another fairlane process: wait for it to end, or stop it")]
    Busy(PathBuf),
    /// A child process could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The origin did not answer one request over this protocol before the race.
    #[error("{origin} does not answer over {protocol}: {reason}.\n{cure}")]
    Preflight {
        /// The origin, as asked for.
        origin: String,
        /// The protocol that failed.
        protocol: Protocol,
        /// What the client or the link said.
        reason: String,
        /// What to do about it.
        cure: String,
    },
}
