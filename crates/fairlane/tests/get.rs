//! `fairlane get` as its users meet it: against `fairlane serve`, against servers of others, and against bytes made by
//! hand.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use measure::Protocol;
use serde_json::Value;
use tempfile::TempDir;

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u64,
    directory: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// `fairlane serve`.
    fn origin() -> Server {
        let directory = tempfile::tempdir().unwrap();
        let mut command = fairlane();
        command.args(["serve", "--json", "--tls-dir"]).arg(directory.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("one line of JSON when ready");
        Server { child, port: ready["port"].as_u64().unwrap(), directory }
    }

    /// Another server with a certificate of `fairlane serve`, once it listens. Ends the test's hopes if it does not.
    fn other(program: &str, configure: impl Fn(&Path, u64, &mut Command)) -> Option<Server> {
        if !testbed::has(&[program]) {
            return None;
        }
        let certificates = Server::origin();
        for _ in 0..5 {
            let directory = tempfile::tempdir().unwrap();
            for name in ["ca.pem", "cert.pem", "key.pem"] {
                fs::copy(certificates.file(name), directory.path().join(name)).unwrap();
            }
            fs::write(directory.path().join("small"), "x".repeat(100)).unwrap();
            let port = free_port();
            let mut command = Command::new(testbed::find(program).unwrap());
            configure(directory.path(), port, &mut command);
            command.env("HOME", directory.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut server = Server { child: command.spawn().unwrap(), port, directory };
            let deadline = Instant::now() + Duration::from_secs(20);
            // A port that was free may be taken by now; then the server ends and is started with another one.
            while server.child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port as u16)).is_ok() {
                    return Some(server);
                }
                assert!(Instant::now() < deadline, "{program} does not listen");
                thread::sleep(Duration::from_millis(10));
            }
        }
        panic!("{program} does not start");
    }

    /// nginx; `listen` follows the port, `extra` goes into its server block.
    fn nginx(listen: &str, extra: &str) -> Option<Server> {
        Server::other("nginx", |directory, port, command| {
            let root = directory.display();
            let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .iter()
                .map(|name| format!("{name}_temp_path {root}/{name}; "))
                .collect();
            let config = format!(
                "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log; events {{ }}
                 http {{ access_log off; {paths}
                   server {{ listen 127.0.0.1:{port} {listen}; root {root}; {extra}
                     ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; }} }}"
            );
            fs::write(directory.join("nginx.conf"), config).unwrap();
            command.arg("-e").arg(directory.join("start.log")).arg("-c").arg(directory.join("nginx.conf"));
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn get(&self, protocol: Protocol, path: &str, arguments: &[&str]) -> Command {
        let mut command = fairlane();
        let address = format!("127.0.0.1:{}", self.port);
        command.arg("get").arg(format!("{}://localhost:{}{path}", protocol.scheme(), self.port));
        command.args(["--protocol", protocol.name(), "--connect-to", &address, "--cacert"]).arg(self.file("ca.pem"));
        command.args(arguments);
        command
    }

    fn json(&self, protocol: Protocol, path: &str, arguments: &[&str]) -> Value {
        let output = succeeded(self.get(protocol, path, arguments).arg("--json"));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn fairlane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fairlane"))
}

fn succeeded(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn failed(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    message
}

/// What `-v` says about requests that succeed.
fn shown(command: &mut Command) -> String {
    String::from_utf8(succeeded(command.arg("-v")).stderr).unwrap()
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is missing in\n{text}");
    }
}

/// A port that is free for TCP and UDP.
fn free_port() -> u64 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port.into();
        }
    }
}

/// A server that answers the first request of each connection with these bytes, then does what `after` does with it.
fn canned(response: &'static [u8], after: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut received = Vec::new();
            let mut buffer = [0; 1000];
            while !received.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                match connection.read(&mut buffer) {
                    Ok(count @ 1..) => received.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            // The client may have left.
            let _ = connection.write_all(response);
            after(connection);
        }
    });
    url
}

#[test]
fn everything_is_shown_over_every_protocol() {
    let origin = Server::origin();
    for protocol in Protocol::ALL {
        let mut command = origin.get(protocol, "/bytes/1000", &["-n", "2", "-v"]);
        let output = succeeded(&mut command);
        assert_eq!(output.stdout.len(), 2000, "{protocol}: the bodies and nothing else");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_has(
            &text,
            &[
                "is 127.0.0.1, found in",
                "> ",
                "< ",
                "content-length: 1000",
                "request 1: status 200, connection 1 (new)",
                "connection 1 is used again",
                "request 2: status 200, connection 1 (reused)",
                "body 1000 bytes",
                "lookup",
                "first byte",
                "total",
                "connection 1 is closed: all requests are done",
            ],
        );
        if let Some(alpn) = protocol.alpn() {
            let alpn = String::from_utf8_lossy(alpn);
            assert_has(
                &text,
                &[
                    "TLSv1.3 TLS_",
                    " X25519MLKEM768, full handshake",
                    &format!("ALPN: '{alpn}' offered, '{alpn}' chosen"),
                    "certificate: CN=fairlane origin",
                    "for localhost, ",
                    "issued by CN=fairlane CA",
                    "good by those of --cacert",
                ],
            );
        }
        let parts: &[&str] = match protocol {
            Protocol::H1c | Protocol::H1 => &["> GET /bytes/1000 HTTP/1.1", "< HTTP/1.1 200 OK", "connection 1: TCP"],
            Protocol::H2c | Protocol::H2 => &[
                "connection 1: TCP",
                "> connection preface",
                "> SETTINGS, stream 0",
                "MAX_CONCURRENT_STREAMS 256",
                "> HEADERS END_STREAM END_HEADERS, stream 1",
                ":path: /bytes/1000",
                "< HEADERS END_HEADERS, stream 3",
                ":status: 200",
                "stream 3, 1000 bytes",
            ],
            Protocol::H3 => &[
                "connection 1: QUIC version 1",
                "initial_max_streams_bidi 256",
                "> stream 2 begins: control",
                "< SETTINGS, stream 3",
                "> HEADERS, stream 0",
                "> stream 0 ends",
                "< HEADERS, stream 4",
                "< DATA, stream 4, 1000 bytes",
                "QUIC sent",
            ],
        };
        assert_has(&text, parts);
    }
}

#[test]
fn json_says_the_same_for_programs() {
    let origin = Server::origin();
    for protocol in Protocol::ALL {
        let report = origin.json(protocol, "/bytes/50000", &["-n", "2"]);
        assert_eq!((&report["schema"], &report["protocol"]), (&1.into(), &protocol.name().into()));
        let exchanges = report["exchanges"].as_array().unwrap();
        let of_each = |key: &str| exchanges.iter().map(|exchange| exchange[key].clone()).collect::<Vec<_>>();
        assert_eq!(of_each("status"), [200, 200]);
        assert_eq!(of_each("connection"), [1, 1]);
        assert_eq!(of_each("reused"), [false, true]);
        let streams: [Value; 2] = match protocol {
            Protocol::H1c | Protocol::H1 => [Value::Null, Value::Null],
            Protocol::H2c | Protocol::H2 => [1.into(), 3.into()],
            Protocol::H3 => [0.into(), 4.into()],
        };
        assert_eq!(of_each("stream"), streams, "{protocol}");
        for exchange in exchanges {
            let [sent, received] = ["sent", "received"].map(|side| &exchange[side]);
            assert_eq!(received["body_bytes"], 50_000);
            for side in [sent, received] {
                let [wire, decoded] = ["head_bytes", "head_decoded_bytes"].map(|key| side[key].as_u64().unwrap());
                let compressed = wire < decoded && decoded > 50;
                assert!(if protocol.multiplexes() { compressed } else { wire == decoded }, "{protocol}: {side}");
            }
        }
        let handshake = &exchanges[0]["timings"]["handshake_us"];
        assert_eq!(handshake.is_u64(), protocol.is_encrypted());
        assert!(exchanges[1]["timings"]["handshake_us"].is_null(), "nothing was shaken the second time");
        let notes = report["notes"].as_array().unwrap();
        let times: Vec<_> = notes.iter().map(|note| note["at_us"].as_u64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        let data = notes.iter().filter(|note| note["what"] == "received" && note["item"]["name"] == "DATA");
        let data: u64 = data.map(|note| note["item"]["length"].as_u64().unwrap()).sum();
        assert_eq!(data, if protocol.multiplexes() { 100_000 } else { 0 });
        if let Some(note) = notes.iter().find(|note| note["what"] == "secured" || note["what"] == "quic") {
            let tls = &note["tls"];
            assert_eq!((&tls["resumed"], &tls["version"]), (&false.into(), &"TLSv1.3".into()));
            assert_eq!(tls["certificates"][0]["names"][0], "localhost");
        }
    }
}

#[test]
fn bodies_go_both_ways_in_full() {
    let origin = Server::origin();
    let body = "b".repeat(100_000);
    for protocol in Protocol::ALL {
        let output = succeeded(&mut origin.get(protocol, "/echo", &["-d", &body, "-H", "content-type: text/plain"]));
        assert_eq!(output.stdout, body.as_bytes(), "{protocol}");
        let file = origin.file("body");
        let mut command = origin.get(protocol, "/bytes/3000000", &["-o"]);
        assert_eq!(succeeded(command.arg(&file)).stdout, b"");
        assert_eq!(fs::metadata(&file).unwrap().len(), 3_000_000);
        let head = succeeded(&mut origin.get(protocol, "/bytes/1000", &["-X", "HEAD"]));
        assert_eq!((head.stdout.len(), head.stderr.len()), (0, 0));
    }
}

#[test]
fn chunks_trailers_and_interim_responses_are_shown_as_they_came() {
    let url = canned(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 \r\n\
          Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 17\r\n\r\n",
        drop,
    );
    let output = succeeded(fairlane().args(["get", "-v", &url]));
    assert_eq!(output.stdout, b"hello world");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_has(
        &text,
        &[
            "< HTTP/1.1 103 Early Hints",
            "< HTTP/1.1 200\n",
            "< chunk, 5 bytes, extension a=b",
            "< chunk, 6 bytes",
            "< last chunk",
            "X-Sum: 17",
            "received head 45 bytes, body 11 bytes",
        ],
    );
}

#[test]
fn a_server_does_not_command_the_terminal() {
    let url = canned(b"HTTP/1.1 200 OK\r\nX-Escape: \x1b[31mred\r\n\r\n", drop);
    let text = failed(fairlane().args(["get", "-v", &url]), 1);
    assert_has(&text, &["X-Escape: \\u{1b}[31mred", "malformed HTTP/1.1 response"]);
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn a_server_that_closes_gets_a_new_connection_per_request() {
    let old = canned(b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nuntil the end", drop);
    let forgetful = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", drop);
    for (url, body, reason) in [
        (old, "until the end", "connection 1 is closed: it takes no more requests"),
        (forgetful, "body", "the request is sent again on a new connection"),
    ] {
        let output = succeeded(fairlane().args(["get", "-v", "-n", "2", &url]));
        assert_eq!(output.stdout, body.repeat(2).as_bytes());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_has(&text, &[reason, "request 2: status 200, connection 2 (new)"]);
    }
}

#[test]
fn goaway_and_resumption_are_shown_with_nginx() {
    let Some(server) = Server::nginx("ssl http2", "keepalive_requests 1;") else { return };
    let text = shown(&mut server.get(Protocol::H2, "/small", &["-n", "2"]));
    assert_has(
        &text,
        &[
            "< GOAWAY, stream 0, 8 bytes: stream 1, NO_ERROR (0x0)",
            "connection 1 is closed: it takes no more requests",
            "session resumed in",
            "request 2: status 200, connection 2 (new), stream 1",
        ],
    );
    let text = shown(&mut server.get(Protocol::H1, "/small", &[]));
    assert_has(&text, &["Server: nginx", "body 100 bytes"]);
}

#[test]
fn caddy_is_shown_over_every_protocol_that_it_speaks() {
    let server = Server::other("caddy", |directory, port, command| {
        let root = directory.display();
        let config = format!(
            "{{\n admin off\n auto_https off\n storage file_system {root}/storage\n}}
             https://localhost:{port} {{\n tls {root}/cert.pem {root}/key.pem\n root * {root}\n file_server\n}}\n"
        );
        fs::write(directory.join("Caddyfile"), config).unwrap();
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(directory.join("Caddyfile"));
    });
    let Some(server) = server else { return };
    for protocol in [Protocol::H1, Protocol::H2, Protocol::H3] {
        let text = shown(&mut server.get(protocol, "/small", &["-n", "2"]));
        assert_has(&text, &["Caddy", "body 100 bytes", "request 2: status 200, connection 1 (reused)"]);
    }
}

#[test]
fn trailers_of_nghttpd_are_shown() {
    let server = Server::other("nghttpd", |directory, port, command| {
        command.args(["--no-tls", "--trailer", "x-sum: 17", "--address", "127.0.0.1", "--htdocs"]).arg(directory);
        command.arg(port.to_string());
    });
    let Some(server) = server else { return };
    let text = shown(&mut server.get(Protocol::H2c, "/small", &[]));
    assert_has(
        &text,
        &["< HEADERS END_STREAM END_HEADERS, stream 1", "x-sum: 17", "server: nghttpd", "trailer: x-sum"],
    );
}

#[test]
fn exit_codes_say_how_it_went() {
    let origin = Server::origin();
    for protocol in Protocol::ALL {
        let output = succeeded(&mut origin.get(protocol, "/nothing", &[]));
        assert_eq!(output.stderr, b"", "{protocol}: a response is a response, whatever its status");
        let url = format!("{}://127.0.0.1:{}/", protocol.scheme(), free_port());
        let message = failed(fairlane().args(["get", &url, "--insecure", "--protocol", protocol.name()]), 3);
        assert_has(&message, &["cannot connect to", "refused"]);
        if protocol.is_encrypted() {
            let mut command = fairlane();
            command.args(["get", &format!("https://localhost:{}/", origin.port), "--protocol", protocol.name()]);
            assert_has(&failed(&mut command, 3), &["certificate", "--cacert"]);
        }
    }
    for (arguments, part) in [
        (&["ftp://host/"][..], "expected http or https"),
        (&["http://host/", "--protocol", "h2"], "h1c or h2c"),
        (&["http://host/", "-n", "0"], "-n 0"),
        (&["http://host/", "-H", "no colon"], "Name: value"),
        (&["https://host/", "--cacert", "/does/not/exist"], "/does/not/exist"),
        (&["http://host/", "-o", "/does/not/exist"], "/does/not/exist"),
    ] {
        assert_has(&failed(fairlane().arg("get").args(arguments), 2), &[part]);
    }
    let cut = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", drop);
    assert_eq!(failed(fairlane().args(["get", &cut]), 1), "fairlane: the server closed the connection\n");
    let other = canned(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", drop);
    assert_has(&failed(fairlane().args(["get", "-v", &other]), 1), &["< SSH-2.0", "malformed HTTP/1.1 response"]);
}

#[test]
fn a_wrong_protocol_is_named() {
    let Some(server) = Server::nginx("ssl", "") else { return };
    let message = failed(&mut server.get(Protocol::H2, "/small", &[]), 3);
    assert_has(&message, &["does not speak h2: 'h2' was offered"]);
}

#[test]
fn nothing_waits_longer_than_the_timeout() {
    let silent = canned(b"", std::mem::forget);
    let trickling = canned(b"HTTP/1.1 200 OK\r\nX: ", |mut connection| {
        while connection.write_all(b"x").is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
    });
    for url in [silent, trickling] {
        let begun = Instant::now();
        let message = failed(fairlane().args(["get", &url, "--timeout", "300ms"]), 1);
        assert_eq!(message, "fairlane: no answer within the timeout\n");
        assert!((Duration::from_millis(300)..Duration::from_secs(20)).contains(&begun.elapsed()));
    }
    // Nobody answers on a socket that is only bound.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", socket.local_addr().unwrap());
    let message = failed(fairlane().args(["get", &url, "--insecure", "--protocol", "h3", "--timeout", "300ms"]), 3);
    assert_has(&message, &["no answer within the timeout"]);
}

#[test]
fn output_that_nobody_takes_is_no_panic() {
    let origin = Server::origin();
    for protocol in Protocol::ALL {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = origin.get(protocol, "/bytes/3000000", &[]);
        assert_eq!(failed(command.stdout(writer), 0), "", "a reader that has had enough is no failure");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = origin.get(protocol, "/bytes/3000000", &[]);
        assert_has(&failed(command.stdout(full), 3), &["cannot write the body"]);
    }
}

#[test]
fn a_binary_body_stays_away_from_the_terminal() {
    if !testbed::has(&["script"]) {
        return;
    }
    let binary = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na\0b", drop);
    let text = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain", drop);
    let terminal = |arguments: &str| {
        let command = format!("{} get {arguments}", env!("CARGO_BIN_EXE_fairlane"));
        Command::new("script").args(["--quiet", "--return", "--command", &command, "/dev/null"]).output().unwrap()
    };
    let output = terminal(&binary);
    assert_eq!(output.status.code(), Some(2));
    assert_has(&String::from_utf8(output.stdout).unwrap(), &["the body is binary", "-o FILE"]);
    let output = terminal(&format!("{binary} -o -"));
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"a\0b".to_vec()));
    let output = terminal(&text);
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"plain".to_vec()));
}
