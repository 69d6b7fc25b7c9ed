//! `fairlane load`: from the command line to a plan, and from a summary to everything that is printed and written.
//!
//! ```text
//!  requests ─┐                        ┌─> live view
//!  pace ─────┼─> Plan ─> load::run() ─┤
//!  connection┘                        └─> LoadSummary ─> text or JSON, files ─> thresholds ─> exit code
//! ```

mod connection;
mod files;
mod hdr_log;
mod junit;
mod k6;
mod live;
mod pace;
pub mod request_files;
mod requests;
mod thresholds;

use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use load::Plan;
use measure::LoadSummary;

use self::connection::{ConnectionArgs, TlsArgs, TransportArgs};
use self::files::Files;
use self::live::Live;
use self::pace::PaceArgs;
use self::requests::RequestArgs;
use self::thresholds::{Threshold, Verdict};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{print, say, style};

/// Generate HTTP load and measure it.
///
/// A closed loop unless told otherwise: as soon as a response is complete, the next request goes out on the same
/// connection. The protocol is never negotiated away: the server speaks the one that was asked for, or the command fails.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    requests: RequestArgs,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    transport: TransportArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is printed and written.
#[derive(clap::Args)]
#[command(next_help_heading = "Results")]
struct OutputArgs {
    /// Fail (exit code 1) unless this holds, for example 'p99<200ms' or 'errors<1%'
    ///
    /// Metrics: p50 to p99.99 (or p(95), as in k6), min, mean, max; first_byte_ and connect_ before one of these; errors
    /// and dropped, as a number or with %; rate, in requests per second. Operators: < <= > >=. Latencies of an open loop
    /// are those since a request was due. With a threshold on errors, failed requests alone are no failure.
    #[arg(long = "threshold", value_name = "METRIC<LIMIT")]
    thresholds: Vec<Threshold>,
    /// Print the summary as JSON instead of text
    #[arg(long)]
    json: bool,
    /// Write a line of CSV per request
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the latencies of each second as an HdrHistogram log, in microseconds
    #[arg(long, value_name = "FILE")]
    hdr_log: Option<PathBuf>,
    /// Write the summary as k6's --summary-export does
    #[arg(long, value_name = "FILE")]
    summary_export: Option<PathBuf>,
    /// Write the thresholds and whether requests failed as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Do not show how it goes while it runs
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples, with fairlane serve --port 8443 --tls-dir tls at the other end:
  fairlane load https://localhost:8443/api/test --insecure                  a request over HTTP/2
  fairlane load https://localhost:8443/bytes/1000 --cacert tls/ca.pem --protocol h3 -n 1000 -m 10
  fairlane load http://localhost:8443/api/test -D 10s --warm-up-time 1s -c 4 -t 2
  fairlane load http://localhost:8443/api/test --rate 500 -D 10s --threshold 'p99<50ms'   an open loop
  fairlane load http://localhost:8443/api/test --rate 0 --stages 10s:500,30s:500,5s:0
  fairlane load http://localhost:8443/api/test --vus 20 --think 100ms -D 10s
  fairlane load http://localhost:8443/api/test --workers 50 --max-connections 6 -n 1000
  fairlane load http://localhost:8443/api/test http://localhost:8443/bytes/10 --weights 3,1 -n 100
  fairlane load http://localhost:8443/echo -d @body.json -H 'content-type: application/json'
  fairlane load https://localhost:8443/page/30/10000 --insecure --page      as a browser loads it
  fairlane load https://localhost:8443/api/test --insecure -n 1000 --json   for scripts

Exit codes: 0 done, 1 requests failed or a threshold was missed, 2 bad usage, 3 nothing could be measured or a file \
could not be written, 130 stopped by Ctrl-C (what was measured is printed and written).";

/// Runs `fairlane load`.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = plan(&args)?;
    plan.check()?;
    let output = &args.output;
    let mut files = Files::create(output)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::watch(&stop)?;
    let mut live = if output.quiet { Live::hidden() } else { Live::new(&plan, stderr().is_terminal()) };
    let result = load::run(&plan, &mut |progress| {
        live.show(progress);
        if let Some((interval, latencies)) = progress.second {
            files.add_second(interval, latencies);
        }
        !stop.load(Ordering::Relaxed)
    });
    live.finish();
    let stopped = stop.load(Ordering::Relaxed);
    let summary = match result {
        Ok(summary) => summary,
        Err(error) if stopped => return Err(Failure::Interrupted(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let verdict = Verdict::new(&output.thresholds, &summary);
    let printed = show(output, &summary, &verdict);
    let mut faults = summary.faults.clone();
    faults.extend(files.finish(&summary, &verdict));
    printed?;
    let faults = faults.join("; ");
    if stopped {
        let more = if faults.is_empty() { faults } else { format!("; {faults}") };
        return Err(Failure::Interrupted(format!("stopped before the end; the figures are those until then{more}")));
    }
    if !faults.is_empty() {
        return Err(Failure::Machine(faults));
    }
    verdict.failure().map_or(Ok(ExitCode::SUCCESS), |reason| Err(Failure::No(reason)))
}

fn plan(args: &Args) -> Result<Plan, Failure> {
    let requests = args.requests.read()?;
    let target = args.connection.target(&requests.url)?;
    let protocol = args.connection.protocol.unwrap_or_else(|| Plan::default_protocol(&target));
    let pace = args.pace.decide().map_err(Failure::Usage)?;
    let mut plan = Plan::new(target, protocol, pace.model, pace.amount);
    plan.requests = requests.planned;
    plan.expect = args.requests.expectation();
    plan.warm_up = pace.warm_up;
    plan.clients = pace.clients;
    args.connection.apply(&mut plan, pace.connections);
    plan.tls = args.tls.plan();
    plan.transport = args.transport.plan(&args.connection);
    plan.request_log = args.output.csv.clone();
    Ok(plan)
}

/// Prints the summary, and beside it how the thresholds fared.
fn show(output: &OutputArgs, summary: &LoadSummary, verdict: &Verdict<'_>) -> Result<(), Failure> {
    if output.json {
        let text = serde_json::to_string(summary).map_err(|error| Failure::Machine(error.to_string()))?;
        say(&verdict.lines(false));
        return print(&(text + "\n"));
    }
    let thresholds = verdict.lines(style().colour);
    let gap = if thresholds.is_empty() { "" } else { "\n" };
    print(&format!("{}{gap}{thresholds}", load::render(summary)))
}
