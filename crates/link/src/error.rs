use std::io;

use serde::{Deserialize, Serialize};

/// Why a program could not be run behind a link.
///
/// Serialisable, because the process that builds the lab reports to the one that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum LabError {
    /// The machine does not let this process make namespaces.
    #[error("this machine does not allow network namespaces: {reason}; {remedy}")]
    Forbidden {
        /// The setting that forbids it.
        reason: String,
        /// What to do about it.
        remedy: String,
    },
    /// The process has threads, which the kernel cannot move into namespaces.
    #[error("a lab must be entered before the process starts a thread, but it has {count}")]
    Threads {
        /// How many threads there are.
        count: usize,
    },
    /// A step of building the lab failed.
    #[error("the lab could not be built: {step}: {cause}")]
    Setup {
        /// What was being done.
        step: String,
        /// The kernel's answer.
        cause: String,
    },
    /// The kernel has no such congestion control.
    #[error("the kernel does not offer the TCP congestion control '{wanted}': it offers {available}")]
    CongestionControl {
        /// What was asked for.
        wanted: String,
        /// What there is, separated by spaces.
        available: String,
    },
    /// A program does not exist (a shell's exit code 127).
    #[error("{program}: command not found")]
    NotFound {
        /// The program as it was given.
        program: String,
    },
    /// A program exists and cannot be executed (a shell's exit code 126).
    #[error("{program}: cannot be executed: {cause}")]
    NotExecutable {
        /// The program as it was given.
        program: String,
        /// The kernel's answer.
        cause: String,
    },
    /// The origin ended instead of serving.
    #[error("the origin ended with exit code {exit_code} before it listened on port {port}; what it wrote is above")]
    OriginEnded {
        /// Its exit code; 128 + n when signal n ended it.
        exit_code: i32,
        /// The port that was waited for.
        port: u16,
    },
    /// The origin runs and does not listen.
    #[error("the origin did not listen on port {port} within {seconds} s: does it use another port or address?")]
    OriginSilent {
        /// The port that was waited for.
        port: u16,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A signal arrived before the client was started.
    #[error("ended by signal {signal} before the client was started")]
    Interrupted {
        /// The signal's number.
        signal: i32,
    },
    /// The process that holds the lab ended without a word.
    #[error("the process that holds the lab ended without a report ({status}): was it killed, or out of memory?")]
    Lost {
        /// How it ended.
        status: String,
    },
}

impl LabError {
    /// A failed step of building the lab.
    pub(crate) fn setup(step: impl Into<String>, cause: impl Into<io::Error>) -> LabError {
        LabError::Setup { step: step.into(), cause: cause.into().to_string() }
    }
}
