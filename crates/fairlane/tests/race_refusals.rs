//! What `fairlane race` says and leaves behind when it cannot do what was asked.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const FAIRLANE: &str = env!("CARGO_BIN_EXE_fairlane");

/// A race in an empty folder that must fail: its exit code and what it says. Nothing may be left in the folder.
fn refused(arguments: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(FAIRLANE).arg("race").args(arguments).current_dir(folder.path()).output().unwrap();
    let left: Vec<_> = walk(folder.path()).collect();
    assert!(left.is_empty(), "{left:?} is left behind by {arguments:?}");
    said(output)
}

fn said(output: Output) -> (i32, String) {
    (output.status.code().expect("it ended by itself"), String::from_utf8(output.stderr).unwrap())
}

/// Every file below a folder.
fn walk(folder: &Path) -> Box<dyn Iterator<Item = std::path::PathBuf>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    Box::new(entries.flat_map(|path| if path.is_dir() { walk(&path) } else { Box::new(std::iter::once(path)) }))
}

#[test]
fn bad_input_is_named_and_nothing_is_written() {
    for (arguments, named) in [
        (&["--link", "slow-5g"][..], "unknown link profile 'slow-5g'"),
        (&["--link", "slow-4g loss=200%"], "'loss'"),
        (&["--loss", "some"], "--loss 'some'"),
        (&["--protocols", "h1,http2"], "'http2'"),
        (&["--protocols", "h2"], "at least two"),
        (&["--rounds", "0"], "--rounds"),
        (&["--url", "http://localhost:1/"], "h1, which needs https://"),
        (&["--cacert", "missing.pem"], "missing.pem"),
        (&["missing.toml"], "missing.toml"),
        (&["--resume", "nowhere"], "nowhere"),
    ] {
        let (code, message) = refused(arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(message.contains(named), "{arguments:?}: {message}");
    }
}

#[test]
fn a_bad_experiment_key_is_named_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let text = include_str!("../../../experiments/page.toml").replace("seed = 7", "seed = 7\nsead = 8");
    fs::write(&file, &text).unwrap();
    let (code, message) = refused(&[file.to_str().unwrap()]);
    assert_eq!(code, 2);
    let line = 1 + text.lines().position(|line| line == "sead = 8").unwrap();
    assert!(message.contains("mine.toml") && message.contains(&format!("line {line}")), "{message}");
    assert!(message.contains("`sead`"), "{message}");
}

#[test]
fn an_origin_that_lacks_a_protocol_is_found_out_before_the_race() {
    let origin = format!("{FAIRLANE} serve --port 8443 --protocols h1,h2");
    let (code, message) = refused(&["--origin", &origin, "--insecure", "--link", "online", "--rounds", "1"]);
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("does not answer over h3"), "{message}");
    assert!(message.contains("--protocols h1,h2"), "it says what to do: {message}");
}

#[test]
fn an_origin_that_does_not_start_is_named() {
    let (code, message) = refused(&["--origin", "false", "--link", "online", "--rounds", "1"]);
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("8443"), "{message}");
}

#[test]
fn where_user_namespaces_are_forbidden_the_setting_is_named_and_a_way_out_offered() {
    // A user namespace of its own may forbid further ones to itself; without capabilities none is left to try.
    let forbid = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all {FAIRLANE} race"
    );
    let output = Command::new("unshare").args(["--user", "--map-root-user", "sh", "-c", &forbid]).output().unwrap();
    let (code, message) = said(output);
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("user.max_user_namespaces"), "{message}");
    assert!(message.contains("--no-link"), "{message}");
}

#[test]
fn a_full_disk_ends_the_race_with_a_message_and_keeps_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let run = disk.join("run");
    // The disk fills up after a few trials; what it held is copied out before the mount goes.
    let script = format!(
        "mount -t tmpfs -o size=112k tmpfs {disk} && \
         {{ {FAIRLANE} race --link online --protocols h1,h2 --rounds 40 --jobs 1 --out {run}; code=$?; \
            cp {run}/trials.jsonl {copy}; exit $code; }}",
        disk = disk.display(),
        run = run.display(),
        copy = folder.path().join("trials.jsonl").display(),
    );
    let output = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).output();
    let (code, message) = said(output.unwrap());
    assert_eq!(code, 3, "{message}");
    assert!(message.contains("No space left on device"), "{message}");
    let journal = fs::read_to_string(folder.path().join("trials.jsonl")).unwrap();
    assert!(journal.lines().count() >= 1, "something was measured before: {message}");
    for line in journal.lines() {
        serde_json::from_str::<measure::Trial>(line).expect("every line is whole");
    }
}

#[test]
fn ctrl_c_reports_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let child = Command::new(FAIRLANE)
        .args(["race", "--link", "rate=20mbit rtt=40ms", "--rounds", "50", "--json", "--out"])
        .arg(&run)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let valid = || {
        let text = fs::read_to_string(run.join("trials.jsonl")).unwrap_or_default();
        // The line being written may still be incomplete.
        let trials = text.lines().filter_map(|line| serde_json::from_str::<measure::Trial>(line).ok());
        trials.filter(measure::Trial::is_valid).count()
    };
    while valid() < 3 {
        assert!(Instant::now() < deadline, "three valid trials within a minute");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let trials = |condition: &serde_json::Value| condition["trials"].as_u64().unwrap();
    assert!(summary["conditions"].as_array().unwrap().iter().map(trials).sum::<u64>() >= 3, "{summary}");
    assert_eq!(summary["finished"], false);
    let (code, message) = said(output);
    assert_eq!(code, 130);
    assert!(message.contains("--resume"), "{message}");
}

#[test]
fn progress_that_nobody_can_read_does_not_end_a_race() {
    let folder = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(FAIRLANE)
        .args(["race", "--link", "online", "--protocols", "h1,h2", "--rounds", "1", "--json"])
        .current_dir(folder.path())
        .stderr(full)
        .output()
        .unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["conditions"].as_array().unwrap().len(), 2);
}

#[test]
fn a_run_whose_experiment_was_changed_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let race = |arguments: &[&str]| Command::new(FAIRLANE).arg("race").args(arguments).arg(&run).output().unwrap();
    race(&["--link", "online", "--protocols", "h1,h2", "--rounds", "1", "--out"]);
    let experiment = fs::read_to_string(run.join("experiment.toml")).unwrap();
    let journal = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    fs::write(run.join("experiment.toml"), experiment.replace(r#"["h1", "h2"]"#, r#"["h2", "h1"]"#)).unwrap();
    let (code, message) = said(race(&["--resume"]));
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("experiment.toml was changed"), "{message}");
    assert_eq!(fs::read_to_string(run.join("trials.jsonl")).unwrap(), journal, "the record is as it was");
}
