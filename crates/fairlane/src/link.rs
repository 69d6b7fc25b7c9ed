use std::process::ExitCode;

use crate::failure::Failure;

/// Run a program behind an emulated link, without root.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `fairlane link`.
pub fn run(_args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::Usage("link".to_owned()))
}
