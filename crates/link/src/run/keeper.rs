use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use measure::{Histogram, Lateness, LinkSummary};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::listening::PortWatch;
use super::processes::{Ended, Processes};
use super::{Outcome, Run};
use crate::LabError;
use crate::forwarder::{Forwarded, Forwarder};
use crate::lab::Lab;
use crate::model::{Direction, Link};

/// How long an origin may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long an origin may take to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// How often the socket tables are read while an origin starts.
const START_STEP: Duration = Duration::from_millis(2);
/// The link is too late for its delays to be believed.
const LATENESS_LIMIT_US: u64 = 1000;

/// The keeper's life; returns its exit code.
pub fn main(run: &Run, began: Instant, report: OwnedFd, sender: OwnedFd) -> i32 {
    drop(report);
    if die_with_reader(&sender).is_err() {
        return 1;
    }
    let result = hold(run, began);
    match serde_json::to_writer(File::from(sender), &result) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Has the kernel kill this process when its parent ends; an error if that has happened already.
fn die_with_reader(sender: &OwnedFd) -> nix::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent is outside of this process namespace and so has no id here; but it alone can read the report.
    let mut events = [PollFd::new(sender.as_fd(), PollFlags::empty())];
    poll(&mut events, PollTimeout::ZERO)?;
    if events[0].any().unwrap_or(false) { Err(Errno::EPIPE) } else { Ok(()) }
}

fn hold(run: &Run, began: Instant) -> Result<Outcome, LabError> {
    let lab = Lab::build(&run.transport)?;
    let transport = lab.transport()?;
    let mut processes = Processes::new()?;
    let forwarder = Forwarder::start(Link::new(&run.profile, run.seed), lab.open_socket()?)?;
    let setup = began.elapsed();
    let running = Instant::now();

    let origin = match &run.origin {
        Some(words) => {
            lab.enter_origin()?;
            Some((words, start_origin(&mut processes, words, run.port)?))
        }
        None => None,
    };
    lab.enter_client()?;
    let client = run_client(&mut processes, &run.client)?;
    let mut invalid = Vec::new();
    let origin = match origin {
        Some((words, origin)) => {
            if let Some(ended) = processes.ended(origin) {
                invalid.push(format!("the origin ended before the client, with exit code {}", ended.exit_code));
            }
            Some(stop_origin(&mut processes, origin)?.usage(words))
        }
        None => None,
    };
    let duration = running.elapsed();

    let Forwarded { tap, lateness, lost, cpu } = forwarder.stop()?;
    let lateness = quantiles(&lateness);
    let unmodelled_drops = lost + lab.dropped()?;
    invalid.extend(faults(lateness, unmodelled_drops, cpu.total_us(), duration));
    let summary = LinkSummary {
        schema: LinkSummary::SCHEMA,
        link: run.profile.name.clone(),
        up: tap.direction(Direction::Up, &run.profile.up),
        down: tap.direction(Direction::Down, &run.profile.down),
        seed: run.seed,
        congestion_control: transport.congestion_control,
        initial_window_packets: transport.initial_window,
        lateness,
        forwarder_cpu: cpu,
        duration_us: duration.as_micros() as u64,
        setup_us: setup.as_micros() as u64,
        unmodelled_drops,
        invalid,
        tap: tap.summary(),
        client: client.usage(&run.client),
        origin,
    };
    Ok(Outcome { summary, warnings: lab.warning.into_iter().collect() })
}

/// Starts the origin and waits until it listens.
///
/// It has a process group of its own, so that Ctrl-C ends the client first, and its stdout goes to our stderr, because
/// stdout is the client's.
fn start_origin(processes: &mut Processes, words: &[String], port: u16) -> Result<Pid, LabError> {
    let failed = |error| LabError::setup("preparing the origin's stdout", error);
    let stderr = io::stderr().as_fd().try_clone_to_owned().map_err(failed)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::from(stderr)).process_group(0);
    let origin = processes.start(&mut command)?;
    let began = Instant::now();
    let mut watch = PortWatch::new(port);
    while !watch.is_listening() {
        if let Some(ended) = processes.ended(origin) {
            return Err(LabError::OriginEnded { exit_code: ended.exit_code, port });
        }
        if began.elapsed() > START_LIMIT {
            return Err(LabError::OriginSilent { port, seconds: START_LIMIT.as_secs() });
        }
        if let Some(signal) = processes.wait(Some(START_STEP))?.first() {
            return Err(LabError::Interrupted { signal: signal.kind as i32 });
        }
    }
    Ok(origin)
}

/// Runs the client to its end and passes on the signals that it would otherwise miss.
fn run_client(processes: &mut Processes, words: &[String]) -> Result<Ended, LabError> {
    let client = processes.start(Command::new(&words[0]).args(&words[1..]))?;
    loop {
        if let Some(ended) = processes.ended(client) {
            return Ok(ended);
        }
        for signal in processes.wait(None)? {
            if signal.from_process {
                // It may just have ended.
                let _ = kill(client, signal.kind);
            }
        }
    }
}

/// Ends the origin: politely, and after a while, or when a signal arrives, at once.
fn stop_origin(processes: &mut Processes, origin: Pid) -> Result<Ended, LabError> {
    // Sending fails when it has ended already, which is what is wanted.
    let _ = killpg(origin, Signal::SIGTERM);
    let began = Instant::now();
    let mut killed = false;
    loop {
        if let Some(ended) = processes.ended(origin) {
            return Ok(ended);
        }
        let left = STOP_LIMIT.saturating_sub(began.elapsed());
        let signals = processes.wait((!killed).then_some(left))?;
        if !killed && (!signals.is_empty() || began.elapsed() >= STOP_LIMIT) {
            let _ = killpg(origin, Signal::SIGKILL);
            killed = true;
        }
    }
}

fn quantiles(lateness: &Histogram) -> Lateness {
    let at = |quantile| lateness.quantile_us(quantile).unwrap_or(0);
    Lateness { p50_us: at(0.50), p99_us: at(0.99), max_us: at(1.0) }
}

/// Why the link's own work spoils the run; empty when it does not.
fn faults(lateness: Lateness, unmodelled_drops: u64, cpu_us: u64, duration: Duration) -> Vec<String> {
    let share = cpu_us * 100 / (duration.as_micros() as u64).max(1);
    let mut faults = Vec::new();
    if lateness.p99_us > LATENESS_LIMIT_US {
        faults.push(format!(
            "the link was late: 1 % of the packets left more than {} us after their time",
            lateness.p99_us
        ));
    }
    if unmodelled_drops > 0 {
        faults.push(format!("packets lost that the link should have delivered: {unmodelled_drops}"));
    }
    if share >= 70 {
        faults.push(format!("the link itself was the bottleneck: its forwarder used {share} % of a processor"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_lossy_or_busy_link_spoils_the_run() {
        let second = Duration::from_secs(1);
        let late = |p99_us| Lateness { p50_us: 30, p99_us, max_us: 90_000 };
        assert_eq!(faults(late(1000), 0, 699_999, second), Vec::<String>::new());
        assert!(faults(late(1001), 0, 0, second)[0].contains("late"));
        assert!(faults(late(80), 1, 0, second)[0].contains("delivered: 1"));
        assert!(faults(late(80), 0, 700_000, second)[0].contains("70 % of a processor"));
        assert_eq!(faults(Lateness::default(), 0, 0, Duration::ZERO), Vec::<String>::new());
    }
}
