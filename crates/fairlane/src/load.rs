use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::value_parser;
use load::{Amount, LoadError, Plan, Progress, Target, Verification};
use measure::units::{format_duration, parse_duration};
use measure::{CongestionControl, LoadSummary, Protocol};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{print, say};

/// Generate HTTP load and measure it.
///
/// A closed loop: as soon as a response is complete, the next request goes out on the same connection. The protocol is
/// never negotiated away: the server speaks the one that was asked for, or the command fails.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where requests go: http://… or https://…
    url: String,
    /// Requests over all connections; with --page, page loads [default: 1]
    #[arg(short = 'n', long = "requests", value_name = "N", conflicts_with = "duration")]
    requests: Option<u64>,
    /// Make as many requests as fit in this time, for example 10s
    #[arg(short = 'D', long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "page")]
    duration: Option<Duration>,
    /// With -D: time before the measurement in which requests run already
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "duration")]
    warm_up_time: Option<Duration>,
    /// Connections at once; at most -n [default: 1; with --page 6 for h1c and h1]
    #[arg(short = 'c', long, value_name = "N")]
    connections: Option<u32>,
    /// Requests in flight on each connection [default: 1; with --page 100 for h2c, h2 and h3]
    #[arg(short = 'm', long, value_name = "N")]
    streams: Option<u32>,
    /// Threads, each with its own connections; at most -c
    #[arg(short = 't', long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Protocol: h1c, h1, h2c, h2 or h3 [default: h2 for https, h1c for http]
    #[arg(long, value_name = "NAME")]
    protocol: Option<Protocol>,
    /// Let -m requests be in flight on an HTTP/1.1 connection; no browser does that
    #[arg(long)]
    pipeline: bool,
    /// Add a header field; Host replaces the URL's authority
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_field)]
    headers: Vec<(String, String)>,
    /// Request method [default: GET, with a body POST]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Body of each request
    #[arg(short = 'd', long, value_name = "BODY", default_value = "", hide_default_value = true)]
    data: String,
    /// Trust the certificates of this PEM file instead of those of the machine
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(long)]
    insecure: bool,
    /// Longest time for a request and for making a connection
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
    /// Connect to this address instead of the URL's; server name and authority stay
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    /// Load the URL as a page, with the objects it embeds, -n times, each with fresh connections like a browser's
    #[arg(long)]
    page: bool,
    /// Congestion control of QUIC: cubic, bbr or reno; that of TCP is the kernel's
    #[arg(long, value_name = "NAME", default_value_t)]
    congestion_control: CongestionControl,
    /// Initial congestion window of QUIC in packets of 1448 bytes; that of TCP is the kernel's
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1000))]
    initial_window: u32,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples, with fairlane serve --port 8443 --tls-dir tls at the other end:
  fairlane load https://localhost:8443/api/test --insecure                  a request over HTTP/2
  fairlane load https://localhost:8443/bytes/1000 --cacert tls/ca.pem --protocol h3 -n 1000 -m 10
  fairlane load http://localhost:8443/api/test -D 10s --warm-up-time 1s -c 4 -t 2
  fairlane load https://localhost:8443/page/30/10000 --insecure --page      as a browser loads it
  fairlane load http://localhost:8443/echo -d 'a body' -H 'content-type: text/plain'
  fairlane load https://localhost:8443/api/test --insecure -n 1000 --json   for scripts

Exit codes: 0 done, 1 requests failed, 2 bad usage, 3 nothing could be measured, 130 stopped by Ctrl-C \
(what was measured is printed).";

/// Runs `fairlane load`.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = plan(&args)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::watch(&stop)?;
    let live = io::stderr().is_terminal();
    let result = load::run(&plan, &mut |progress| {
        if live {
            show(progress);
        }
        !stop.load(Ordering::Relaxed)
    });
    if live {
        say("\r\x1b[K");
    }
    let stopped = stop.load(Ordering::Relaxed);
    let summary = match result {
        Ok(summary) => summary,
        Err(error) if stopped => return Err(Failure::Interrupted(error.to_string())),
        Err(error) => return Err(failure(error)),
    };
    let text = if args.json {
        serde_json::to_string(&summary).map_err(|error| Failure::Machine(error.to_string()))? + "\n"
    } else {
        load::render(&summary)
    };
    print(&text)?;
    if stopped {
        return Err(Failure::Interrupted("stopped before the end; the figures are those until then".to_owned()));
    }
    match most_frequent_error(&summary) {
        Some(reason) => Err(Failure::No(reason)),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// On one line, why requests or page loads failed; `None` when none did. The summary has all the reasons.
fn most_frequent_error(summary: &LoadSummary) -> Option<String> {
    // Of equals the last wins, so the first in the order of the summary comes last here.
    let (reason, count) = summary.errors.iter().rev().max_by_key(|(_, count)| **count)?;
    let others = if summary.errors.len() > 1 { "; the summary has more reasons" } else { "" };
    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
    Some(format!("{reason}{times}{others}"))
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    let target = Target::parse(&args.url, args.connect_to.as_deref()).map_err(failure)?;
    let protocol = args.protocol.unwrap_or_else(|| Plan::default_protocol(&target));
    let requests = args.requests.unwrap_or(1);
    let amount = match args.duration {
        Some(length) => Amount::Duration { warm_up: args.warm_up_time.unwrap_or_default(), length },
        None if args.page => Amount::Pages(requests.try_into().unwrap_or(u32::MAX)),
        None => Amount::Requests(requests),
    };
    let mut plan = Plan::new(target, protocol, amount);
    plan.connections = args.connections.unwrap_or(plan.connections);
    plan.streams = args.streams.unwrap_or(plan.streams);
    plan.threads = args.threads;
    plan.pipeline = args.pipeline;
    plan.headers = args.headers.clone();
    plan.body = args.data.clone().into();
    let default_method = if args.data.is_empty() { "GET" } else { "POST" };
    plan.method = args.method.clone().unwrap_or_else(|| default_method.to_owned());
    plan.timeout = args.timeout;
    plan.verification = match &args.cacert {
        Some(file) => Verification::CaFile(file.clone()),
        None if args.insecure => Verification::Insecure,
        None => Verification::Roots,
    };
    plan.congestion_control = args.congestion_control;
    plan.initial_window_packets = args.initial_window;
    Ok(plan)
}

fn failure(error: LoadError) -> Failure {
    match error {
        LoadError::Plan(_) | LoadError::Certificates { .. } | LoadError::Descriptors { .. } => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::Machine(error.to_string()),
    }
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| format!("'{text}' is not of the form 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn show(progress: Progress) {
    let rate = progress.done as f64 / progress.elapsed.as_secs_f64().max(1e-3);
    let elapsed = format_duration(progress.elapsed);
    say(&format!("\r\x1b[K{elapsed}: {} done, {} failed, {rate:.0} req/s", progress.done, progress.failed));
}
