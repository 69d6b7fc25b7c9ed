//! The `fairlane` binary: one file per subcommand. It parses, calls the crates that do the work, prints, and exits.

mod failure;
mod get;
mod interrupt;
mod link;
mod live;
mod load;
mod output;
mod race;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Race HTTP/1.1, HTTP/2 and HTTP/3 on the same application, the same TLS and the same network.
#[derive(Parser)]
#[command(name = "fairlane", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 the answer is no, 2 bad usage or input, 3 this machine cannot do it, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Race(race::Args),
    Load(Box<load::Args>),
    Get(get::Args),
    Serve(serve::Args),
    Link(link::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Race(args) => race::run(args),
        Command::Load(args) => load::run(*args),
        Command::Get(args) => get::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Link(args) => link::run(args),
    };
    result.unwrap_or_else(Failure::report)
}
