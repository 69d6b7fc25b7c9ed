use std::fmt::Write as _;
use std::time::Duration;

use measure::units::{format_duration, format_size};
use measure::{Histogram, LoadSummary, Spread};

/// The summary for people, in the manner of h2load: 80 columns, units with every figure.
pub fn render(summary: &LoadSummary) -> String {
    let mut text = String::new();
    write_all(summary, &mut text).expect("writing to a string cannot fail");
    text
}

fn write_all(summary: &LoadSummary, out: &mut String) -> std::fmt::Result {
    let LoadSummary { requests, status, traffic, connections, .. } = summary;
    let seconds = summary.duration_us as f64 / 1e6;
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    writeln!(out, "{}", headline(summary))?;
    writeln!(out)?;
    match status.success + status.redirect + status.client_error + status.server_error {
        0 => writeln!(out, "no request was answered")?,
        answered => writeln!(
            out,
            "finished in {}, {:.2} req/s, {}/s",
            format_duration(Duration::from_micros(summary.duration_us)),
            per_second(answered),
            format_size(per_second(traffic.received_bytes) as u64)
        )?,
    }
    writeln!(
        out,
        "requests: {} total, {} started, {} done, {} succeeded, {} failed, {} errored, {} timeout",
        requests.total,
        requests.started,
        requests.done,
        requests.succeeded,
        requests.failed,
        requests.errored,
        requests.timed_out
    )?;
    writeln!(
        out,
        "status codes: {} 2xx, {} 3xx, {} 4xx, {} 5xx",
        status.success, status.redirect, status.client_error, status.server_error
    )?;
    writeln!(
        out,
        "traffic: {} received ({} headers, space savings {}, {} data), {} sent",
        format_size(traffic.received_bytes),
        format_size(traffic.header_bytes),
        savings(traffic.header_bytes, traffic.header_decoded_bytes),
        format_size(traffic.data_bytes),
        format_size(traffic.sent_bytes)
    )?;
    writeln!(
        out,
        "connections: {} opened, {} completed, {} used, {} handshakes ({} resumed), most streams {}",
        connections.opened,
        connections.completed,
        connections.used,
        connections.handshakes,
        connections.resumed,
        connections.max_streams
    )?;
    if let Some(quic) = &summary.quic {
        writeln!(
            out,
            "QUIC: {} packets sent, {} lost, {} congestion events",
            quic.sent_packets, quic.lost_packets, quic.congestion_events
        )?;
    }
    write_times(summary, out)?;
    write_pages(summary, out)?;
    let per_request = summary.cpu.total_us() as f64 / requests.done.max(1) as f64;
    writeln!(
        out,
        "client CPU: {} user, {} system, {per_request:.1} us per request{}",
        format_duration(Duration::from_micros(summary.cpu.user_us)),
        format_duration(Duration::from_micros(summary.cpu.system_us)),
        if summary.client_bound { "; the client was the bottleneck" } else { "" }
    )?;
    for (reason, count) in &summary.errors {
        writeln!(out, "error: {reason} ({count} times)")?;
    }
    Ok(())
}

fn headline(summary: &LoadSummary) -> String {
    let mut parts = vec![summary.protocol.title().to_owned() + " (" + summary.protocol.name() + ")"];
    if let Some(tls) = &summary.tls {
        parts.push(format!("{} {} {}", tls.version, tls.cipher, tls.key_exchange));
        parts.push(format!("ALPN {}", tls.alpn.as_deref().unwrap_or("none")));
    }
    let (c, m) = (summary.connections_limit, summary.streams_limit);
    parts.push(format!("{c} connections x {m} streams = {} in flight", u64::from(c) * u64::from(m)));
    if summary.threads > 1 {
        parts.push(format!("{} threads", summary.threads));
    }
    let window = summary.initial_window_packets.map_or_else(String::new, |packets| format!(", window {packets}"));
    parts.push(format!("{}{window}", summary.congestion_control));
    parts.join(" · ")
}

/// How much smaller headers became by compression (h2load's "space savings").
fn savings(wire: u64, decoded: u64) -> String {
    if decoded == 0 { "0 %".to_owned() } else { format!("{:.1} %", (1.0 - wire as f64 / decoded as f64) * 100.0) }
}

fn write_times(summary: &LoadSummary, out: &mut String) -> std::fmt::Result {
    let histograms = [
        ("request", &summary.request_time),
        ("connect", &summary.connect_time),
        ("first byte", &summary.first_byte_time),
        ("queue", &summary.queue_time),
    ];
    let rows = histograms.into_iter().filter_map(|(name, histogram)| Some((name, histogram.spread()?)));
    // A microsecond is the least that a histogram holds: nothing waited.
    let rows: Vec<(&str, Spread)> = rows.filter(|(name, spread)| *name != "queue" || spread.max_us > 1).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "time for        min       max      mean        sd   +/- sd")?;
    for (name, spread) in &rows {
        writeln!(
            out,
            "{name:<10} {:>8}  {:>8}  {:>8}  {:>8}  {:>5.1} %",
            micros(spread.min_us as f64),
            micros(spread.max_us as f64),
            micros(spread.mean_us),
            micros(spread.sd_us),
            spread.within_sd * 100.0
        )?;
    }
    writeln!(out)?;
    writeln!(out, "percentiles     50%       90%       99%     99.9%")?;
    for (name, spread) in &rows {
        let figures = [spread.p50_us, spread.p90_us, spread.p99_us, spread.p999_us];
        let [p50, p90, p99, p999] = figures.map(|figure| micros(figure as f64));
        writeln!(out, "{name:<10} {p50:>8}  {p90:>8}  {p99:>8}  {p999:>8}")?;
    }
    writeln!(out)
}

fn write_pages(summary: &LoadSummary, out: &mut String) -> std::fmt::Result {
    let mut times = Histogram::default();
    summary.pages.iter().for_each(|page| times.record_us(page.duration_us));
    let (Some(spread), Some(last)) = (times.spread(), summary.pages.last()) else { return Ok(()) };
    writeln!(
        out,
        "pages: {} loaded, {} objects each, time min {}, median {}, max {}",
        summary.pages.len(),
        last.objects,
        micros(spread.min_us as f64),
        micros(spread.p50_us as f64),
        micros(spread.max_us as f64)
    )
}

fn micros(value: f64) -> String {
    format_duration(Duration::from_nanos((value * 1e3) as u64))
}
