//! Programs behind `fairlane link`: what they and the kernel measure is compared with what the link was told to be.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use measure::{LinkSummary, OriginCounters};

const FAIRLANE: &str = env!("CARGO_BIN_EXE_fairlane");

/// An origin on TCP port 8443 that answers each number it receives with so many bytes, over IPv4 and IPv6.
const BYTES_ORIGIN: &str = "
import socket
listener = socket.create_server(('::', 8443), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
while True:
    connection, _ = listener.accept()
    with connection:
        while number := connection.recv(100):
            connection.sendall(b'x' * int(number))
";

/// Whether a lab can be built here and the oracle is present; says loudly why not.
fn can_run() -> bool {
    if let Err(error) = link::availability() {
        testbed::skip(&error.to_string());
        return false;
    }
    testbed::has(&["python3"])
}

fn fairlane(arguments: &[&str]) -> Command {
    let mut command = Command::new(FAIRLANE);
    command.arg("link").args(arguments);
    command
}

/// Runs a link with JSON output and returns what the client printed and what the link did.
fn measure(link: &[&str], client: &[&str]) -> (String, LinkSummary) {
    let output = fairlane(&[link, &["--json", "--"], client].concat()).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let json = stderr.lines().last().unwrap_or_default();
    (text(&output.stdout), serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {stderr}")))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A command line for `--origin` that runs a Python program.
fn python(program: &str) -> String {
    format!("python3 -u -c {}", shlex::try_quote(program).unwrap())
}

/// Waits for a condition that must come true soon.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(10), "{what} did not come true within 10 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn passes_stdin_stdout_environment_and_exit_code_on() {
    if !can_run() {
        return;
    }
    let mut child = fairlane(&["rtt=1ms", "--", "sh", "-c", "cat; echo $FAIRLANE_TEST; exit 7"])
        .env("FAIRLANE_TEST", "from outside")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "from stdin\nfrom outside\n");
    assert_eq!(output.status.code(), Some(7));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("no packet crossed the link"), "{stderr}");
    assert!(stderr.contains("client  exit code 7"), "{stderr}");

    let killed = fairlane(&["rtt=1ms", "--", "sh", "-c", "kill -9 $$"]).output().unwrap();
    assert_eq!(killed.status.code(), Some(137));
}

#[test]
fn wrong_usage_is_refused_before_anything_is_started() {
    let refused = |arguments: &[&str]| {
        let output = fairlane(arguments).output().unwrap();
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        (output.status.code(), text(&output.stderr))
    };
    let started = ["--", "echo", "started"];
    let with = |arguments: &[&'static str]| [arguments, &started].concat();
    assert_eq!(refused(&["rtt=1ms"]).0, Some(2));
    assert_eq!(refused(&with(&["no-such-link"])).0, Some(2));
    assert_eq!(refused(&with(&["rtt=1ms", "--origin", "open 'quote"])).0, Some(2));
    assert_eq!(refused(&with(&["rtt=1ms", "-o", "/no/such/directory/file"])).0, Some(2));
    let (code, stderr) = refused(&with(&["rtt=1ms", "--origin", "no-such-origin"]));
    assert!(code == Some(3) && stderr.contains("no-such-origin: command not found"), "{code:?} {stderr}");
    assert_eq!(refused(&with(&["rtt=1ms", "--initial-window", "1001"])).0, Some(2));
    assert_eq!(refused(&["rtt=1ms", "--", "no-such-program"]).0, Some(127));
    assert_eq!(refused(&["rtt=1ms", "--", "/dev/null"]).0, Some(126));
}

#[test]
fn the_help_has_every_profile_with_its_figures() {
    let help = text(&fairlane(&["--help"]).output().unwrap().stdout);
    for named in link::profile::Profile::named() {
        assert!(help.contains(&format!("\n  {} ", named.name)), "{help}");
    }
    for part in ["1.6/0.75 Mbit/s, RTT 150 ms", "rate=", "delay=", "rtt=", "queue=", "loss=", "DOWN/UP", "Examples:"] {
        assert!(help.contains(part), "'{part}' is missing in\n{help}");
    }
}

#[test]
fn a_summary_that_nobody_takes_does_not_change_the_exit_code() {
    if !can_run() {
        return;
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = fairlane(&["rtt=1ms", "--", "sh", "-c", "exit 5"]).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(5));
}

#[test]
fn an_origin_that_does_not_serve_is_reported_with_what_it_said() {
    if !can_run() {
        return;
    }
    let origin = "sh -c 'echo out of luck; exit 4'";
    let output = fairlane(&["rtt=1ms", "--origin", origin, "--", "echo", "started"]).output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "");
    assert!(stderr.starts_with("out of luck\n"), "{stderr}");
    assert!(stderr.contains("exit code 4 before it listened on port 8443"), "{stderr}");

    let output = fairlane(&["rtt=1ms", "--congestion-control", "no-such-one", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("'no-such-one': it offers"), "{}", text(&output.stderr));
}

#[test]
fn tcp_sees_the_round_trip_time_and_congestion_control_that_were_set() {
    if !can_run() {
        return;
    }
    // TCP_CONGESTION is 13, TCP_INFO 11; the congestion window is at byte 80 of struct tcp_info.
    let client = "
import socket, sys, time
for i in range(8):
    began = time.monotonic()
    connection = socket.create_connection((sys.argv[1], 8443))
    elapsed = time.monotonic() - began
    name = connection.getsockopt(socket.IPPROTO_TCP, 13, 16).rstrip(b'\\0').decode()
    window = int.from_bytes(connection.getsockopt(socket.IPPROTO_TCP, 11, 104)[80:84], sys.byteorder)
    print(elapsed * 1000, name, window)
    connection.close()
";
    for host in ["origin", "origin6"] {
        let origin = python(BYTES_ORIGIN);
        let link = ["delay=15ms/25ms", "--origin", &origin, "--congestion-control", "reno", "--initial-window", "17"];
        let (stdout, summary) = measure(&link, &["python3", "-c", client, host]);
        let mut times_ms = Vec::new();
        for line in stdout.lines() {
            let (time, transport) = line.split_once(' ').unwrap();
            assert_eq!(transport, "reno 17", "{host}");
            times_ms.push(time.parse::<f64>().unwrap());
        }
        times_ms.sort_by(f64::total_cmp);
        assert_eq!(times_ms.len(), 8);
        assert!(times_ms[0] >= 40.0, "{host}: nothing is faster than the link: {times_ms:?}");
        assert!(times_ms[0] < 42.0, "{host}: {times_ms:?}");

        assert_eq!((summary.up.delay_us, summary.down.delay_us), (25_000, 15_000));
        assert_eq!((summary.congestion_control.as_str(), summary.initial_window_packets), ("reno", 17));
        assert_eq!((summary.tap.tcp_opened, summary.tap.tcp_completed), (8, 8), "{host}");
        assert_eq!(summary.tap.flows.len(), 8, "only the program's own packets cross the link: {:?}", summary.tap);
        assert_eq!(summary.unmodelled_drops, 0);
        assert_eq!(summary.client.exit_code, 0);
        assert!(summary.client.cpu.total_us() > 0);
        assert_eq!(summary.origin.unwrap().exit_code, 128 + 15, "the origin is asked to end");
    }
}

#[test]
fn a_transfer_takes_the_time_that_the_rate_says() {
    if !can_run() {
        return;
    }
    // From the first to the last read; the bytes of the first read were under way before the clock was started.
    let client = "
import socket, time
connection = socket.create_connection(('origin', 8443))
connection.sendall(b'1048576')
first = len(connection.recv(1 << 20))
began, rest = time.monotonic(), 1048576 - first
while rest:
    rest -= len(connection.recv(min(rest, 1 << 20)))
print((1048576 - first) * 8 / (time.monotonic() - began))
";
    // A full packet carries 1448 bytes of the stream in 1500 bytes of IP.
    let expected = 10e6 * 1448.0 / 1500.0;
    let origin = python(BYTES_ORIGIN);
    let mut errors = Vec::new();
    for _ in 0..3 {
        let (stdout, summary) = measure(&["rate=10mbit queue=2MB", "--origin", &origin], &["python3", "-c", client]);
        assert_eq!(summary.down.drops.values().sum::<u64>(), 0);
        let rate: f64 = stdout.trim().parse().unwrap();
        errors.push(rate / expected - 1.0);
        assert!(errors.last() < Some(&0.01), "faster than the link: {errors:?}");
        if errors.last() > Some(&-0.01) {
            return;
        }
    }
    panic!("a busy machine may slow one transfer down, but not every one: {errors:?}");
}

#[test]
fn the_seed_decides_which_packets_are_lost() {
    if !can_run() {
        return;
    }
    // What the origin prints when it is asked to end is what got through; the sender uses segmentation offload
    // (UDP_SEGMENT, 103), as QUIC does, so each datagram must arrive by itself.
    let origin = python(
        "
import signal, socket, sys
receiver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
receiver.bind(('::', 8443))
got = []
signal.signal(signal.SIGTERM, lambda *_: sys.exit(''.join(f'got {number} {length}\\n' for number, length in got)))
while True:
    datagram = receiver.recv(65536)
    got.append((datagram[:4].decode(), len(datagram)))
",
    );
    let client = "
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_UDP, 103, 1000)
for batch in range(50):
    sender.sendto(b''.join(b'%04d' % (batch * 10 + i) + b'.' * 996 for i in range(10)), ('origin', 8443))
    time.sleep(0.004)
time.sleep(0.3)
";
    let arrived = |seed: &str| {
        let link = ["rtt=10ms loss=10%", "--seed", seed, "--port", "8443", "--origin", &origin, "--json"];
        let output = fairlane(&[&link[..], &["--", "python3", "-c", client]].concat()).output().unwrap();
        let stderr = text(&output.stderr);
        let got = stderr.lines().filter_map(|line| line.strip_prefix("got "));
        let summary: LinkSummary = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
        (got.map(str::to_owned).collect::<BTreeSet<_>>(), summary)
    };
    let (first, summary) = arrived("7");
    assert!(first.iter().all(|line| line.ends_with(" 1000")), "{first:?}");
    assert_eq!((summary.up.packets, summary.unmodelled_drops), (500, 0));
    assert_eq!(summary.up.drops["loss"], 500 - first.len() as u64);
    assert!((20..=80).contains(&summary.up.drops["loss"]), "10 % of 500: {:?}", summary.up.drops);
    assert_eq!(arrived("7").0, first);
    assert_ne!(arrived("8").0, first);
}

#[test]
fn signals_reach_the_client_and_the_summary_still_comes() {
    if !can_run() {
        return;
    }
    for (signal, code) in [("TERM", 128 + 15), ("INT", 128 + 2)] {
        let mut child = started(&["--origin", &python(BYTES_ORIGIN)], "echo ready; exec sleep 1000");
        let _ = line_of(&mut child);
        send(signal, &child.id().to_string());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "SIG{signal}");
        assert!(text(&output.stderr).contains(&format!("client  exit code {code}")), "{}", text(&output.stderr));
    }
    // Ctrl-C reaches the whole group; a client that handles it may finish its work.
    let mut child = started(&[], "trap 'echo bye; exit 3' INT; echo ready; while :; do sleep 0.1; done");
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(stdout.next().unwrap().unwrap(), "ready");
    send("INT", &format!("-{}", child.id()));
    assert_eq!(stdout.next().unwrap().unwrap(), "bye");
    assert_eq!(child.wait().unwrap().code(), Some(3));
}

#[test]
fn killing_the_link_leaves_no_process_and_no_namespace() {
    if !can_run() {
        return;
    }
    // The second sleep is an orphan in a session of its own, which no signal to a process group would reach.
    let script = "setsid sleep 1000 & readlink /proc/self/ns/net; sleep 1000";
    let mut child = started(&["--origin", &python(BYTES_ORIGIN)], script);
    let namespace = line_of(&mut child);
    assert!(namespace.starts_with("net:["), "{namespace}");
    assert!(processes_in(&namespace) >= 2);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the lab's processes", || processes_in(&namespace) == 0);
}

#[test]
fn works_for_an_ordinary_user() {
    if !can_run() {
        return;
    }
    let Some(user) = testbed::OrdinaryUser::with(FAIRLANE) else { return };
    let client = "
import os, socket
listener = socket.create_server(('client', 80))
connection = socket.create_connection(('origin', 8443))
connection.sendall(b'5')
print(os.getuid(), connection.recv(5).decode(), connection.getsockopt(socket.IPPROTO_TCP, 13, 16).rstrip(b'\\0').decode())
";
    let output = user
        .command()
        .args(["link", "rtt=1ms", "--origin", &python(BYTES_ORIGIN), "--", "python3", "-c", client])
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "1000 xxxxx cubic\n", "{}", text(&output.stderr));
}

#[test]
fn the_congestion_control_of_the_route_holds_for_an_ordinary_users_origin() {
    if !can_run() || !testbed::has(&["curl"]) {
        return;
    }
    let Some(user) = testbed::OrdinaryUser::with(FAIRLANE) else { return };
    // The user's copy of fairlane, in the folder in which it is started.
    let origin = "./program serve --port 8443 --admin 0.0.0.0:9000";
    let client = "curl -sSfo /dev/null http://origin:8443/bytes/1 && curl -sSf http://origin:9000/stats";
    let output =
        user.command().args(["link", "rtt=1ms", "--origin", origin, "--", "sh", "-c", client]).output().unwrap();
    let stderr = text(&output.stderr);
    let counters = text(&output.stdout);
    let json = &counters[counters.find('{').unwrap_or_else(|| panic!("{counters}{stderr}"))..];
    let counters: OriginCounters = serde_json::from_str(json).unwrap();
    assert_eq!(counters.tcp_congestion_control.as_deref(), Some("cubic"));
    assert!(!stderr.contains("warning"), "{stderr}");
}

/// Starts a shell script behind a link, in a process group of its own.
fn started(link: &[&str], script: &str) -> Child {
    fairlane(&[&["rtt=1ms"], link, &["--", "sh", "-c", script]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap()
}

/// The next line that a program prints.
fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn send(signal: &str, target: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), "--", target]).status().unwrap().success());
}

/// How many processes are in a network namespace, given as the kernel writes it.
fn processes_in(namespace: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|entry| fs::read_link(entry.path().join("ns/net")).is_ok_and(|it| it == Path::new(namespace)))
        .count()
}
