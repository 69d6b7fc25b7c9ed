use std::process::ExitCode;

use crate::failure::Failure;

/// Race protocols over emulated links and give a verdict.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `fairlane race`.
pub fn run(_args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::Usage("race".to_owned()))
}
