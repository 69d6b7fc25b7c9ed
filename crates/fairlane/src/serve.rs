use std::process::ExitCode;

use crate::failure::Failure;

/// Serve the origin over every protocol on one port.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `fairlane serve`.
pub fn run(_args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::Usage("serve".to_owned()))
}
