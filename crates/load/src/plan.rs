use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use measure::{CongestionControl, Protocol};
use wire::Request;

use crate::{LoadError, Target};

/// What to do, decided before anything starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where requests go.
    pub target: Target,
    /// The protocol to speak; another one is never accepted in its place.
    pub protocol: Protocol,
    /// How much to do.
    pub amount: Amount,
    /// Connections at once, at least 1.
    pub connections: u32,
    /// Requests in flight on each connection, at least 1.
    pub streams: u32,
    /// Threads, each with its own event loop and its own connections, at least 1.
    pub threads: u32,
    /// Whether HTTP/1.1 may have several requests in flight on a connection.
    pub pipeline: bool,
    /// Method of each request.
    pub method: String,
    /// Header fields of each request besides those that the protocol needs. `host` replaces the URL's authority.
    pub headers: Vec<(String, String)>,
    /// Body of each request; empty for none.
    pub body: Bytes,
    /// Longest time for a request, and for making a connection.
    pub timeout: Duration,
    /// How the server's certificate is checked.
    pub verification: Verification,
    /// Congestion control of QUIC. That of TCP belongs to the kernel.
    pub congestion_control: CongestionControl,
    /// Initial congestion window of QUIC in packets of 1448 bytes; 10 is the default of Linux for TCP (RFC 6928).
    pub initial_window_packets: u32,
}

/// How much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many requests, spread evenly over the connections.
    Requests(u64),
    /// As many requests as fit in a time.
    Duration {
        /// Time in which requests run but are not measured.
        warm_up: Duration,
        /// Time that is measured, after the warm-up.
        length: Duration,
    },
    /// So many loads of a page with its objects, one after the other, each with fresh connections.
    Pages(u32),
}

/// How the server's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Against the root certificates of this machine.
    Roots,
    /// Against the certificates of a PEM file.
    CaFile(PathBuf),
    /// Not at all.
    Insecure,
}

impl Plan {
    /// One GET request over one connection; in page mode what a browser uses: six connections for HTTP/1.1, one with
    /// a hundred streams for the others.
    pub fn new(target: Target, protocol: Protocol, amount: Amount) -> Plan {
        let (connections, streams) = match (amount, protocol.multiplexes()) {
            (Amount::Pages(_), false) => (6, 1),
            (Amount::Pages(_), true) => (1, 100),
            _ => (1, 1),
        };
        Plan {
            target,
            protocol,
            amount,
            connections,
            streams,
            threads: 1,
            pipeline: false,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(30),
            verification: Verification::Roots,
            congestion_control: CongestionControl::Cubic,
            initial_window_packets: 10,
        }
    }

    /// The protocol that a URL asks for when nobody names one: `h2` for https, `h1c` for http.
    pub fn default_protocol(target: &Target) -> Protocol {
        if target.url().scheme() == "https" { Protocol::H2 } else { Protocol::H1c }
    }

    /// Checks the plan against itself.
    ///
    /// # Errors
    /// The first contradiction, with what to do about it.
    pub fn check(&self) -> Result<(), LoadError> {
        let protocol = self.protocol;
        let scheme = self.target.url().scheme();
        let bad = |message: String| Err(LoadError::Plan(message));
        if scheme != protocol.scheme() {
            let fitting = if scheme == "https" { "h1, h2 or h3" } else { "h1c or h2c" };
            return bad(format!(
                "{protocol} needs {}://, but the URL begins with {scheme}://; change the URL or use {fitting}",
                protocol.scheme()
            ));
        }
        for (flag, value) in [("-c", self.connections), ("-m", self.streams), ("-t", self.threads)] {
            if value == 0 {
                return bad(format!("{flag} 0 does nothing; give at least 1"));
            }
        }
        if self.threads > self.connections {
            return bad(format!("{} threads for {} connections; -t is at most -c", self.threads, self.connections));
        }
        if self.streams > 1 && !protocol.multiplexes() && !self.pipeline {
            return bad(format!(
                "{protocol} carries one request at a time on a connection, so -m is 1; several at once are pipelining, \
                 which no browser does: add --pipeline if you want it, or raise -c"
            ));
        }
        if self.pipeline && protocol.multiplexes() {
            return bad(format!("--pipeline is for HTTP/1.1; {protocol} has streams: use -m alone"));
        }
        if self.initial_window_packets == 0 {
            return bad("--initial-window 0 lets no packet out; give at least 1".to_owned());
        }
        if self.timeout.is_zero() {
            return bad("--timeout 0 lets no request succeed; give a time such as 30s".to_owned());
        }
        self.check_amount()?;
        self.check_fields()
    }

    fn check_amount(&self) -> Result<(), LoadError> {
        let message = match self.amount {
            Amount::Requests(0) | Amount::Pages(0) => "-n 0 does nothing; give at least 1".to_owned(),
            Amount::Duration { length, .. } if length.is_zero() => {
                "-D 0 measures nothing; give a time such as 10s".to_owned()
            }
            Amount::Requests(requests) if requests < u64::from(self.connections) => {
                format!("{requests} requests leave some of {} connections idle; -c is at most -n", self.connections)
            }
            Amount::Pages(_) if self.threads > 1 => "--page loads one page after the other, so -t is 1".to_owned(),
            Amount::Pages(_) if self.method != "GET" || !self.body.is_empty() => {
                "--page fetches with GET, without a body".to_owned()
            }
            _ => return Ok(()),
        };
        Err(LoadError::Plan(message))
    }

    /// What users give is copied into requests as it is, so it must be well-formed (RFC 9110 sections 5.5, 9.1).
    fn check_fields(&self) -> Result<(), LoadError> {
        /// Fields that the encoders add, or that have no place in HTTP/2 and HTTP/3 (RFC 9113 section 8.2.2).
        const RESERVED: [&str; 7] =
            ["connection", "content-length", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
        if !is_token(&self.method) {
            return Err(LoadError::Plan(format!("'{}' is not a method; expected a word such as GET", self.method)));
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                return Err(LoadError::Plan(format!("'{name}' is not the name of a header field")));
            }
            if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(LoadError::Plan(format!("the field '{name}' belongs to the protocol and is set by it")));
            }
            if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
                return Err(LoadError::Plan(format!("the value of '{name}' contains a control character")));
            }
        }
        Ok(())
    }

    /// The request for a path of the target.
    pub(crate) fn request(&self, path: String) -> Request {
        let mut authority = self.target.authority();
        let mut headers = vec![("user-agent".to_owned(), concat!("fairlane/", env!("CARGO_PKG_VERSION")).to_owned())];
        for (name, value) in &self.headers {
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            match name.as_str() {
                "host" => authority = value,
                "user-agent" => headers[0].1 = value,
                _ => headers.push((name, value)),
            }
        }
        Request {
            method: self.method.clone(),
            scheme: self.protocol.scheme().to_owned(),
            authority,
            path,
            headers,
            body: self.body.clone(),
        }
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(url: &str, protocol: Protocol, amount: Amount) -> Plan {
        Plan::new(Target::parse(url, None).unwrap(), protocol, amount)
    }

    fn refused(plan: &Plan) -> String {
        plan.check().unwrap_err().to_string()
    }

    #[test]
    fn refuses_contradictions_and_says_what_to_do() {
        let ten = Amount::Requests(10);
        let https = |protocol| plan("https://host/", protocol, ten);
        assert!(https(Protocol::H2).check().is_ok());
        assert!(refused(&https(Protocol::H2c)).contains("use h1, h2 or h3"));
        assert!(refused(&plan("http://host/", Protocol::H3, ten)).contains("use h1c or h2c"));
        assert!(refused(&Plan { streams: 2, ..https(Protocol::H1) }).contains("--pipeline"));
        assert!(Plan { streams: 2, pipeline: true, ..https(Protocol::H1) }.check().is_ok());
        assert!(refused(&Plan { pipeline: true, ..https(Protocol::H2) }).contains("use -m alone"));
        assert!(refused(&Plan { connections: 0, ..https(Protocol::H2) }).contains("-c 0"));
        assert!(refused(&Plan { streams: 0, ..https(Protocol::H2) }).contains("-m 0"));
        assert!(refused(&Plan { connections: 11, ..https(Protocol::H2) }).contains("-c is at most -n"));
        assert!(refused(&Plan { threads: 2, ..https(Protocol::H2) }).contains("-t is at most -c"));
        assert!(refused(&plan("https://host/", Protocol::H2, Amount::Requests(0))).contains("-n 0"));
        let nothing = Amount::Duration { warm_up: Duration::ZERO, length: Duration::ZERO };
        assert!(refused(&plan("https://host/", Protocol::H2, nothing)).contains("-D 0"));
    }

    #[test]
    fn refuses_fields_that_would_break_the_message() {
        let with = |name: &str, value: &str| Plan {
            headers: vec![(name.to_owned(), value.to_owned())],
            ..plan("https://host/", Protocol::H2, Amount::Requests(1))
        };
        assert!(with("X-Ok", "yes").check().is_ok());
        for (name, value) in [("", "x"), ("a b", "x"), ("x", "a\r\nb: c"), ("Transfer-Encoding", "chunked")] {
            assert!(with(name, value).check().is_err(), "{name}: {value:?}");
        }
    }

    #[test]
    fn host_replaces_the_authority() {
        let mut plan = plan("https://host:1/a", Protocol::H2, Amount::Requests(1));
        plan.headers = vec![("Host".to_owned(), "other".to_owned()), ("X-A".to_owned(), " b ".to_owned())];
        let request = plan.request("/a".to_owned());
        assert_eq!((request.authority.as_str(), request.path.as_str()), ("other", "/a"));
        assert_eq!(request.headers[1], ("x-a".to_owned(), "b".to_owned()));
    }

    #[test]
    fn a_page_is_loaded_as_a_browser_would() {
        let page = |url, protocol| plan(url, protocol, Amount::Pages(1));
        assert_eq!((page("http://h/", Protocol::H1c).connections, page("http://h/", Protocol::H1c).streams), (6, 1));
        assert_eq!((page("https://h/", Protocol::H3).connections, page("https://h/", Protocol::H3).streams), (1, 100));
    }
}
