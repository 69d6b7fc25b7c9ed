use std::io::{Write as _, stderr};
use std::process::ExitCode;

use experiment::Error;
use load::LoadError;

/// Why a command did not do what was asked, with the exit code that scripts rely on.
#[derive(Debug)]
pub enum Failure {
    /// The command ran and the answer is no: operations lost, an invalid run (exit code 1).
    No(String),
    /// Bad usage or input (exit code 2).
    Usage(String),
    /// This machine or the origin cannot do it (exit code 3).
    Machine(String),
    /// The user ended it; what was measured has been shown (exit code 130, as shells expect).
    Interrupted(String),
}

impl Failure {
    /// Prints the message to stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (code, message) = match self {
            Failure::No(message) => (1, message),
            Failure::Usage(message) => (2, message),
            Failure::Machine(message) => (3, message),
            Failure::Interrupted(message) => (130, message),
        };
        // Nobody can be told that nobody can be told.
        let _ = writeln!(stderr(), "fairlane: {message}");
        ExitCode::from(code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Read { .. } | Error::Experiment { .. } | Error::Journal { .. } | Error::Busy(_) => {
                Failure::Usage(error.to_string())
            }
            Error::Write { .. } | Error::Start { .. } | Error::Preflight { .. } => Failure::Machine(error.to_string()),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        match error {
            LoadError::Plan(_)
            | LoadError::File { .. }
            | LoadError::Certificates { .. }
            | LoadError::Key { .. }
            | LoadError::Source { .. }
            | LoadError::Descriptors { .. } => Failure::Usage(error.to_string()),
            LoadError::Resolve { .. }
            | LoadError::NoRoots(_)
            | LoadError::TlsSetup(_)
            | LoadError::Connect { .. }
            | LoadError::WrongProtocol { .. }
            | LoadError::Machine(_) => Failure::Machine(error.to_string()),
        }
    }
}
