//! Clients that nobody here wrote: curl for HTTP/1.1 and HTTP/2, aioquic for HTTP/3.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use measure::Protocol;
use serde_json::{Value, json};

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: &'static str,
    pub path: &'static str,
    pub body: Vec<u8>,
}

impl Ask {
    pub fn get(path: &'static str) -> Ask {
        Ask { method: "GET", path, body: Vec::new() }
    }
}

/// What a client got.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// Asks over one of the protocols; `None` when there is no client for HTTP/3 on this machine.
pub fn ask(protocol: Protocol, port: u16, ca: &Path, asks: &[Ask]) -> Option<Vec<Answer>> {
    match protocol {
        Protocol::H3 => aioquic(port, ca, asks),
        _ => Some(asks.iter().map(|ask| curl(protocol, port, ca, ask)).collect()),
    }
}

fn curl(protocol: Protocol, port: u16, ca: &Path, ask: &Ask) -> Answer {
    let version = match protocol {
        Protocol::H2c => "--http2-prior-knowledge",
        Protocol::H2 => "--http2",
        _ => "--http1.1",
    };
    let url = format!("{}://localhost:{port}{}", protocol.scheme(), ask.path);
    let mut command = Command::new("curl");
    command.args(["-sSi", "--max-time", "30", version, "--cacert"]).arg(ca).arg(&url);
    match ask.method {
        "HEAD" => command.arg("--head"),
        method => command.args(["-X", method]),
    };
    if !ask.body.is_empty() {
        command.args(["-H", "content-type:", "--data-binary", "@-"]);
    }
    let output = fed(&mut command, &ask.body);
    let end = output.windows(4).position(|window| window == b"\r\n\r\n").expect("curl prints the headers");
    let head = String::from_utf8(output[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut status_line = lines.next().unwrap().split(' ');
    let spoken = status_line.next().unwrap();
    assert_eq!(spoken, if protocol.multiplexes() { "HTTP/2" } else { "HTTP/1.1" }, "{url}");
    let headers = lines.map(|line| line.split_once(": ").expect("a header has a name and a value"));
    Answer {
        status: status_line.next().unwrap().parse().unwrap(),
        headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
        body: output[end + 4..].to_vec(),
    }
}

fn aioquic(port: u16, ca: &Path, asks: &[Ask]) -> Option<Vec<Answer>> {
    let Some(python) = python_with_aioquic() else {
        testbed::skip("no aioquic; python3 -m venv target/venv && target/venv/bin/pip install aioquic");
        return None;
    };
    let requests: Vec<Value> = asks
        .iter()
        .map(|ask| json!({ "method": ask.method, "path": ask.path, "body": STANDARD.encode(&ask.body) }))
        .collect();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/h3_client.py");
    let mut command = Command::new(python);
    command.arg(script).arg(ca).arg(port.to_string());
    let answers: Vec<Value> =
        serde_json::from_slice(&fed(&mut command, &serde_json::to_vec(&requests).unwrap())).unwrap();
    Some(
        answers
            .into_iter()
            .map(|answer| Answer {
                status: answer["status"].as_u64().unwrap() as u16,
                headers: serde_json::from_value(answer["headers"].clone()).unwrap(),
                body: STANDARD.decode(answer["body"].as_str().unwrap()).unwrap(),
            })
            .collect(),
    )
}

fn python_with_aioquic() -> Option<PathBuf> {
    let kept = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/venv/bin/python"));
    [kept, PathBuf::from("python3")].into_iter().find(|python| {
        let probe = Command::new(python).args(["-c", "import aioquic"]).stderr(Stdio::null()).status();
        probe.is_ok_and(|status| status.success())
    })
}

/// Runs a command that must succeed, with `input` on its standard input, and gives what it prints.
fn fed(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the client is installed");
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success(), "{command:?}: {}", output.status);
    output.stdout
}
