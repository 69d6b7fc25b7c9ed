use std::process::ExitCode;

/// Why a command did not do what was asked, with the exit code that scripts rely on.
#[derive(Debug)]
pub enum Failure {
    /// The command ran and the answer is no: operations lost, an invalid run (exit code 1).
    No(String),
    /// Bad usage or input (exit code 2).
    Usage(String),
    /// This machine cannot do it (exit code 3).
    Machine(String),
}

impl Failure {
    /// Prints the message to stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (code, message) = match self {
            Failure::No(message) => (1, message),
            Failure::Usage(message) => (2, message),
            Failure::Machine(message) => (3, message),
        };
        eprintln!("fairlane: {message}");
        ExitCode::from(code)
    }
}
