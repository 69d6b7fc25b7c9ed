//! HTTP/1.1 (RFC 9112): one response after the other, optionally pipelined.
//!
//! ```text
//!   start() ──> head and body ──> output         queue of requests in flight
//!   receive() ──> head ──> body, by length, chunks or end ──> Event ──> next of the queue
//! ```
//!
//! Servers repeat themselves, so the last head is kept: what is like it is not parsed again.

mod chunked;
pub(crate) mod head;
mod memo;

use std::collections::VecDeque;

use bytes::Bytes;

use crate::limits;
use crate::{Error, Event, FailureKind, Request, Token};
use chunked::Chunked;
use head::{Framing, Head, error};
use memo::Memo;

/// How an HTTP/1.1 connection behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most requests in flight, at least 1; 1 means no pipelining.
    pub pipeline: usize,
    /// Whether the connection serves more than one request; if not, it sends `connection: close`.
    pub keep_alive: bool,
    /// Whether to report every header field ([`Event::Field`]), though not those of trailers.
    pub fields: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { pipeline: 1, keep_alive: true, fields: false }
    }
}

/// A request, encoded once.
#[derive(Clone, Debug)]
pub struct Prepared {
    head: Vec<u8>,
    body: Bytes,
    is_head: bool,
}

impl From<&Request> for Prepared {
    fn from(request: &Request) -> Self {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: {}\r\n", request.method, request.path, request.authority);
        for (name, value) in &request.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(length) = request.content_length() {
            text += &format!("content-length: {length}\r\n");
        }
        text += "\r\n";
        Self { head: text.into_bytes(), body: request.body.clone(), is_head: request.method == "HEAD" }
    }
}

/// A client connection.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    queue: VecDeque<Flight>,
    state: State,
    /// Whether no new requests are taken.
    draining: bool,
    /// Whether the connection ends with the response that is coming.
    is_last: bool,
    /// The beginning of a head whose end has not come.
    partial: Vec<u8>,
    memo: Memo,
    /// Bytes of interim responses since the last final one.
    interim: usize,
    output: Vec<u8>,
    /// Bodies, and heads of the requests behind them, for which the output has no room yet.
    later: VecDeque<Bytes>,
}

/// A request in flight.
#[derive(Debug)]
struct Flight {
    /// None if it was cancelled.
    token: Option<Token>,
    is_head: bool,
}

/// What comes next.
#[derive(Debug)]
enum State {
    Head,
    /// This many bytes of a body.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    /// Nothing that counts.
    Closed,
}

impl Connection {
    /// A connection that has sent nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            queue: VecDeque::new(),
            state: State::Head,
            draining: false,
            is_last: false,
            partial: Vec::new(),
            memo: Memo::default(),
            interim: 0,
            output: Vec::new(),
            later: VecDeque::new(),
        }
    }

    fn send_head(&mut self, head: &[u8]) {
        if self.later.is_empty() {
            self.output.extend_from_slice(head);
        } else {
            self.later.push_back(Bytes::copy_from_slice(head));
        }
    }

    fn advance(&mut self, mut rest: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        while !rest.is_empty() {
            let token = self.queue.front().and_then(|flight| flight.token);
            let mut emit = |bytes| {
                if let Some(token) = token {
                    sink(Event::Data { token, bytes });
                }
            };
            match &mut self.state {
                State::Head => match self.head(rest, sink)? {
                    Some(after) => rest = after,
                    None => return Ok(()),
                },
                State::Length(left) => {
                    let (data, after) = rest.split_at(usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len()));
                    emit(data);
                    *left -= data.len() as u64;
                    rest = after;
                    if *left == 0 {
                        self.complete(sink);
                    }
                }
                State::Chunked(chunked) => match chunked.receive(rest, emit)? {
                    Some(after) => {
                        rest = after;
                        self.complete(sink);
                    }
                    None => return Ok(()),
                },
                State::UntilClose => {
                    emit(rest);
                    return Ok(());
                }
                State::Closed => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes a head from the front of `rest`, and returns what comes after it once it is complete.
    fn head<'a>(&mut self, rest: &'a [u8], sink: &mut impl FnMut(Event<'_>)) -> Result<Option<&'a [u8]>, Error> {
        let Some(flight) = self.queue.front() else {
            return error("bytes come although no request is in flight");
        };
        let is_head = flight.is_head;
        let token = flight.token;
        let known = if self.partial.is_empty() && !self.options.fields { self.memo.recall(rest) } else { None };
        let (head, len, after) = if let Some((head, len)) = known {
            (head, len, &rest[len..])
        } else {
            if self.partial.is_empty() && rest[0] != b'H' {
                return error("the status line");
            }
            let collected = self.partial.len();
            let room = head::LIMIT.saturating_sub(collected).min(rest.len());
            let bytes = if collected == 0 {
                &rest[..room]
            } else {
                self.partial.extend_from_slice(&rest[..room]);
                &self.partial
            };
            // The end may have begun with up to three of the bytes collected before.
            let Some(end) = head::end(bytes, collected.saturating_sub(3)) else {
                if bytes.len() >= head::LIMIT {
                    return error("a head longer than 64 kB");
                }
                if collected == 0 {
                    self.partial.extend_from_slice(rest);
                }
                return Ok(None);
            };
            let head = head::parse(&bytes[..end], |name, value| {
                if let Some(token) = token
                    && self.options.fields
                {
                    sink(Event::Field { token, name, value });
                }
            })?;
            self.memo.keep(&bytes[..end], head);
            self.partial.clear();
            (head, end, &rest[end - collected..])
        };
        if head.status >= 200 {
            if let Some(token) = token {
                let len = len as u32;
                sink(Event::Head { token, status: head.status, header_bytes: len, decoded_bytes: len });
            }
            self.interim = 0;
            self.begin_body(head, is_head, sink);
        } else {
            self.interim += len;
            if self.interim > limits::IDLE {
                return error("1 MB of interim responses");
            }
        }
        Ok(Some(after))
    }

    fn begin_body(&mut self, head: Head, is_head: bool, sink: &mut impl FnMut(Event<'_>)) {
        self.is_last = head.closes || !self.options.keep_alive;
        if self.is_last && !self.draining {
            self.draining = true;
            sink(Event::Draining);
        }
        self.state = match head.framing {
            _ if is_head => State::Length(0),
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Chunked(Chunked::new()),
            Framing::UntilClose => State::UntilClose,
        };
        if let State::Length(0) = self.state {
            self.complete(sink);
        }
    }

    /// The response of the first request in the queue is complete.
    fn complete(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.state = State::Head;
        if let Some(token) = self.queue.pop_front().and_then(|flight| flight.token) {
            sink(Event::Done { token });
        }
        if self.is_last {
            // A server processes nothing after the request whose response says close (RFC 9112 section 9.6).
            self.close(FailureKind::Refused, sink);
        }
    }

    fn close(&mut self, kind: FailureKind, sink: &mut impl FnMut(Event<'_>)) {
        self.state = State::Closed;
        self.draining = true;
        self.later.clear();
        for token in self.queue.drain(..).filter_map(|flight| flight.token) {
            sink(Event::Failed { token, kind });
        }
    }
}

impl crate::Connection for Connection {
    type Prepared = Prepared;

    fn capacity(&self) -> usize {
        let limit = self.options.pipeline.max(1);
        // Each request in flight may have a head and a body that wait: there are more only if the peer answers what it
        // has not read.
        if self.draining || self.output.len() > limits::BACKLOG || self.later.len() > limit * 2 {
            return 0;
        }
        limit.saturating_sub(self.queue.len())
    }

    fn start(&mut self, token: Token, request: &Prepared) -> u32 {
        let mut head_bytes = request.head.len();
        if self.options.keep_alive {
            self.send_head(&request.head);
        } else {
            self.draining = true;
            let fields = request.head.strip_suffix(b"\r\n").unwrap_or_default();
            let head = [fields, b"connection: close\r\n\r\n"].concat();
            head_bytes = head.len();
            self.send_head(&head);
        }
        let body = &request.body;
        if !body.is_empty() {
            if self.later.is_empty() && self.output.len() + body.len() <= limits::UPLOAD_ROOM {
                self.output.extend_from_slice(body);
            } else {
                self.later.push_back(body.clone());
            }
        }
        self.queue.push_back(Flight { token: Some(token), is_head: request.is_head });
        head_bytes as u32
    }

    fn receive(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        let result = self.advance(bytes, sink);
        if result.is_err() {
            self.close(FailureKind::Truncated, sink);
        }
        result
    }

    fn finish(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        if let State::UntilClose = self.state {
            self.complete(sink);
        }
        self.close(FailureKind::Truncated, sink);
    }

    fn cancel(&mut self, token: Token) {
        for flight in self.queue.iter_mut().filter(|flight| flight.token == Some(token)) {
            flight.token = None;
            self.draining = true;
        }
    }

    fn in_flight(&self) -> usize {
        if self.draining {
            self.queue.iter().filter(|flight| flight.token.is_some()).count()
        } else {
            // Nothing was cancelled.
            self.queue.len()
        }
    }

    fn is_draining(&self) -> bool {
        self.draining
    }

    fn output(&mut self) -> &mut Vec<u8> {
        while self.output.len() < limits::UPLOAD_ROOM
            && let Some(bytes) = self.later.front_mut()
        {
            let piece = bytes.split_to(bytes.len().min(limits::UPLOAD_ROOM));
            self.output.extend_from_slice(&piece);
            if bytes.is_empty() {
                self.later.pop_front();
            }
        }
        &mut self.output
    }
}
