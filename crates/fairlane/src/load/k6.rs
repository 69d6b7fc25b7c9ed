use measure::{Histogram, LoadModel, LoadSummary};
use serde_json::{Map, Value, json};

use super::thresholds::{Judgement, Metric, Phase, Verdict};

/// The summary as k6 writes it with `--summary-export`: times in milliseconds, and for each threshold whether it was
/// *missed*.
pub fn export(summary: &LoadSummary, verdict: &Verdict<'_>) -> String {
    let LoadSummary { requests, traffic, .. } = summary;
    let counter = |count: u64| {
        let rate = if summary.wall_s > 0.0 { count as f64 / summary.wall_s } else { 0.0 };
        json!({ "count": count, "rate": rate })
    };
    let users = u64::from(summary.connections_limit) * u64::from(summary.clients);
    let gauge = json!({ "value": users, "min": users, "max": users });
    let ended = requests.succeeded + requests.failed;
    let share = |part: u64| if ended > 0 { part as f64 / ended as f64 } else { 0.0 };
    let mut metrics = Map::new();
    for (name, metric) in [
        (
            "checks",
            json!({ "passes": requests.succeeded, "fails": requests.failed, "value": share(requests.succeeded) }),
        ),
        ("data_received", counter(traffic.received_bytes)),
        ("data_sent", counter(traffic.sent_bytes)),
        ("dropped_iterations", counter(requests.dropped)),
        ("http_req_blocked", trend(&summary.queue_us)),
        ("http_req_connecting", trend(&summary.connect_us)),
        ("http_req_duration", trend(&summary.latency)),
        // A request that failed counts as a pass of this rate: so does k6.
        (
            "http_req_failed",
            json!({ "passes": requests.failed, "fails": requests.succeeded, "value": share(requests.failed) }),
        ),
        ("http_req_waiting", trend(&summary.first_byte_us)),
        ("http_reqs", counter(requests.done)),
        ("iteration_duration", trend(summary.experienced_latency())),
        ("iterations", counter(requests.done)),
        ("vus", gauge.clone()),
        ("vus_max", gauge),
    ] {
        metrics.insert(name.to_owned(), metric);
    }
    for judgement in &verdict.judgements {
        let metric = &mut metrics[name(judgement, summary.model)];
        metric["thresholds"][judgement.text()] = Value::Bool(!judgement.holds());
    }
    // The identifiers are the MD5 sums of the paths.
    let check = json!({
        "name": CHECK,
        "path": format!("::{CHECK}"),
        "id": "36804bed0545d7cb68f401cb5746b642",
        "passes": requests.succeeded,
        "fails": requests.failed,
    });
    let root = json!({
        "name": "",
        "path": "",
        "id": "d41d8cd98f00b204e9800998ecf8427e",
        "groups": {},
        "checks": { CHECK: check },
    });
    format!("{:#}\n", json!({ "metrics": metrics, "root_group": root }))
}

const CHECK: &str = "response is as expected";

/// The metric of k6 that a threshold is about.
fn name(judgement: &Judgement<'_>, model: LoadModel) -> &'static str {
    match judgement.metric() {
        Metric::Time(Phase::Request, _) if model == LoadModel::OpenLoop => "iteration_duration",
        Metric::Time(Phase::Request, _) => "http_req_duration",
        Metric::Time(Phase::FirstByte, _) => "http_req_waiting",
        Metric::Time(Phase::Connect, _) => "http_req_connecting",
        Metric::Errors | Metric::ErrorShare => "http_req_failed",
        Metric::Dropped | Metric::DroppedShare => "dropped_iterations",
        Metric::Rate => "http_reqs",
    }
}

/// A distribution in milliseconds.
fn trend(times: &Histogram) -> Value {
    let spread = times.spread();
    let ms = |figure: f64| figure / 1e3;
    let [min, med, p90, p95, max] = spread
        .as_ref()
        .map_or([0; 5], |spread| [spread.min, spread.p50, spread.p90, spread.p95, spread.max])
        .map(|figure| ms(figure as f64));
    let avg = ms(spread.map_or(0.0, |spread| spread.mean));
    json!({ "avg": avg, "min": min, "med": med, "max": max, "p(90)": p90, "p(95)": p95 })
}
