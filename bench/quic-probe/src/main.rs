//! What a request over HTTP/3 costs with each of three QUIC libraries.
//!
//! A closed loop in one thread: the same sockets, system calls, request bytes and walk over response frames for all, so
//! that what differs is the library. It measures nothing but its own use of the processor and memory.
//!
//! ```text
//!   epoll ──> recvmmsg, GRO ──> Client::take ──> advance ──> start ──> transmit ──> sendmsg, GSO
//!                               (quinn.rs, noq.rs, quiche.rs; http3.rs for the bytes)
//! ```

mod client;
mod drive;
mod http3;
mod noq;
mod quiche;
mod quinn;
mod tls;

use std::net::SocketAddr;
use std::process::ExitCode;

const USAGE: &str = "Usage: quic-probe quinn-proto|noq-proto|quiche ADDRESS PATH CONNECTIONS STREAMS REQUESTS

Prints one line of JSON: CPU and system calls per request without handshakes, CPU of start and handshakes, memory.";

/// What to do.
pub struct Plan {
    pub server: SocketAddr,
    pub path: String,
    pub connections: usize,
    pub streams: usize,
    pub requests: u64,
}

fn plan(arguments: &[String]) -> Option<Plan> {
    let [server, path, connections, streams, requests] = arguments else { return None };
    Some(Plan {
        server: server.parse().ok()?,
        path: path.clone(),
        connections: connections.parse().ok().filter(|count| *count > 0)?,
        streams: streams.parse().ok().filter(|count| *count > 0)?,
        requests: requests.parse().ok().filter(|count| *count > 0)?,
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (library, rest) = arguments.split_first().map_or(("", &[][..]), |(library, rest)| (library, rest));
    let report = match (library, plan(rest)) {
        ("quinn-proto", Some(plan)) => drive::run::<quinn::Quinn>(&plan),
        ("noq-proto", Some(plan)) => drive::run::<noq::Noq>(&plan),
        ("quiche", Some(plan)) => drive::run::<quiche::Quiche>(&plan),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match report {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("quic-probe: {error}");
            ExitCode::FAILURE
        }
    }
}
