use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use ::link::profile::Profile;
use ::link::{LabError, ORIGIN, Outcome, Run, Transport};
use measure::units::{format_duration, format_size};
use measure::{ChildUsage, DirectionSummary, LinkSummary};

use crate::failure::Failure;
use crate::output::say;

/// Run a program behind an emulated link, without root.
///
/// The program runs in a network of its own with nothing at the other end but the origin, whose host name is `origin`
/// (`origin6` for IPv6). The exit code is the program's.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// The link: a profile such as slow-4g, parameters such as 'rate=10mbit delay=50ms', or both
    profile: String,
    /// Seed of the losses; the same seed loses the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Start this server at the other end first, and stop it afterwards
    #[arg(long, value_name = "CMD")]
    origin: Option<String>,
    /// Wait until the origin listens on this port, TCP or UDP
    #[arg(long, value_name = "N", default_value_t = 8443)]
    port: u16,
    /// TCP congestion control at both ends
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion_control: String,
    /// TCP initial congestion window at both ends, in packets
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    initial_window: u32,
    /// Say what the link did as JSON, on one line
    #[arg(long)]
    json: bool,
    /// Say what the link did in this file instead of on stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_names = ["CMD", "ARGS"])]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  fairlane link slow-4g --origin 'fairlane serve --port 8443' -- curl -k https://origin:8443/bytes/9
  fairlane link 'fast-4g loss=2%' --seed 7 --origin 'fairlane serve --port 8443' -- \\
    fairlane load https://origin:8443/page/30/10000 --insecure --protocol h3 --page
  fairlane link 'rate=10mbit/2mbit delay=25ms' --origin 'nginx -c my.conf' -- \\
    h2load https://origin:8443/
  fairlane link dsl --json -o link.json --origin 'fairlane serve --port 8443' -- \\
    nghttp -ans https://origin:8443/page/30/10000
  fairlane link rtt=300ms --origin 'fairlane serve --port 8443' -- sh      a shell on the link";

const PARAMETERS: &str = "Parameters of a link; DOWN/UP sets the directions apart, one value holds for both:
  rate=10mbit or rate=1.6mbit/750kbit   bit/s of IP packets, or unlimited [default: unlimited]
  delay=25ms or delay=10ms/40ms         one way [default: 0]
  rtt=50ms                              both ways together, halved; instead of delay
  queue=64kB or queue=1MB/64kB          bytes that may wait [default: rate x RTT, at least 64kB]
  loss=2% or loss=0/2%                  share of packets lost at random [default: 0]";

/// What is written after the options: the profiles are those that the link knows.
fn after_help() -> String {
    let mut text = format!("{PARAMETERS}\n\nProfiles, which parameters change:\n");
    for named in Profile::named() {
        let profile = Profile::parse(named.name).expect("a profile knows its own name");
        let _ = writeln!(text, "  {:<20}{}", named.name, profile.describe());
    }
    text + "\n" + EXAMPLES
}

/// Runs `fairlane link`.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let profile = Profile::parse(&args.profile).map_err(|error| Failure::Usage(error.to_string()))?;
    let description = profile.describe();
    let run = Run {
        profile,
        seed: args.seed,
        transport: Transport { congestion_control: args.congestion_control, initial_window: args.initial_window },
        origin: args.origin.as_deref().map(words).transpose()?,
        port: args.port,
        client: args.command,
    };
    let unwritable = |path: &Path, error| Failure::Usage(format!("cannot write {}: {error}", path.display()));
    if let Some(path) = &args.output {
        // Better known before the run than after it; what the file holds stays until there is something to write.
        let is_new = !path.exists();
        File::options().append(true).create(true).open(path).map_err(|error| unwritable(path, error))?;
        if is_new {
            fs::remove_file(path).map_err(|error| unwritable(path, error))?;
        }
    }

    let Outcome { summary, warnings } = match run.execute() {
        Ok(outcome) => outcome,
        Err(error) => return refuse(error, &run.client[0]),
    };
    for warning in warnings {
        say(&format!("fairlane: warning: {warning}\n"));
    }
    let text = if args.json {
        serde_json::to_string(&summary).expect("a summary has no map with keys other than strings")
    } else {
        describe(&summary, &description)
    };
    match &args.output {
        Some(path) => fs::write(path, text + "\n").map_err(|error| unwritable(path, error))?,
        None => say(&(text + "\n")),
    }
    Ok(ExitCode::from(summary.client.exit_code as u8))
}

fn words(command: &str) -> Result<Vec<String>, Failure> {
    let words = shlex::split(command).unwrap_or_default();
    if words.is_empty() {
        return Err(Failure::Usage(format!(
            "--origin '{command}' is not a command: expected a program and its arguments, with every quote closed"
        )));
    }
    Ok(words)
}

/// The exit codes are a shell's where the client is to blame, and fairlane's elsewhere.
fn refuse(error: LabError, client: &str) -> Result<ExitCode, Failure> {
    let code = match &error {
        LabError::NotFound { program } if program == client => 127,
        LabError::NotExecutable { program, .. } if program == client => 126,
        LabError::Interrupted { signal } => 128 + *signal as u8,
        _ => return Err(Failure::Machine(error.to_string())),
    };
    say(&format!("fairlane: {error}\n"));
    Ok(ExitCode::from(code))
}

/// What a link did, for people.
fn describe(summary: &LinkSummary, profile: &str) -> String {
    let LinkSummary { link, seed, congestion_control, initial_window_packets, lateness, tap, .. } = summary;
    let mut text = format!(
        "link {link}: {profile}; seed {seed}; TCP {congestion_control}, initial window {initial_window_packets} packets\n"
    );
    if summary.up.packets + summary.down.packets == 0 {
        text += &format!("  no packet crossed the link; programs reach the origin as '{}'\n", ORIGIN.name);
    } else {
        text += &direction("up", &summary.up);
        text += &direction("down", &summary.down);
        let _ = writeln!(
            text,
            "  wire    TCP connections {} (completed {}), QUIC connections {}, TLS ClientHellos {}, TCP retransmissions {}",
            tap.tcp_opened, tap.tcp_completed, tap.quic_opened, tap.client_hellos, tap.tcp_retransmissions
        );
    }
    let _ = writeln!(
        text,
        "  link    late by {} us (p50), {} us (p99), {} us (max); CPU {}; built in {}, ran {}",
        lateness.p50_us,
        lateness.p99_us,
        lateness.max_us,
        duration(summary.forwarder_cpu.total_us()),
        duration(summary.setup_us),
        duration(summary.duration_us)
    );
    text += &program("client", &summary.client);
    if let Some(origin) = &summary.origin {
        text += &program("origin", origin);
    }
    for reason in &summary.invalid {
        let _ = writeln!(text, "  INVALID {reason}");
    }
    text.truncate(text.trim_end().len());
    text
}

fn direction(name: &str, direction: &DirectionSummary) -> String {
    let drops: Vec<String> = direction.drops.iter().map(|(reason, count)| format!("{count} by {reason}")).collect();
    let size = format_size(direction.bytes);
    format!("  {name:<6}  packets {}, {size}, dropped {}\n", direction.packets, drops.join(", "))
}

fn program(name: &str, program: &ChildUsage) -> String {
    let (user, system) = (duration(program.cpu.user_us), duration(program.cpu.system_us));
    format!("  {name}  exit code {}, CPU {user} user, {system} system\n", program.exit_code)
}

fn duration(us: u64) -> String {
    if us == 0 { "0 us".to_owned() } else { format_duration(Duration::from_micros(us)) }
}
