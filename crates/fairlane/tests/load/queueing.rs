//! The two views of an overloaded server, against queueing theory and against another load generator.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use measure::LoadSummary;

use crate::support::{Service, load, measured};

const SERVICE: Duration = Duration::from_millis(5);
const SERVICE_US: f64 = 5000.0;

/// One line of the log of requests, microseconds.
struct Entry {
    due: f64,
    /// From then to the end.
    took: f64,
}

fn open_loop(rate: &str, arguments: &[&str]) -> (LoadSummary, Vec<Entry>) {
    let service = Service::start(SERVICE);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("requests.csv");
    let fixed = [&service.url(), "--rate", rate, "--timeout", "60s", "--csv"];
    let summary = measured(load(fixed).arg(&log).args(arguments));
    assert_eq!(service.served(), summary.requests.succeeded);
    (summary, entries(&log))
}

fn entries(log: &Path) -> Vec<Entry> {
    let mut reader = csv::Reader::from_path(log).unwrap();
    let rows = reader.deserialize::<std::collections::BTreeMap<String, String>>().map(Result::unwrap);
    let mut entries: Vec<Entry> = rows
        .map(|row| {
            let [start, queue, latency] =
                ["start_us", "queue_us", "latency_us"].map(|key| row[key].parse::<f64>().unwrap());
            Entry { due: start - queue, took: queue + latency }
        })
        .collect();
    entries.sort_by(|one, other| one.due.total_cmp(&other.due));
    entries
}

/// The mean time in a queue of one server, from the arrivals alone (Lindley's recursion).
fn lindley(entries: &[Entry]) -> f64 {
    let mut free = 0.0_f64;
    let times = entries.iter().map(|entry| {
        free = free.max(entry.due) + SERVICE_US;
        free - entry.due
    });
    times.sum::<f64>() / entries.len() as f64
}

fn mean(entries: &[Entry]) -> f64 {
    entries.iter().map(|entry| entry.took).sum::<f64>() / entries.len() as f64
}

#[test]
fn below_saturation_requests_wait_as_long_as_pollaczek_and_khinchine_say() {
    // 140 of 200 requests per second: the server works 70 % of the time.
    let load = 0.7;
    let (summary, entries) = open_loop("140", &["-n", "1000", "--arrivals", "poisson", "--seed", "3"]);
    assert_eq!((entries.len(), summary.requests.dropped), (1000, 0));
    let theory = SERVICE_US + load * SERVICE_US / (2.0 * (1.0 - load));
    let expected = lindley(&entries);
    assert!(
        (0.7..1.4).contains(&(expected / theory)),
        "these arrivals should take {expected} us, all of them {theory} us"
    );
    let measured = mean(&entries);
    // What a busy machine adds is a delay here and there.
    assert!((0.95..1.6).contains(&(measured / expected)), "{measured} us instead of {expected} us");
    let told = summary.intended_latency_us.spread().unwrap().mean;
    assert!((told / measured - 1.0).abs() < 0.01, "{told} us in the summary, {measured} us in the log");
}

#[test]
fn arrivals_at_equal_distances_do_not_wait_below_saturation() {
    let (_, entries) = open_loop("140", &["-n", "300"]);
    assert!((lindley(&entries) - SERVICE_US).abs() < 1.0, "each arrives when the one before has gone");
    let measured = mean(&entries);
    assert!((0.95..1.6).contains(&(measured / SERVICE_US)), "{measured} us");
}

#[test]
fn above_saturation_latency_grows_with_time_and_only_the_view_since_due_shows_it() {
    // 300 per second for a server that manages 200, over one connection: the client waits, as coordinated tools do.
    let (summary, entries) = open_loop("300", &["-n", "600", "-c", "1"]);
    assert_eq!((entries.len(), summary.requests.failed), (600, 0));
    // Over one connection the way there and back belongs to the time that the server is busy.
    let busy = summary.wall_s * 1e6 / 600.0;
    assert!((SERVICE_US * 0.99..SERVICE_US * 2.0).contains(&busy), "{busy} us for each request");
    let rho = 300.0 * busy / 1e6;
    let last = entries.last().unwrap().took;
    for entry in &entries {
        let expected = (rho - 1.0) * entry.due + busy;
        let difference = (entry.took - expected).abs();
        assert!(difference < 0.2 * last, "due at {} us: {} us instead of {expected} us", entry.due, entry.took);
    }
    let [sent, due] = [&summary.latency, &summary.intended_latency_us].map(|times| times.quantile_us(0.5).unwrap());
    assert!(due > 20 * sent, "since sending {sent} us, since due {due} us");
    assert!(due > 450_000, "half of a second when the run is half over: {due} us");
}

#[test]
fn a_closed_loop_hides_the_overload() {
    let service = Service::start(SERVICE);
    let summary = measured(load([&service.url()]).args(["-n", "400", "-c", "4"]));
    // Four requests are there at any time, however long the run: each waits for the three before it.
    let median = summary.latency.quantile_us(0.5).unwrap() as f64;
    assert!((0.9..1.5).contains(&(median / (4.0 * SERVICE_US))), "{median} us");
    assert_eq!(summary.intended_latency_us.count(), 0);
}

#[test]
fn a_closed_loop_agrees_with_h2load() {
    if !testbed::has(&["h2load"]) {
        return;
    }
    let service = Service::start(SERVICE);
    let ours = measured(load([&service.url()]).args(["-n", "200", "-c", "4"]));
    assert_eq!(service.served(), 200);
    let output = Command::new("h2load").args(["--h1", "-n", "200", "-c", "4", &service.url()]).output().unwrap();
    assert_eq!(service.served(), 400);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("200 succeeded"), "{text}");
    // finished in 1.01s, 198.02 req/s, 9.1KB/s
    let (_, rate) = text.split_once("finished in ").unwrap().1.split_once(", ").unwrap();
    let rate: f64 = rate.split_once(" req/s").unwrap().0.parse().unwrap();
    let ratio = ours.requests_per_second / rate;
    assert!((0.5..2.0).contains(&ratio), "{} req/s, and {rate} req/s by h2load", ours.requests_per_second);
}
