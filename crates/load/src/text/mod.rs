//! The summary for people.

mod times;

use std::time::Duration;

use measure::units::{format_duration, format_size};
use measure::{Bottleneck, LoadModel, LoadSummary, RequestCounts, StatusCounts, Traffic};
use textwrap::{Options, WordSplitter};

const COLUMNS: usize = 80;
/// Shorter runs are mostly starting up.
const LONG_ENOUGH_S: f64 = 0.1;

/// The summary for people, in the manner of h2load: 80 columns, units with every figure.
pub fn render(summary: &LoadSummary) -> String {
    let blocks = [setting(summary), counts(summary), times::tables(summary), client(summary), troubles(summary)];
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).filter(|block| !block.is_empty()).collect();
    blocks.join("\n")
}

/// A line of facts under a label, wrapped between facts where it is too long, and within those that are sentences.
fn line(label: &str, facts: &[String]) -> String {
    const SENTENCE: usize = 45;
    const TIED: &str = "\u{a0}";
    let tie = |fact: &String| if fact.len() < SENTENCE { fact.replace(' ', TIED) } else { fact.clone() };
    let facts: Vec<String> = facts.iter().map(tie).collect();
    let indent = " ".repeat(label.len() + 2);
    let options =
        Options::new(COLUMNS).subsequent_indent(&indent).break_words(false).word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(&format!("{label}: {}", facts.join(", ")), options).replace(TIED, " ") + "\n"
}

/// What was asked for and agreed on.
fn setting(summary: &LoadSummary) -> String {
    let protocol = summary.protocol;
    let mut agreed = vec![format!("{} ({})", protocol.title(), protocol.name())];
    let mut text = String::new();
    if let Some(tls) = &summary.tls {
        let checked = match tls.verification.as_str() {
            "insecure" => "certificate not checked",
            "cacert" => "certificate checked with --cacert",
            _ => "certificate checked with this machine's roots",
        };
        agreed.push(format!("ALPN {}", tls.alpn.as_deref().unwrap_or("none")));
        let facts = [tls.version.clone(), tls.cipher.clone(), tls.group.clone(), checked.to_owned()];
        // A resumed session of TLS 1.2 has no group of its own.
        text = line("TLS", &facts.into_iter().filter(|fact| !fact.is_empty()).collect::<Vec<_>>());
    }
    text = line("protocol", &agreed) + &text;
    text += &line("load", &load(summary));
    text + &line("transport", &transport(summary))
}

/// The model of the load, c, m and their product.
fn load(summary: &LoadSummary) -> Vec<String> {
    let plural = |count: u32, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
    let (connections, streams) = (summary.connections_limit, summary.streams_limit);
    let per_connection = match summary.protocol.multiplexes() {
        true => plural(streams, "stream"),
        false if streams > 1 => format!("{streams} pipelined"),
        false => "1 request".to_owned(),
    };
    let mut size = format!("{} x {per_connection}", plural(connections, "connection"));
    let mut in_flight = u64::from(connections) * u64::from(streams);
    if summary.clients > 1 {
        size = format!("{} clients x {size}", summary.clients);
        in_flight *= u64::from(summary.clients);
    }
    let model = match summary.model {
        LoadModel::ClosedLoop => "closed loop",
        LoadModel::OpenLoop => "open loop",
        LoadModel::Users => "virtual users",
        LoadModel::Pool => "workers over a pool",
        LoadModel::Page => "page loads",
    };
    let mut facts = vec![model.to_owned(), format!("{size} = {in_flight} in flight")];
    if summary.threads > 1 {
        facts.push(format!("{} threads", summary.threads));
    }
    if summary.different_requests > 1 {
        facts.push(format!("{} different requests", summary.different_requests));
    }
    facts
}

fn transport(summary: &LoadSummary) -> Vec<String> {
    let mut facts = vec![format!("congestion control {}", summary.congestion_control)];
    facts.extend(summary.initial_window_packets.map(|packets| format!("initial window {packets} packets")));
    facts.extend(summary.receive_windows.map(|windows| {
        let (stream, connection) = (windows.stream_bytes.into(), windows.connection_bytes.into());
        format!("receive windows {} (stream) and {} (connection)", format_size(stream), format_size(connection))
    }));
    facts
}

/// What happened, by numbers.
fn counts(summary: &LoadSummary) -> String {
    let LoadSummary { connections, wall_s, .. } = summary;
    let StatusCounts { success, redirect, client_error, server_error } = summary.status;
    let mut text = match success + redirect + client_error + server_error {
        0 => "no request was answered\n".to_owned(),
        _ => format!(
            "finished in {}, {:.2} req/s, {}/s\n",
            seconds(*wall_s),
            summary.requests_per_second,
            format_size((summary.traffic.received_bytes as f64 / wall_s.max(1e-6)) as u64)
        ),
    };
    text += &line("requests", &requests(summary));
    text += &format!("status codes: {success} 2xx, {redirect} 3xx, {client_error} 4xx, {server_error} 5xx\n");
    let Traffic { received_bytes, header_bytes, header_bytes_uncompressed, data_bytes, .. } = summary.traffic;
    text += &line("received", &bytes(received_bytes, header_bytes, header_bytes_uncompressed, data_bytes));
    let Traffic { sent_bytes, sent_header_bytes, sent_header_bytes_uncompressed, .. } = summary.traffic;
    let sent = bytes(sent_bytes, sent_header_bytes, sent_header_bytes_uncompressed, 0);
    text += &line("sent", &sent[..2]);
    let mut fates = vec![
        format!("{} opened", connections.opened),
        format!("{} completed", connections.completed),
        format!("{} used", connections.used),
        format!("{} reused", connections.reused),
        format!("{} handshakes ({} resumed)", connections.handshakes, connections.resumed),
    ];
    let (accepted, rejected) = (connections.early_data_accepted, connections.early_data_rejected);
    if accepted + rejected > 0 {
        fates.push(format!("early data {accepted} accepted and {rejected} rejected"));
    }
    text += &line("connections", &fates);
    text += &line(
        "in flight at most",
        &[format!("{} in all", summary.max_in_flight), format!("{} on one connection", connections.max_streams)],
    );
    if let Some(quic) = &summary.quic {
        let (sent, lost, events) = (quic.sent_packets, quic.lost_packets, quic.congestion_events);
        text += &format!("QUIC: {sent} packets sent, {lost} lost, {events} congestion events\n");
    }
    text
}

fn requests(summary: &LoadSummary) -> Vec<String> {
    let RequestCounts { total, started, done, succeeded, failed, errored, timed_out, dropped, retried } =
        summary.requests;
    let mut facts = vec![
        format!("{total} total"),
        format!("{started} started"),
        format!("{done} done"),
        format!("{succeeded} succeeded"),
        format!("{failed} failed"),
        format!("{errored} errored"),
        format!("{timed_out} timeout"),
    ];
    if dropped > 0 || summary.model == LoadModel::OpenLoop {
        facts.push(format!("{dropped} dropped"));
    }
    if retried > 0 {
        facts.push(format!("{retried} retried"));
    }
    facts
}

/// How many bytes of what, and what compression saved of the headers (h2load's "space savings").
fn bytes(total: u64, headers: u64, uncompressed: u64, data: u64) -> [String; 3] {
    let saved = match uncompressed {
        0 => 0.0,
        _ => (1.0 - headers as f64 / uncompressed as f64) * 100.0,
    };
    [
        format!("{} total", format_size(total)),
        format!("{} headers (space savings {saved:.2} %)", format_size(headers)),
        format!("{} data", format_size(data)),
    ]
}

/// What the load cost, and whether that limited it.
fn client(summary: &LoadSummary) -> String {
    let cpu = summary.cpu;
    let mut facts = vec![format!("{} user", seconds(cpu.user_s)), format!("{} system", seconds(cpu.system_s))];
    facts.extend(cpu.us_per_request.map(|cost| format!("{cost:.1} us per request")));
    let limit = match summary.bottleneck {
        _ if summary.wall_s < LONG_ENOUGH_S => "too short a run to tell",
        Bottleneck::None => "not the client",
        Bottleneck::Client => {
            "the client: its threads had no processor time left, so this is no measure of the server; use more threads \
             (-t) or a faster machine"
        }
        Bottleneck::Concurrency => {
            "concurrency: requests that were due waited for a free place; allow more of them at once (-c, -m), unless \
             the server is overloaded"
        }
    };
    line("client CPU", &facts) + &line("bottleneck", &[limit.to_owned()])
}

/// Why requests failed, and what else went wrong.
fn troubles(summary: &LoadSummary) -> String {
    let errors = summary.errors.iter().map(|(reason, count)| {
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        line("error", &[format!("{reason} ({times})")])
    });
    errors.chain(summary.faults.iter().map(|fault| line("error", std::slice::from_ref(fault)))).collect()
}

fn seconds(seconds: f64) -> String {
    if seconds == 0.0 { "0 us".to_owned() } else { format_duration(Duration::from_secs_f64(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_under_their_facts() {
        let facts: Vec<String> = (0..12).map(|number| format!("{} things", 1_000_000 + number)).collect();
        let text = line("label", &facts);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.starts_with("label: 1000000 things, ") && text.contains("\n       1000"), "{text}");
        assert!(text.lines().all(|line| line.ends_with("things,") || line.ends_with("things")), "{text}");
    }

    #[test]
    fn compression_saves_a_share_of_the_headers() {
        assert_eq!(bytes(2000, 25, 100, 1000), ["2 kB total", "25 B headers (space savings 75.00 %)", "1 kB data"]);
        assert_eq!(bytes(0, 0, 0, 0)[1], "0 B headers (space savings 0.00 %)");
    }
}
