use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use measure::units::format_duration;
use wire::trace::{Code, Content, Field, Frame, Item};

use super::report::{Exchange, Note, Sizes, Tls, What};

/// Draws a note as one line or several, in the manner of curl: `*` facts, `>` sent, `<` received, each with the time
/// since the command began.
pub fn line(note: &Note) -> String {
    let (mark, lines) = match &note.what {
        What::Sent { item } => ('>', item_lines(item)),
        What::Received { item } => ('<', item_lines(item)),
        fact => ('*', fact_lines(fact, note.connection)),
    };
    draw(&time(note.at_us), mark, &lines)
}

/// Sums an exchange up in a few lines.
pub fn summary(exchange: &Exchange) -> String {
    let Exchange { number, connection, stream, timings, .. } = exchange;
    let status = exchange.status.map_or_else(|| "no response".to_owned(), |status| format!("status {status}"));
    let reused = if exchange.reused { "reused" } else { "new" };
    let stream = stream.map_or_else(String::new, |stream| format!(", stream {stream}"));
    let mut lines = vec![
        format!("request {number}: {status}, connection {connection} ({reused}){stream}"),
        format!("sent {}", sizes(exchange.sent)),
        format!("received {}", sizes(exchange.received)),
    ];
    let phases = [
        ("lookup", timings.lookup_us),
        ("TCP connect", timings.connect_us),
        ("handshake", timings.handshake_us),
        ("first byte", timings.first_byte_us),
        ("transfer", timings.transfer_us),
        ("total", Some(timings.total_us)),
    ];
    let phases = phases.iter().filter_map(|(name, took)| Some(format!("{name} {}", time((*took)?))));
    lines.push(phases.collect::<Vec<_>>().join(", "));
    lines.extend(exchange.error.iter().map(|error| format!("failed: {error}")));
    draw("", '*', &lines)
}

/// Puts the time before the first line and the mark before each. What the server wrote cannot command the terminal.
fn draw(time: &str, mark: char, lines: &[String]) -> String {
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let time = if number == 0 { time } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{time:>8} {mark} ");
        for letter in line.chars() {
            if letter.is_control() { text.extend(letter.escape_default()) } else { text.push(letter) }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn fact_lines(fact: &What, connection: u32) -> Vec<String> {
    match fact {
        What::Resolved { endpoint, addresses, took_us } => {
            let addresses: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
            vec![format!("{endpoint} is {}, found in {}", addresses.join(" and "), time(*took_us))]
        }
        What::Unreachable { address, reason } => vec![format!("cannot connect to {address}: {reason}")],
        What::Connected { local, remote, took_us } => vec![connected(connection, "TCP", local, remote, *took_us)],
        What::Secured { tls, took_us } => tls_lines(tls, &format!(" in {}", time(*took_us))),
        What::Quic { local, remote, version, parameters, tls, took_us } => {
            let mut lines = vec![connected(connection, &format!("QUIC version {version}"), local, remote, *took_us)];
            lines.extend(tls_lines(tls, ""));
            lines.push("the server's transport parameters:".to_owned());
            lines.extend(parameters.iter().map(|parameter| format!("  {} {}", parameter.name, parameter.value)));
            lines
        }
        What::Reused => vec![format!("connection {connection} is used again")],
        What::Stale => vec!["the request is sent again on a new connection".to_owned()],
        What::Closed { reason, quic } => {
            let mut lines = vec![format!("connection {connection} is closed: {reason}")];
            lines.extend(quic.as_ref().map(|quic| {
                let (sent, lost) = (quic.sent_packets, quic.lost_packets);
                format!("QUIC sent {sent} packets, {lost} of them lost, {} congestion events", quic.congestion_events)
            }));
            lines
        }
        What::Sent { item } | What::Received { item } => item_lines(item),
    }
}

fn connected(connection: u32, transport: &str, local: &SocketAddr, remote: &SocketAddr, took_us: u64) -> String {
    format!("connection {connection}: {transport} from {local} to {remote} in {}", time(took_us))
}

fn tls_lines(tls: &Tls, took: &str) -> Vec<String> {
    let facts = &tls.facts;
    let handshake = if tls.resumed { "session resumed" } else { "full handshake" };
    let chosen = facts.alpn.as_ref().map_or_else(|| "none".to_owned(), |alpn| format!("'{alpn}'"));
    let mut lines = vec![
        format!("{} {} {}, {handshake}{took}", facts.version, facts.cipher, facts.group),
        format!("ALPN: '{}' offered, {chosen} chosen", tls.alpn_offered),
    ];
    if let Some(certificate) = tls.certificates.first() {
        lines.push(format!("certificate: {}", certificate.subject));
        lines.push(format!("  for {}", certificate.names.join(", ")));
        lines.push(format!("  from {} until {}", certificate.not_before, certificate.not_after));
        lines.push(format!("  issued by {}", certificate.issuer));
    }
    lines.push(match facts.verification.as_str() {
        "insecure" => "the certificate is not checked (--insecure)".to_owned(),
        "cacert" => "the certificate is good by those of --cacert".to_owned(),
        _ => "the certificate is good by the root certificates of this machine".to_owned(),
    });
    lines
}

fn item_lines(item: &Item) -> Vec<String> {
    match item {
        Item::Head { start_line, fields, bytes } => {
            let mut lines = vec![start_line.clone()];
            lines.extend(fields.iter().map(field));
            lines.push(format!("({bytes} bytes)"));
            lines
        }
        Item::Chunk { size: 0, extensions } => vec![format!("last chunk{}", extension(extensions))],
        Item::Chunk { size, extensions } => vec![format!("chunk, {size} bytes{}", extension(extensions))],
        Item::Trailers { fields, bytes } => {
            let mut lines = vec![format!("trailers, {bytes} bytes")];
            lines.extend(fields.iter().map(|trailer| format!("  {}", field(trailer))));
            lines
        }
        Item::Preface => vec!["connection preface, 24 bytes".to_owned()],
        Item::Frame(frame) => frame_lines(frame),
        Item::Stream { stream, purpose } => vec![format!("stream {stream} begins: {purpose}")],
        Item::Instructions { stream, bytes } => vec![format!("QPACK instructions, stream {stream}, {bytes} bytes")],
        Item::End { stream } => vec![format!("stream {stream} ends")],
        Item::Reset { stream, code } => vec![format!("stream {stream} is reset: {}", self::code(code))],
        Item::Stop { stream, code } => vec![format!("stream {stream} is stopped: {}", self::code(code))],
        Item::Unreadable { reason } => vec![format!("what follows cannot be read: {reason}")],
    }
}

fn frame_lines(frame: &Frame) -> Vec<String> {
    let Frame { name, stream, length, flags, content } = frame;
    let flags = flags.iter().fold(String::new(), |text, flag| text + " " + flag);
    let mut head = format!("{name}{flags}, stream {stream}, {length} bytes");
    let mut lines = Vec::new();
    match content {
        Content::Opaque => {}
        Content::Fields { fields, encoded_bytes, decoded_bytes } => {
            head += &format!(": fields of {encoded_bytes} bytes, {decoded_bytes} uncompressed");
            lines.extend(fields.iter().map(|each| format!("  {}", field(each))));
        }
        Content::Settings { settings } => {
            lines.extend(settings.iter().map(|setting| format!("  {} {}", setting.name, setting.value)));
        }
        Content::Window { increment } => head += &format!(": {increment} bytes more"),
        Content::Reset { code } => head += &format!(": {}", self::code(code)),
        Content::Goaway { stream, code, debug } => {
            head += &format!(": stream {stream}");
            head += &code.as_ref().map_or_else(String::new, |code| format!(", {}", self::code(code)));
            if !debug.is_empty() {
                head += &format!(", '{debug}'");
            }
        }
        Content::Ping { number } => head += &format!(": {number:#018x}"),
        Content::Malformed { reason } => head += &format!(": malformed: {reason}"),
    }
    lines.insert(0, head);
    lines
}

fn field(field: &Field) -> String {
    format!("{}: {}", field.name, field.value)
}

fn extension(extensions: &str) -> String {
    if extensions.is_empty() { String::new() } else { format!(", extension {extensions}") }
}

fn code(code: &Code) -> String {
    format!("{} ({:#x})", code.name, code.value)
}

fn sizes(sizes: Sizes) -> String {
    let Sizes { head_bytes, head_decoded_bytes, body_bytes } = sizes;
    let head = if head_bytes == head_decoded_bytes {
        format!("head {head_bytes} bytes")
    } else {
        format!("head {head_bytes} bytes ({head_decoded_bytes} uncompressed)")
    };
    format!("{head}, body {body_bytes} bytes")
}

fn time(micros: u64) -> String {
    if micros == 0 { "0 us".to_owned() } else { format_duration(Duration::from_micros(micros)) }
}
