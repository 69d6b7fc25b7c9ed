//! How much memory a server can make the client use. A program of its own, because the peak counts for all of it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use load::{Amount, Model, Plan, Target};
use measure::Protocol;

/// 100 MB of a header field's value, of which the client refuses to take most.
const PIECES: usize = 6400;
const PIECE: [u8; 16_384] = [b'v'; 16_384];

/// HTTP/1.1: one endless line.
fn long_line(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nname: ")?;
    (0..PIECES).try_for_each(|_| stream.write_all(&PIECE))
}

/// HTTP/2: HEADERS on the first stream, and CONTINUATION after CONTINUATION without END_HEADERS.
fn long_block(stream: &mut TcpStream) -> io::Result<()> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    // `:status: 200`, and the beginning of a literal field whose value has 100 MB (RFC 7541 sections 5.1 and 6.2.2).
    const HEADERS: [u8; 18] = [0, 0, 9, 1, 0, 0, 0, 0, 1, 0x88, 0x00, 0x01, b'n', 0x7f, 0x81, 0xff, 0x83, 0x32];
    const CONTINUATION: [u8; 9] = [0, 0x40, 0, 9, 0, 0, 0, 0, 1];
    stream.write_all(&[&SETTINGS[..], &HEADERS].concat())?;
    (0..PIECES).try_for_each(|_| stream.write_all(&[&CONTINUATION[..], &PIECE].concat()))
}

/// Largest resident set so far, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

/// Runs ten requests, over two connections at once, against a server that answers with what `send` sends.
fn assert_refused_and_not_kept(
    protocol: Protocol,
    reason: &str,
    send: impl Fn(&mut TcpStream) -> io::Result<()> + Copy + Send + 'static,
) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                // The client goes as soon as it has seen enough.
                let _ = send(&mut stream);
            });
        }
    });
    let target = Target::parse(&url, None).unwrap();
    let plan = Plan::new(target, protocol, Model::ClosedLoop, Amount::Requests(10));
    let before = peak();
    let summary = load::run(&Plan { connections: 2, ..plan }, &mut |_| true).unwrap();
    let grown = peak() - before;
    assert!(grown < 16_000_000, "{protocol}: {grown} bytes");
    assert_eq!((summary.requests.failed, summary.requests.errored), (10, 10));
    assert!(summary.errors.keys().all(|found| found.ends_with(reason)), "{protocol}: {:?}", summary.errors);
}

#[test]
fn a_head_of_100_mb_is_refused_and_not_kept() {
    let reason = "malformed HTTP/1.1 response: a head longer than 64 kB";
    assert_refused_and_not_kept(Protocol::H1c, reason, long_line);
    let reason = "HTTP/2 connection error 0xb: a header block is longer than 256 kB";
    assert_refused_and_not_kept(Protocol::H2c, reason, long_block);
}
