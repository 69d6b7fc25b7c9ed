//! What is refused, with which words and exit codes.

use std::fs;
use std::process::{Command, Stdio};

use measure::Protocol;

use crate::support::{Origin, failed, load};

/// Somewhere nobody listens: what is refused here is refused before anything is sent.
const URL: &str = "http://127.0.0.1:9/";

#[test]
fn bad_usage_is_told_with_what_to_do() {
    let mut wrong = Vec::new();
    for (arguments, parts) in [
        (&["-c", "0"][..], &["-c 0", "at least 1"][..]),
        (&["-n", "0"], &["-n 0", "at least 1"]),
        (&["-m", "0"], &["-m 0"]),
        (&["-c", "2"], &["-n"]),
        (&["-n", "2", "-m", "2"], &["--pipeline"]),
        (&["-D", "soon"], &["a duration such as"]),
        (&["-D", "0"], &["-D 0", "10s"]),
        (&["-D", "1s", "-n", "1"], &["--duration", "--requests"]),
        (&["--warm-up-time", "1s"], &["use -D"]),
        (&["--timeout", "0"], &["timeout"]),
        (&["--initial-window", "1001"], &["1..=1000"]),
        (&["--protocol", "h3"], &["h1c or h2c"]),
        (&["--protocol", "http9"], &["h1c"]),
        (&["-H", "no colon"], &["'no colon'", "Name: value"]),
        (&["-H", "Content-Length: 5"], &["'Content-Length'"]),
        (&["-H", "@/does/not/exist"], &["/does/not/exist"]),
        (&["-d", "@/does/not/exist"], &["/does/not/exist"]),
        (&["-X", "GET /"], &["'GET /'", "method"]),
        (&["-d", "a", "-T", "b"], &["--data", "--upload-file"]),
        (&["-d", "@-", "-H", "@-"], &["only once"]),
        (&["--expect-status", "ok"], &["'ok'", "3xx"]),
        (&["--expect-size", "big"], &["a size such as"]),
        (&["--weights", "1,2"], &["2 numbers for 1 URLs"]),
        (&["--weights", "0"], &["weight", "above 0"]),
        (&["http://127.0.0.1:10/"], &["127.0.0.1:10", "one scheme, host and port"]),
        (&["--rate", "100"], &["-D 10s"]),
        (&["--rate", "fast", "-D", "1s"], &["'fast'", "6000/m"]),
        (&["--rate", "0", "-D", "1s"], &["a rate of 0"]),
        (&["--rate", "0.1", "-D", "1s"], &["no request is due", "raise --rate"]),
        (&["--rate", "1e12", "-D", "1s"], &["at most 10 million"]),
        (&["--rate", "1", "-D", "1s", "--arrivals", "random"], &["uniform or poisson"]),
        (&["--rate", "1", "-D", "1s", "--vus", "2"], &["--rate", "--vus"]),
        (&["--arrivals", "poisson"], &["--rate"]),
        (&["--stages", "10s:100"], &["--rate", "--vus"]),
        (&["--rate", "1", "--stages", "10s"], &["'10s'", "10s:100"]),
        (&["--rate", "1", "--stages", "1s:1", "--warm-up-time", "1s"], &["longer than --warm-up-time"]),
        (&["--vus", "0"], &["--vus 0"]),
        (&["--vus", "2", "-n", "1"], &["2 users"]),
        (&["--vus", "2", "-c", "2"], &["--vus", "--connections"]),
        (&["--think", "1s"], &["--vus or --workers"]),
        (&["--workers", "0"], &["at least 1"]),
        (&["--workers", "2", "--max-connections", "0", "-n", "9"], &["--max-connections"]),
        (&["--max-connections", "2"], &["--workers"]),
        (&["--page", "-D", "1s"], &["--page", "--duration"]),
        (&["--page", "-d", "x"], &["--page", "without a body"]),
        (&["--threshold", "p99"], &["'p99'", "p99<200ms"]),
        (&["--threshold", "p99<200"], &["with its unit"]),
        (&["--threshold", "p999<1s"], &["p99.9"]),
        (&["--threshold", "speed>1"], &["'speed'", "p50"]),
        (&["--threshold", "errors<0.01"], &["'0.01'", "1%"]),
        (&["--csv", "/does/not/exist"], &["/does/not/exist"]),
        (&["--hdr-log", "/does/not/exist"], &["/does/not/exist"]),
        (&["--summary-export", "/does/not/exist"], &["/does/not/exist"]),
        (&["--junit", "/does/not/exist"], &["/does/not/exist"]),
        (&["--source", "here"], &["'here'"]),
        (&["--source", "192.0.2.1"], &["192.0.2.1", "addresses of this machine"]),
        (&["--tls-versions", "1.1"], &["1.1"]),
    ] {
        let message = failed(load([URL]).args(arguments).stdin(Stdio::null()), 2);
        let missing = parts.iter().filter(|part| !message.contains(**part));
        wrong.extend(missing.map(|part| format!("{arguments:?}: '{part}' is missing in: {message}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(failed(load(["-n", "1"]), 2).contains("URL"));
}

#[test]
fn files_of_requests_are_refused_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests");
    for (flag, text, part) in [
        ("-i", "", "names no request"),
        ("-i", "/only/a/path", "give the URL"),
        ("-i", "http://a/\nhttps://a/", "https://a"),
        ("-i", "http://a/\nnot a url", "'not a url'"),
        ("--request-file", "", "names no request"),
        ("--request-file", "[[request]]\nurl = \"http://a/\"\nverb = \"GET\"", "verb"),
        (
            "--request-file",
            "[[request]]\nurl = \"http://a/\"\nbody = \"a\"\nbody_file = \"b\"",
            "either body or body_file",
        ),
        ("--request-file", "[[request]]\nurl = \"http://a/\"\nbody_file = \"none\"", "none"),
        ("--request-file", "[[request]]\nurl = \"http://a/\"\nheaders = [\"x\"]", "Name: value"),
    ] {
        fs::write(&file, text).unwrap();
        let message = failed(load([flag]).arg(&file), 2);
        assert!(message.contains(part), "{text}: '{part}' is missing in: {message}");
    }
}

#[test]
fn what_cannot_be_measured_ends_with_three() {
    assert!(failed(load([URL]), 3).contains("127.0.0.1:9"));
    let origin = Origin::start();
    let message = failed(load([&origin.url(Protocol::H2, "/")]), 3);
    assert!(message.contains("--cacert"), "a certificate that nobody trusts: {message}");
}

#[test]
fn a_key_that_is_none_is_bad_usage() {
    let origin = Origin::start();
    let certificate = origin.ca().display().to_string();
    let arguments = ["--cert", &certificate, "--key", &certificate];
    let message = failed(&mut origin.load(Protocol::H2, "/", &arguments), 2);
    assert!(message.contains("cannot use the key of") && message.contains("no private key"), "{message}");
}

#[test]
fn more_connections_than_files_may_be_open_are_refused() {
    let origin = Origin::start();
    let limited = |limit: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit {limit} 100; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_fairlane")]);
        shell.args(["load", &origin.url(Protocol::H1c, "/bytes/1"), "-n", "200", "-c", "200"]);
        shell
    };
    let message = failed(limited("-n"), 2);
    assert!(message.contains("may have 100") && message.contains("ulimit -n"), "{message}");
    assert_eq!(failed(limited("-S -n"), 0), "", "the soft limit is raised");
}

#[test]
fn help_groups_the_flags() {
    let help = |flag: &str| String::from_utf8(load([flag]).output().unwrap().stdout).unwrap();
    for heading in ["Requests:", "How many, and when:", "Connections:", "TLS:", "Transport:", "Results:", "Examples"] {
        assert!(help("-h").contains(&format!("\n{heading}")), "'{heading}' is missing");
    }
    assert!(help("--help").len() > help("-h").len());
}
