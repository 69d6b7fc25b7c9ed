mod model;
mod request;
mod tls;
mod transport;

use std::path::PathBuf;
use std::time::Duration;

use measure::Protocol;

pub use self::model::{Arrivals, Model, Stage};
pub use self::request::{Expectation, Planned};
pub use self::tls::{Identity, TlsPlan, Verification};
pub use self::transport::TransportPlan;
use crate::{LoadError, Target};

/// What to do, decided before anything starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What connections go to.
    pub target: Target,
    /// The requests to choose from, all of them for the target's origin; at least one.
    pub requests: Vec<Planned>,
    /// The protocol to speak; another one is never accepted in its place.
    pub protocol: Protocol,
    /// What decides when a request goes out.
    pub model: Model,
    /// How much to do.
    pub amount: Amount,
    /// Time in which requests run but are not measured, before the amount begins; only with [`Amount::Duration`].
    pub warm_up: Duration,
    /// Connections at once, at least 1, of each client.
    pub connections: u32,
    /// Requests in flight on each connection, at least 1.
    pub streams: u32,
    /// Threads of each client, each with its own event loop and its own connections, at least 1.
    pub threads: u32,
    /// Clients, at least 1: each has everything above for itself, TLS sessions included, as processes would.
    pub clients: u32,
    /// Whether HTTP/1.1 may have several requests in flight on a connection.
    pub pipeline: bool,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Longest time for a request.
    pub timeout: Duration,
    /// Longest time for making a connection.
    pub connect_timeout: Duration,
    /// What a response has to be like.
    pub expect: Expectation,
    /// What TLS offers, and what it accepts.
    pub tls: TlsPlan,
    /// What happens below HTTP.
    pub transport: TransportPlan,
    /// Where to write a line per request, as CSV.
    pub request_log: Option<PathBuf>,
}

/// How much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many requests; in page mode, so many pages. Each client makes its part.
    Requests(u64),
    /// As much as fits in a time.
    Duration(Duration),
}

impl Plan {
    /// GET requests over one connection; in page mode what a browser uses: six connections for HTTP/1.1, one with a
    /// hundred streams for the others.
    pub fn new(target: Target, protocol: Protocol, model: Model, amount: Amount) -> Plan {
        let (connections, streams) = match (&model, protocol.multiplexes()) {
            (Model::Pages, false) => (6, 1),
            (Model::Pages, true) => (1, 100),
            _ => (1, 1),
        };
        Plan {
            requests: vec![Planned::get(target.path())],
            target,
            protocol,
            model,
            amount,
            warm_up: Duration::ZERO,
            connections,
            streams,
            threads: 1,
            clients: 1,
            pipeline: false,
            keep_alive: true,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            expect: Expectation::default(),
            tls: TlsPlan::default(),
            transport: TransportPlan::default(),
            request_log: None,
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
        if scheme != protocol.scheme() {
            let fitting = if scheme == "https" { "h1, h2 or h3" } else { "h1c or h2c" };
            return bad(format!(
                "{protocol} needs {}://, but the URL begins with {scheme}://; change the URL or use {fitting}",
                protocol.scheme()
            ));
        }
        let counts = [
            ("-c", self.connections),
            ("-m", self.streams),
            ("-t", self.threads),
            ("--clients", self.clients),
            ("--initial-window", self.transport.initial_window_packets),
        ];
        if let Some((flag, _)) = counts.iter().find(|(_, value)| *value == 0) {
            return bad(format!("{flag} 0 does nothing; give at least 1"));
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
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            return bad("a timeout of 0 lets no request succeed; give a time such as 30s".to_owned());
        }
        self.check_amount()?;
        self.model.check(self)?;
        self.tls.check(self)?;
        self.transport.check(&self.target, protocol)?;
        self.requests.iter().try_for_each(Planned::check)
    }

    fn check_amount(&self) -> Result<(), LoadError> {
        match self.amount {
            Amount::Requests(0) => bad("-n 0 does nothing; give at least 1".to_owned()),
            Amount::Requests(_) if !self.warm_up.is_zero() => {
                bad("a warm-up needs a duration: use -D instead of -n".to_owned())
            }
            Amount::Duration(length) if length.is_zero() => {
                bad("-D 0 measures nothing; give a time such as 10s".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// One of the requests, complete with the fields that every request has.
    pub(crate) fn request(&self, planned: &Planned) -> wire::Request {
        planned.complete(self.protocol, &self.target)
    }
}

fn bad<T>(message: String) -> Result<T, LoadError> {
    Err(LoadError::Plan(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(url: &str, protocol: Protocol, amount: Amount) -> Plan {
        Plan::new(Target::parse(url, None).unwrap(), protocol, Model::ClosedLoop, amount)
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
        assert!(refused(&plan("https://host/", Protocol::H2, Amount::Duration(Duration::ZERO))).contains("-D 0"));
        assert!(refused(&Plan { warm_up: Duration::from_secs(1), ..https(Protocol::H2) }).contains("use -D"));
    }

    #[test]
    fn a_page_is_loaded_as_a_browser_would() {
        let page =
            |url, protocol| Plan::new(Target::parse(url, None).unwrap(), protocol, Model::Pages, Amount::Requests(1));
        assert_eq!((page("http://h/", Protocol::H1c).connections, page("http://h/", Protocol::H1c).streams), (6, 1));
        assert_eq!((page("https://h/", Protocol::H3).connections, page("https://h/", Protocol::H3).streams), (1, 100));
    }
}
