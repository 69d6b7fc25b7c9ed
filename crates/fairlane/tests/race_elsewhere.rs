//! Races that are not the default: a server that nobody here wrote, an ordinary user, no emulated link.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use measure::Trial;
use serde_json::Value;

const FAIRLANE: &str = env!("CARGO_BIN_EXE_fairlane");

fn succeeded(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn trials(run: &Path) -> Vec<Trial> {
    let text = fs::read_to_string(run.join("trials.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Makes a certificate for the host `origin`, signed by itself, with openssl's independent tools.
fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"])
        .args(["-subj", "/CN=origin", "-addext", "subjectAltName=DNS:origin", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[test]
fn nginx_is_raced_as_an_origin_of_the_users_own() {
    if !testbed::has(&["nginx", "openssl"]) {
        return;
    }
    let _alone = testbed::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    certificate(folder.path());
    let objects: String = (0..12).map(|i| format!("<img src=\"object.bin?i={i}\">")).collect();
    fs::write(path("index.html"), format!("<!doctype html><title>t</title>{objects}")).unwrap();
    fs::write(path("object.bin"), vec![7; 5000]).unwrap();
    let user = if testbed::is_root() { "user root;" } else { "" };
    let configuration = format!(
        "daemon off; {user} pid {pid}; error_log {errors}; events {{}}
         http {{ access_log off; client_body_temp_path {temp}; proxy_temp_path {temp}; fastcgi_temp_path {temp};
           uwsgi_temp_path {temp}; scgi_temp_path {temp};
           server {{ listen 8443 ssl http2; ssl_certificate {cert}; ssl_certificate_key {key}; root {root}; }} }}",
        pid = path("nginx.pid"),
        errors = path("error.log"),
        temp = path("temp"),
        cert = path("cert.pem"),
        key = path("key.pem"),
        root = folder.path().display(),
    );
    fs::write(path("nginx.conf"), configuration).unwrap();
    let nginx = testbed::find("nginx").unwrap();
    let origin = format!("{} -e {} -c {}", nginx.display(), path("error.log"), path("nginx.conf"));
    let output = Command::new(FAIRLANE)
        .args(["race", "--origin", &origin, "--url", "https://origin:8443/index.html", "--cacert", &path("cert.pem")])
        .args(["--protocols", "h1,h2", "--link", "rate=20mbit rtt=30ms", "--rounds", "3", "--jobs", "2", "--json"])
        .args(["--out", &path("run")])
        .output()
        .unwrap();
    let summary = succeeded(output);
    assert_eq!(summary["conditions"][0]["connections"], 6.0, "{summary}");
    assert_eq!(summary["conditions"][1]["connections"], 1.0, "{summary}");
    for trial in trials(&folder.path().join("run")) {
        let page = &trial.load.as_ref().unwrap().pages[0];
        assert_eq!((page.objects, page.data_bytes > 12 * 5000), (12, true));
        assert!(trial.origin.is_none(), "nginx keeps no counters of ours");
    }
}

#[test]
fn an_ordinary_user_can_race() {
    let _alone = testbed::alone();
    let Some(user) = testbed::OrdinaryUser::with(FAIRLANE) else { return };
    let output = user
        .command()
        .args(["race", "--link", "rate=20mbit rtt=30ms loss=1%", "--rounds", "3", "--jobs", "2", "--json"])
        .output()
        .unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["conditions"].as_array().unwrap().len(), 3);
    // Without the right to real-time scheduling a very busy machine makes every link late, and the answer is no.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let run = fs::read_dir(user.folder().join("runs")).unwrap().next().unwrap().unwrap().path();
    let trials = trials(&run);
    assert!(trials.len() >= 9);
    for trial in trials {
        let (load, link) = (trial.load.unwrap(), trial.link_summary.unwrap());
        assert_eq!((load.congestion_control.as_str(), load.pages.len()), ("cubic", 1));
        assert_eq!((link.congestion_control.as_str(), link.initial_window_packets), ("cubic", 10));
        let late = |reason: &String| reason.starts_with("the link was late");
        assert!(trial.invalid.iter().all(late), "{:?}", trial.invalid);
    }
}

#[test]
fn without_a_link_the_race_runs_over_loopback_and_says_what_that_means() {
    let _alone = testbed::alone();
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(FAIRLANE)
        .args(["race", "--no-link", "--protocols", "h1c,h2c,h2,h3", "--rounds", "3", "--json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let summary = succeeded(output);
    assert_eq!(summary["comparisons"].as_array().unwrap().len(), 3);
    let warnings = summary["warnings"].to_string();
    assert!(warnings.contains("no emulated link"), "{warnings}");
    assert!(warnings.contains("h2 and h3 carried TLS and h1c and h2c did not"), "confounding is named: {warnings}");
}
