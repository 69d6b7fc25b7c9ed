use std::process::ExitCode;

use crate::failure::Failure;

/// Generate HTTP load and measure it.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `fairlane load`.
pub fn run(_args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::Usage("load".to_owned()))
}
