//! What is printed and written.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use measure::{LoadSummary, Protocol};
use roxmltree::Document;
use serde_json::Value;

use crate::support::{Origin, Service, Witness, failed, load, measured, signal, until};

#[test]
fn the_text_says_what_was_spoken_and_how_long_it_took_in_80_columns() {
    let origin = Origin::start();
    for protocol in Protocol::ALL {
        let mut arguments = vec!["-n", "50", "-c", "2", "-m", "5"];
        if !protocol.multiplexes() {
            arguments.push("--pipeline");
        }
        let output = origin.load(protocol, "/bytes/100", &arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 80, "{widest}");
        let agreed = match protocol {
            Protocol::H2 => "protocol: HTTP/2 (h2), ALPN h2\nTLS: TLSv1.3, TLS_",
            Protocol::H1c => "protocol: HTTP/1.1 in cleartext (h1c)\nload:",
            _ => "protocol: ",
        };
        let streams = if protocol.multiplexes() { "5 streams" } else { "5 pipelined" };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            agreed,
            &format!("load: closed loop, 2 connections x {streams} = 10 in flight"),
            "requests: 50 total, 50 started, 50 done, 50 succeeded, 0 failed, 0 errored, 0 timeout",
            "status codes: 50 2xx, 0 3xx, 0 4xx, 0 5xx",
            "space savings",
            "connections: 2 opened, 2 completed, 2 used, 2 reused",
            "time for min max mean sd +/- sd",
            "req/s each",
            "percentiles 50 % 90 % 95 % 99 % 99.9 % 99.99 %",
            "1st byte",
            "us per request",
            "bottleneck: ",
        ] {
            let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(&part), "'{part}' is missing in\n{text}");
        }
    }
}

#[test]
fn an_open_loop_shows_both_latencies_and_what_was_dropped() {
    let service = Service::start(Duration::from_millis(5));
    let output = load([&service.url()]).args(["--rate", "50", "-n", "20", "-c", "3"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["load: open loop, 3 connections x 1 request", "0 dropped", "\nrequest ", "\nsince due ", "\nqueue "] {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
}

#[test]
fn json_has_the_documented_keys() {
    let origin = Origin::start();
    let output = origin.load(Protocol::H2, "/bytes/10", &["--json", "-n", "20"]).output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (key, inner) in [
        ("protocol", ""),
        ("tls", "version cipher group alpn verification"),
        ("requests", "total started done succeeded failed errored timeout dropped retried"),
        ("status", "2xx 3xx 4xx 5xx"),
        ("traffic", "total_bytes header_bytes header_bytes_uncompressed data_bytes sent_bytes"),
        ("latency_us", "count min mean sd within_sd p50 p90 p95 p99 p999 p9999 max"),
        ("first_byte_us", "count min mean sd p50 p90 p99 p999 max hdr"),
        ("connect_us", "count min mean sd p50 p90 p99 p999 max hdr"),
        ("queue_us", "count hdr"),
        ("connections", "opened completed used reused handshakes resumed max_streams"),
        ("requests_per_second", ""),
        ("wall_s", ""),
        ("cpu", "user_s system_s us_per_request"),
        ("receive_windows", "stream_bytes connection_bytes"),
        ("bottleneck", ""),
        ("histogram", ""),
    ] {
        for inner in inner.split_whitespace() {
            assert!(summary[key].get(inner).is_some(), "{key}.{inner} is missing in {summary:#}");
        }
        assert!(!summary[key].is_null(), "{key} is missing in {summary:#}");
    }
}

#[test]
fn the_log_of_requests_has_a_line_for_each() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("requests.csv");
    let summary =
        measured(load([&witness.url("/a"), &witness.url("/b")]).args(["-n", "300", "-c", "3", "--csv"]).arg(&log));
    let mut reader = csv::Reader::from_path(&log).unwrap();
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    assert_eq!((rows.len() as u64, summary.requests.done), (300, 300));
    for path in ["/a", "/b"] {
        assert_eq!(rows.iter().filter(|row| row["path"] == path).count(), witness.count(path));
    }
    let most = rows.iter().map(|row| row["latency_us"].parse::<u64>().unwrap()).max().unwrap();
    let told = summary.latency.spread().unwrap().max;
    assert!(told.abs_diff(most) <= told / 500, "the longest took {most} us in the log and {told} us in the summary");
}

/// What the HdrHistogram library for Python reads from a log: values in each interval.
fn foreign_reading(log: &Path) -> Option<Vec<u64>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let python = workspace.join("target/venv/bin/python");
    let has_library =
        Command::new(&python).args(["-c", "import hdrh"]).output().is_ok_and(|output| output.status.success());
    if !has_library {
        testbed::skip("target/venv has no HdrHistogram library for Python (pip install hdrhistogram)");
        return None;
    }
    let script = "
import sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600000000, 3))
while True:
    interval = reader.get_next_interval_histogram()
    if interval is None: break
    print(interval.get_total_count())
";
    let output = Command::new(python).args(["-c", script]).arg(log).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect())
}

#[test]
fn the_hdr_log_is_read_by_a_foreign_reader() {
    let service = Service::start(Duration::from_millis(5));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("latency.hlog");
    let summary = measured(load([&service.url(), "-D", "2500ms", "--hdr-log"]).arg(&log));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
    assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), summary.intervals.len());
    if let Some(counts) = foreign_reading(&log) {
        assert_eq!(counts.len(), 3, "one for each second begun");
        assert_eq!(counts.iter().sum::<u64>(), summary.latency.count());
    }
}

#[test]
fn the_summary_is_exported_as_k6_writes_it() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("k6.json");
    let mut command = load([&witness.url("/"), "-n", "40", "-c", "4", "--summary-export"]);
    command.arg(&export).args([
        "--threshold",
        "p(95)<1h",
        "--threshold",
        "rate>1000000000",
        "--threshold",
        "errors<1%",
    ]);
    failed(command, 1);
    let export: Value = serde_json::from_slice(&fs::read(&export).unwrap()).unwrap();
    let metrics = &export["metrics"];
    for trend in
        ["http_req_duration", "http_req_waiting", "http_req_connecting", "http_req_blocked", "iteration_duration"]
    {
        for key in ["avg", "min", "med", "max", "p(90)", "p(95)"] {
            assert!(metrics[trend][key].is_number(), "{trend}.{key} is missing in {export:#}");
        }
    }
    for counter in ["http_reqs", "iterations", "data_received", "data_sent"] {
        assert!(metrics[counter]["count"].as_u64() > Some(0) && metrics[counter]["rate"].is_number(), "{counter}");
    }
    assert_eq!(metrics["http_reqs"]["count"], 40);
    assert_eq!((&metrics["checks"]["passes"], &metrics["checks"]["fails"]), (&40.into(), &0.into()));
    assert_eq!((&metrics["http_req_failed"]["value"], &metrics["vus"]["value"]), (&0.0.into(), &4.into()));
    // True says that it was missed.
    assert_eq!(metrics["http_req_duration"]["thresholds"]["p(95)<1h"], false);
    assert_eq!(metrics["http_reqs"]["thresholds"]["rate>1000000000"], true);
    assert_eq!(metrics["http_req_failed"]["thresholds"]["errors<1%"], false);
}

#[test]
fn thresholds_decide_and_stand_in_the_junit_report() {
    let origin = Origin::start();
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("junit.xml");
    let run = |path: &str, thresholds: &[&str], code| {
        let mut command = origin.load(Protocol::H1c, path, &["-n", "10", "--junit"]);
        command.arg(&report);
        command.args(thresholds.iter().flat_map(|threshold| ["--threshold", threshold]));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        let xml = fs::read_to_string(&report).unwrap();
        let document = Document::parse(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        let cases: Vec<(String, bool)> = suite
            .children()
            .filter(|node| node.has_tag_name("testcase"))
            .map(|case| {
                (case.attribute("name").unwrap().to_owned(), case.children().any(|node| node.has_tag_name("failure")))
            })
            .collect();
        let failures = cases.iter().filter(|(_, failed)| *failed).count().to_string();
        let counts = [suite.attribute("tests").unwrap(), suite.attribute("failures").unwrap()];
        assert_eq!(counts, [cases.len().to_string(), failures]);
        (String::from_utf8(output.stdout).unwrap(), cases)
    };
    let (text, cases) = run("/api/test", &["p99<1h", "first_byte_max<1h", "connect_p50<1h", "dropped<=0"], 0);
    assert!(text.contains("\n✓ p99<1h: ") && text.contains("\n✓ dropped<=0: 0\n"), "{text}");
    let names = ["requests succeed", "p99<1h", "first_byte_max<1h", "connect_p50<1h", "dropped<=0"];
    assert_eq!(cases, names.map(|name| (name.to_owned(), false)));

    let (text, cases) = run("/api/test", &["p50<1us", "rate>1"], 1);
    assert!(text.contains("\n✗ p50<1us: ") && text.contains("\n✓ rate>1: "), "{text}");
    assert_eq!(cases.iter().map(|(_, failed)| *failed).collect::<Vec<_>>(), [false, true, false]);

    // Failed requests are a failure, unless a threshold says how many may fail.
    assert!(run("/nothing", &[], 1).1[0].1);
    assert!(!run("/nothing", &["errors<=100%"], 0).1[0].1);
    assert!(run("/nothing", &["errors<100%"], 1).0.contains("✗ errors<100%: 100 %"));
}

#[test]
fn ctrl_c_prints_and_writes_what_was_measured() {
    let origin = Origin::start();
    for protocol in [Protocol::H1c, Protocol::H3] {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let mut command = origin.load(protocol, "/bytes/10", &["-D", "10m", "-c", "2", "--json"]);
        command.arg("--csv").arg(file("csv")).arg("--hdr-log").arg(file("hdr"));
        command.arg("--summary-export").arg(file("k6")).arg("--junit").arg(file("junit"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // By the time of the tenth request on two connections, earlier ones have been answered.
        until("ten requests", || origin.requests(protocol) >= 10);
        signal(&child, "INT");
        let begun = Instant::now();
        let output = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!(output.status.code(), Some(130));
        let summary: LoadSummary = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((summary.requests.succeeded > 0, summary.requests.failed), (true, 0));
        assert!(String::from_utf8_lossy(&output.stderr).contains("stopped before the end"));
        assert_eq!(fs::read_to_string(file("csv")).unwrap().lines().count() as u64, summary.requests.done + 1);
        assert!(fs::read_to_string(file("hdr")).unwrap().lines().any(|line| !line.starts_with('#')));
        let export: Value = serde_json::from_slice(&fs::read(file("k6")).unwrap()).unwrap();
        assert_eq!(export["metrics"]["http_reqs"]["count"], summary.requests.done);
        assert!(Document::parse(&fs::read_to_string(file("junit")).unwrap()).is_ok());
    }
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_summary() {
    let witness = Witness::start();
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small").to_str().unwrap().to_owned();
    for (flag, path, sentence) in [
        ("--csv", small.as_str(), "the request log is not complete: File too large"),
        ("--hdr-log", "/dev/full", "cannot write /dev/full: No space left"),
        ("--summary-export", "/dev/full", "cannot write /dev/full: No space left"),
        ("--junit", "/dev/full", "cannot write /dev/full: No space left"),
    ] {
        // No file may have more than a few kilobytes.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_fairlane")]);
        let output = command.args(["load", &witness.url("/"), "-n", "500", flag, path]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{flag}: {message}");
        assert!(message.contains(sentence), "{flag}: {message}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("500 succeeded"), "{flag}");
    }
}

#[test]
fn output_that_nobody_takes_is_no_panic() {
    let witness = Witness::start();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let message = failed(load([&witness.url("/")]).stdout(full()), 3);
    assert!(message.contains("cannot write to standard output"), "{message}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(failed(load([&witness.url("/")]).stdout(writer), 0), "", "a reader that has had enough is no failure");
}

#[test]
fn a_short_run_says_nothing_on_standard_error() {
    let witness = Witness::start();
    assert_eq!(failed(load([&witness.url("/"), "-D", "1500ms"]).stdout(Stdio::null()), 0), "");
}

#[test]
fn a_terminal_shows_how_it_goes() {
    if !testbed::has(&["script"]) {
        return;
    }
    let witness = Witness::start();
    let line = format!("{} load {} -D 2500ms", env!("CARGO_BIN_EXE_fairlane"), witness.url("/"));
    let seen = |line: &str| {
        let output = Command::new("script").args(["-qec", line, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = seen(&line);
    for part in ["s left", "req/s, p50 ", ", p99 ", "0 failed", "in flight"] {
        assert!(shown.contains(part), "'{part}' is missing in\n{shown}");
    }
    assert!(!seen(&format!("{line} --quiet")).contains("s left"));
}
