//! `fairlane race` as a user runs it: what it prints, what it leaves behind, and what holds from first principles.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use measure::{Protocol, Trial};
use serde_json::Value;

fn fairlane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fairlane"))
}

/// A race into a fresh run directory, two trials at once; panics with what it said when it fails.
fn race(folder: &Path, arguments: &[&str]) -> (Value, Vec<Trial>) {
    let out = folder.join("run");
    let mut command = fairlane();
    let output =
        command.arg("race").args(arguments).args(["--jobs", "2", "--json", "--out"]).arg(&out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kept: Value = serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(printed, kept);
    (printed, journal(&out))
}

fn journal(run: &Path) -> Vec<Trial> {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn of(trials: &[Trial], protocol: Protocol) -> Vec<&Trial> {
    let found: Vec<&Trial> = trials.iter().filter(|trial| trial.protocol == protocol && trial.is_valid()).collect();
    assert!(!found.is_empty(), "no valid trial of {protocol}");
    found
}

#[test]
fn a_race_counts_alike_at_client_wire_and_origin_and_obeys_first_principles() {
    let _alone = testbed::alone();
    let folder = tempfile::tempdir().unwrap();
    let (summary, trials) = race(folder.path(), &["--link", "rate=100mbit rtt=100ms", "--rounds", "4"]);

    for (protocol, connections, round_trips) in [(Protocol::H1, 6, 3.0), (Protocol::H2, 1, 3.0), (Protocol::H3, 1, 2.0)]
    {
        let trials = of(&trials, protocol);
        for trial in &trials {
            let (load, origin) = (trial.load.as_ref().unwrap(), trial.origin.as_ref().unwrap());
            let tap = &trial.link_summary.as_ref().unwrap().tap;
            assert_eq!(load.connections.opened, connections, "client, {protocol}");
            assert_eq!(tap.connections(), connections, "tap, {protocol}");
            assert_eq!(tap.handshakes(), connections, "tap, {protocol}");
            assert_eq!(origin.protocols[&protocol].connections, connections, "origin, {protocol}");
            assert_eq!(origin.protocols[&protocol].requests, 31);
            assert_eq!(load.pages[0].objects, 30);
        }
        let first_byte =
            median(trials.iter().map(|trial| trial.load.as_ref().unwrap().pages[0].first_byte_us as f64).collect());
        let expected = round_trips * 100_000.0;
        assert!(
            (first_byte / expected - 1.0).abs() < 0.05,
            "{protocol}: first byte after {first_byte} us, not {expected}"
        );
    }
    let bodies: Vec<u64> = trials.iter().map(|trial| trial.load.as_ref().unwrap().pages[0].data_bytes).collect();
    assert!(bodies.iter().all(|bytes| *bytes == bodies[0]), "equal bytes over every protocol: {bodies:?}");

    let comparison = &summary["comparisons"][1];
    assert_eq!((&comparison["protocol"], &comparison["baseline"]), (&Value::from("h3"), &Value::from("h1")));
    // A busy machine may spoil a round.
    assert!(comparison["rounds"].as_u64().unwrap() >= 3, "{summary}");
    assert!(comparison["low"].as_f64().unwrap() <= comparison["ratio"].as_f64().unwrap());
    assert_eq!(comparison["answer"], "faster", "one round trip less on an uncongested link: {comparison}");
    assert_eq!(summary["conditions"].as_array().unwrap().len(), 3);

    let run = folder.path().join("run");
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains("<svg"), "the report draws the trials");
    assert_eq!(fs::read_to_string(run.join("trials.csv")).unwrap().lines().count(), 1 + trials.len());
    assert!(fs::read_to_string(run.join("experiment.toml")).unwrap().contains("rtt=100ms"));
}

#[test]
fn any_trial_can_be_repeated_by_its_recorded_command_line() {
    let _alone = testbed::alone();
    let folder = tempfile::tempdir().unwrap();
    let (_, trials) =
        race(folder.path(), &["--link", "rate=20mbit rtt=20ms loss=3%", "--protocols", "h1,h2", "--rounds", "1"]);
    let trial = of(&trials, Protocol::H2)[0];
    let output = Command::new(&trial.command[0]).args(&trial.command[1..]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let repeated: measure::LoadSummary = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(repeated.pages[0].data_bytes, trial.load.as_ref().unwrap().pages[0].data_bytes);
}

#[test]
fn a_protocol_against_itself_is_no_different() {
    let _alone = testbed::alone();
    let folder = tempfile::tempdir().unwrap();
    let (summary, _) = race(folder.path(), &["--link", "fast-4g", "--protocols", "h2,h2", "--rounds", "5"]);
    assert_eq!(summary["comparisons"].as_array().unwrap().len(), 1);
    assert_eq!(summary["comparisons"][0]["answer"], "no difference", "{summary}");
}

#[test]
fn a_killed_race_is_resumed_without_repeating_a_trial() {
    let _alone = testbed::alone();
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut child = fairlane()
        .args(["race", "--link", "rate=20mbit rtt=40ms", "--rounds", "4", "--jobs", "2", "--out"])
        .arg(&run)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("three trials are in the journal", || journal_lines(&run) >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no lab is left", || processes_with(&run) == 0);
    let before = journal_lines(&run);
    assert!(before < 12, "killed in the middle");

    let output = fairlane().args(["race", "--json", "--resume"]).arg(&run).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let trials = journal(&run);
    assert!(trials.len() > before, "it went on");
    for round in 1..=4 {
        for entrant in 0..3 {
            let tries: Vec<&Trial> = trials.iter().filter(|t| t.round == round && t.entrant == entrant).collect();
            let attempts: Vec<u32> = tries.iter().map(|trial| trial.attempt).collect();
            assert_eq!(attempts, (1..=tries.len() as u32).collect::<Vec<_>>(), "no trial was run twice");
            let (last, others) = tries.split_last().expect("every condition was tried in every round");
            assert!(others.iter().all(|trial| !trial.is_valid()), "what is valid is not repeated");
            assert!(last.is_valid() || attempts.len() == 5, "what is invalid is, boundedly");
        }
    }
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["finished"], true);
}

fn journal_lines(run: &Path) -> usize {
    fs::read_to_string(run.join("trials.jsonl")).map_or(0, |text| text.lines().count())
}

/// Processes whose command line names this run directory.
fn processes_with(run: &Path) -> usize {
    let needle = run.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&needle)).count()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "waited a minute until {what}");
        std::thread::yield_now();
    }
}
