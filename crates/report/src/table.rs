use analysis::counts::{self, Observed};
use measure::Trial;
use serde::Serialize;

/// One row of `trials.csv`; docs/formats.md describes every column.
#[derive(Serialize)]
struct Row<'a> {
    round: u32,
    attempt: u32,
    link: &'a str,
    entrant: usize,
    protocol: &'a str,
    seed: u64,
    started_unix_ms: u64,
    valid: bool,
    invalid: String,
    time_ms: Option<f64>,
    first_byte_ms: Option<f64>,
    connections_client: Option<u64>,
    connections_wire: Option<u64>,
    connections_origin: Option<u64>,
    handshakes_client: Option<u64>,
    handshakes_wire: Option<u64>,
    handshakes_origin: Option<u64>,
    retransmissions: Option<u64>,
    packets_lost_up: Option<u64>,
    packets_lost_down: Option<u64>,
    requests_succeeded: Option<u64>,
    requests_failed: Option<u64>,
    received_bytes: Option<u64>,
    sent_bytes: Option<u64>,
    client_cpu_ms: Option<f64>,
    origin_cpu_ms: Option<f64>,
    lateness_p99_us: Option<u64>,
    command: String,
}

impl<'a> Row<'a> {
    fn new(trial: &'a Trial) -> Row<'a> {
        let load = trial.load.as_ref();
        let link = trial.link_summary.as_ref();
        let Observed { client: connections_client, wire: connections_wire, origin: connections_origin } =
            counts::connections(trial);
        let Observed { client: handshakes_client, wire: handshakes_wire, origin: handshakes_origin } =
            counts::handshakes(trial);
        let milliseconds = |us: u64| us as f64 / 1000.0;
        Row {
            round: trial.round,
            attempt: trial.attempt,
            link: &trial.link,
            entrant: trial.entrant,
            protocol: trial.protocol.name(),
            seed: trial.seed,
            started_unix_ms: trial.started_unix_ms,
            valid: trial.is_valid(),
            invalid: trial.invalid.join("; "),
            time_ms: trial.time_ms,
            first_byte_ms: load.and_then(|load| load.pages.first()).map(|page| milliseconds(page.first_byte_us)),
            connections_client,
            connections_wire,
            connections_origin,
            handshakes_client,
            handshakes_wire,
            handshakes_origin,
            retransmissions: counts::retransmissions(trial),
            packets_lost_up: link.map(|link| link.up.drops.values().sum()),
            packets_lost_down: link.map(|link| link.down.drops.values().sum()),
            requests_succeeded: load.map(|load| load.requests.succeeded),
            requests_failed: load.map(|load| load.requests.failed),
            received_bytes: load.map(|load| load.traffic.received_bytes),
            sent_bytes: load.map(|load| load.traffic.sent_bytes),
            client_cpu_ms: counts::client_cpu_us(trial).map(milliseconds),
            origin_cpu_ms: counts::origin_cpu_us(trial).map(milliseconds),
            lateness_p99_us: link.map(|link| link.lateness.p99_us),
            command: command_line(&trial.command),
        }
    }
}

/// Writes every trial, invalid ones included, as CSV (RFC 4180) with a header; an empty field is unknown.
pub fn csv(trials: &[Trial]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for trial in trials {
        writer.serialize(Row::new(trial)).expect("a row of scalars can be written to memory");
    }
    let bytes = writer.into_inner().expect("memory can be flushed");
    String::from_utf8(bytes).expect("every field is text")
}

/// A command line as a shell reads it.
pub(crate) fn command_line(command: &[String]) -> String {
    // A command that ran holds no NUL, the one thing that cannot be quoted.
    shlex::try_join(command.iter().map(String::as_str)).unwrap_or_else(|_| command.join(" "))
}
