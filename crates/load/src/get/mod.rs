//! One request with everything shown: what was agreed on, every frame, every field, every phase's time.
//!
//! ```text
//!   Plan ──> resolve ──> line: TCP + TLS or QUIC ──> exchange ──> Exchange
//!                          │ bytes of HTTP             │ events
//!                          └──> wire::trace ──> Note ──┴──> Listener
//! ```
//!
//! Nothing here is made for speed: sockets are waited for one at a time, and everything that passes is taken apart for
//! the listener. The HTTP connections and the TLS configuration are those of the load engine, so what is shown is what
//! it does.

mod certificate;
mod journal;
mod parameters;
mod quic;
mod report;
mod tcp;
mod text;

use std::net::SocketAddr;
use std::time::Instant;

use measure::Protocol;
use wire::{FailureKind, Request, h1, h2};

pub use self::journal::Listener;
use self::journal::{End, Journal};
use self::quic::QuicLine;
pub use self::report::{Certificate, Exchange, Note, Parameter, Sizes, Timings, Tls, What};
use self::tcp::{H1Onlookers, H2Onlookers, TcpLine};
pub use self::text::{line, summary};
use crate::channel::socket::Address;
use crate::channel::{Broken, in_words};
use crate::tally::micros;
use crate::tls::TlsSetup;
use crate::{Amount, LoadError, Plan, TransportPlan};

/// A connection that carries one request at a time.
trait Line {
    /// Sends a request and takes everything until its response has ended, which the journal tells.
    ///
    /// # Errors
    /// The connection is over, or the time is.
    fn exchange(&mut self, request: &Request, deadline: Instant, journal: &mut Journal<'_>) -> Result<(), Broken>;

    /// Whether it takes another request.
    fn is_open(&self) -> bool;

    /// Says goodbye as far as that needs no answer.
    fn close(&mut self, reason: &str, journal: &mut Journal<'_>);
}

/// Makes the plan's request, one after the other as often as its amount says, on the same connection as long as the
/// server keeps that open. Stops after one that fails.
///
/// # Errors
/// The plan is refused, nothing could be connected to, or the server speaks another protocol than the wanted one. What
/// happens later is told by the exchanges.
pub fn get(plan: &Plan, listener: &mut dyn Listener) -> Result<Vec<Exchange>, LoadError> {
    plan.check()?;
    let Amount::Requests(count) = plan.amount else {
        return Err(LoadError::Plan("single requests are counted: give a number of them".to_owned()));
    };
    let request = plan.request(&plan.requests[0]);
    let tls = if plan.protocol.is_encrypted() { Some(TlsSetup::new(plan)?) } else { None };
    let mut journal = Journal::new(listener);
    let begun = Instant::now();
    let addresses = plan.target.addresses()?.into_iter().filter_map(|address| match address {
        Address::Ip(address) => Some(address),
        Address::Unix(_) => None,
    });
    let addresses: Vec<SocketAddr> = addresses.collect();
    if addresses.is_empty() {
        return Err(LoadError::Plan("single requests go over IP; leave the Unix socket out".to_owned()));
    }
    journal.note(What::Resolved {
        endpoint: plan.target.endpoint(),
        addresses: addresses.clone(),
        took_us: micros(begun.elapsed()),
    });
    let caller = Caller { plan, tls, addresses };
    let mut exchanges = Vec::new();
    let mut kept = None;
    for number in 1..=count {
        journal.begin_exchange(number);
        let (line, failure) = caller.exchange(&request, kept.take(), &mut journal)?;
        kept = Some(line).filter(|line| line.is_open());
        let has_failed = failure.is_some();
        exchanges.push(journal.finish_exchange(failure));
        if has_failed {
            break;
        }
    }
    if let Some(mut line) = kept {
        line.close("all requests are done", &mut journal);
    }
    Ok(exchanges)
}

/// What connections are made with.
struct Caller<'a> {
    plan: &'a Plan,
    tls: Option<TlsSetup>,
    addresses: Vec<SocketAddr>,
}

impl Caller<'_> {
    /// Makes one exchange, on the connection that is kept or on a new one. Gives the connection, closed if it is of no
    /// further use, and why the exchange failed if it did.
    fn exchange(
        &self,
        request: &Request,
        mut kept: Option<Box<dyn Line>>,
        journal: &mut Journal<'_>,
    ) -> Result<(Box<dyn Line>, Option<String>), LoadError> {
        loop {
            let reused = kept.is_some();
            let mut line = match kept.take() {
                Some(line) => line,
                None => self.connect(journal)?,
            };
            journal.begin_request(request, reused);
            let result = line.exchange(request, Instant::now() + self.plan.timeout, journal);
            let failure = match (journal.end(), result) {
                (Some(End::Complete), _) if line.is_open() => None,
                (Some(End::Complete), _) => {
                    line.close("it takes no more requests", journal);
                    None
                }
                (_, Err(Broken::Ended | Broken::Io(_))) if reused && may_repeat(request, journal) => {
                    line.close("the server has closed it", journal);
                    journal.note(What::Stale);
                    continue;
                }
                (Some(End::Unwanted), _) => Some("given up, because nobody takes the body".to_owned()),
                (_, Err(broken)) => Some(broken.to_string()),
                (Some(End::Failed(kind)), Ok(())) => Some(failed(kind)),
                // An exchange does not return before its end.
                (None, Ok(())) => Some("no response".to_owned()),
            };
            if let Some(reason) = &failure {
                line.close(reason, journal);
            }
            return Ok((line, failure));
        }
    }

    /// Connects to the first address that answers.
    fn connect(&self, journal: &mut Journal<'_>) -> Result<Box<dyn Line>, LoadError> {
        journal.begin_connection();
        let deadline = Instant::now() + self.plan.connect_timeout;
        let mut reason = String::new();
        for &address in &self.addresses {
            match self.connect_to(address, deadline, journal) {
                Ok(line) => return Ok(line),
                Err(Broken::WrongProtocol { offered, chosen }) => {
                    return Err(LoadError::WrongProtocol {
                        host: self.plan.target.endpoint(),
                        protocol: self.plan.protocol,
                        offered,
                        chosen: in_words(chosen.as_deref()),
                    });
                }
                Err(broken) => {
                    reason = broken.to_string();
                    journal.note(What::Unreachable { address, reason: reason.clone() });
                    if broken.is_final() {
                        break;
                    }
                }
            }
        }
        Err(LoadError::Connect { host: self.plan.target.endpoint(), protocol: self.plan.protocol, reason })
    }

    fn connect_to(
        &self,
        address: SocketAddr,
        deadline: Instant,
        journal: &mut Journal<'_>,
    ) -> Result<Box<dyn Line>, Broken> {
        let tls = self.tls.as_ref();
        Ok(match (self.plan.protocol, tls) {
            (Protocol::H3, Some(tls)) => {
                Box::new(QuicLine::connect(address, tls, &self.plan.transport, deadline, journal)?)
            }
            (Protocol::H1c | Protocol::H1, tls) => {
                let http = h1::Connection::new(h1::Options::default());
                let onlookers = Box::new(H1Onlookers::new("GET"));
                Box::new(TcpLine::connect(address, tls, http, onlookers, deadline, journal)?)
            }
            (_, tls) => {
                let TransportPlan { stream_window, connection_window, max_frame_size, header_table_size, .. } =
                    self.plan.transport;
                let options = h2::Options {
                    max_streams: 1,
                    stream_window,
                    connection_window,
                    max_frame_size,
                    header_table_size,
                    ..h2::Options::default()
                };
                let (http, onlookers) = (h2::Connection::new(options), Box::new(H2Onlookers::new()));
                Box::new(TcpLine::connect(address, tls, http, onlookers, deadline, journal)?)
            }
        })
    }
}

/// A server may close an idle connection at any time; who meets that tries again, if nothing can have been done twice
/// (RFC 9112 section 9.3.1).
fn may_repeat(request: &Request, journal: &Journal<'_>) -> bool {
    let is_idempotent = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE");
    journal.is_unanswered() && (is_idempotent || journal.is_unsent())
}

fn failed(kind: FailureKind) -> String {
    match kind {
        FailureKind::Refused => "the server refused the request".to_owned(),
        FailureKind::Reset(code) => format!("the server reset the stream with error code {code:#x}"),
        FailureKind::Truncated => "the connection ended before the response did".to_owned(),
        FailureKind::Malformed => "the response breaks the rules of the protocol".to_owned(),
    }
}
