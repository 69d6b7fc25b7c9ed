use measure::{Histogram, LoadSummary, RateSpread, Spread};

use super::seconds;

/// The tables of times and rates; empty when nothing was timed.
pub(super) fn tables(summary: &LoadSummary) -> String {
    let times = [
        ("request", &summary.latency),
        ("since due", &summary.intended_latency_us),
        ("1st byte", &summary.first_byte_us),
        ("connect", &summary.connect_us),
        ("queue", &summary.queue_us),
    ];
    let times = times.into_iter().filter_map(|(name, histogram)| Some((name, histogram.spread()?)));
    // A microsecond is the least that a histogram holds: nothing waited.
    let times: Vec<(&str, Spread)> = times.filter(|(name, spread)| *name != "queue" || spread.max > 1).collect();
    if times.is_empty() {
        return String::new();
    }
    let mut text = row("time for", ["min", "max", "mean", "sd", "+/- sd"]);
    for (name, spread) in &times {
        let figures = [spread.min as f64, spread.max as f64, spread.mean, spread.sd].map(micros);
        text += &row(name, figures.into_iter().chain([share(spread.within_sd)]));
    }
    if let Some(RateSpread { min, max, mean, sd, within_sd }) = summary.rate_per_connection {
        // One connection has no spread.
        if summary.connections.used > 1 {
            let figures = [min, max, mean, sd].map(|rate| format!("{rate:.1}"));
            text += &row("req/s each", figures.into_iter().chain([share(within_sd)]));
        }
    }
    text += "\n";
    text += &row("percentiles", ["50 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %"]);
    for (name, spread) in &times {
        let figures = [spread.p50, spread.p90, spread.p95, spread.p99, spread.p999, spread.p9999];
        text += &row(name, figures.map(|figure| micros(figure as f64)));
    }
    text + &pages(summary)
}

fn pages(summary: &LoadSummary) -> String {
    let mut times = Histogram::default();
    summary.pages.iter().for_each(|page| times.record_us(page.duration_us));
    let (Some(spread), Some(last)) = (times.spread(), summary.pages.last()) else { return String::new() };
    let [min, median, max] = [spread.min, spread.p50, spread.max].map(|figure| micros(figure as f64));
    let (pages, objects) = (summary.pages.len(), last.objects);
    format!("\npages: {pages} loaded, {objects} objects each, time min {min}, median {median}, max {max}\n")
}

/// A label and at most six cells, 11 columns each.
fn row<T: AsRef<str>>(label: &str, cells: impl IntoIterator<Item = T>) -> String {
    let cells = cells.into_iter().map(|cell| format!("{:>11}", cell.as_ref()));
    format!("{label:<11}{}\n", cells.collect::<String>())
}

fn micros(value: f64) -> String {
    seconds(value / 1e6)
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
