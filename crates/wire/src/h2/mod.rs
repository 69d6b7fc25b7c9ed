//! HTTP/2 (RFC 9113): many streams over one byte stream.
//!
//! ```text
//!   start() ──> HEADERS; bodies, piece by piece as the peer's windows allow ──> output
//!   receive() ──> frames ──> HPACK ──> Stream ──> Event
//!                   └── SETTINGS, PING, windows: answers ──> output
//! ```
//!
//! What it leaves out on purpose: server push is refused, priorities are ignored, and of the rules for header fields it
//! checks only those of pseudo-header fields and content-length: it measures a server and does not judge its headers.

mod debt;
pub(crate) mod frame;
mod receive;
mod upload;

use bytes::Bytes;

use crate::fields::hpack;
use crate::length::ContentLeft;
use crate::limits;
use crate::streams::Streams;
use crate::{Error, Event, FailureKind, Request, Token};
use debt::Debt;
use receive::Input;
use upload::Uploads;

/// How an HTTP/2 connection behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most requests in flight; the peer's SETTINGS_MAX_CONCURRENT_STREAMS may allow fewer. Until its SETTINGS have
    /// come it is at most 100, and those beyond the peer's limit may be refused.
    pub max_streams: usize,
    /// Receive window of each stream in bytes, 1 to 2^31-1.
    pub stream_window: u32,
    /// Receive window of the connection in bytes, up to 2^31-1; the protocol's minimum is 65,535.
    pub connection_window: u32,
    /// Largest frame the peer may send, in payload bytes, 16,384 to 16,777,215.
    pub max_frame_size: u32,
    /// Largest HPACK dynamic table the peer may use for responses, in bytes (RFC 7541 section 4.1).
    pub header_table_size: u32,
    /// Whether to report every header field ([`Event::Field`]).
    pub fields: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_streams: 100,
            stream_window: 1 << 20,
            connection_window: 16 << 20,
            max_frame_size: 16_384,
            header_table_size: 4096,
            fields: false,
        }
    }
}

/// A request, encoded once.
#[derive(Clone, Debug)]
pub struct Prepared {
    fields: hpack::Template,
    body: Bytes,
    is_head: bool,
}

impl From<&Request> for Prepared {
    fn from(request: &Request) -> Self {
        Self { fields: request.into(), body: request.body.clone(), is_head: request.method == "HEAD" }
    }
}

/// A client connection. Its output begins with the connection preface, so that there is something to send at once.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    peer: PeerSettings,
    streams: Streams<Stream, 1>,
    /// Identifier of the next stream; above 2^31-1 when all are used up.
    next_stream: u32,
    /// No new streams: last stream identifier of the peer's GOAWAY, or 0 after an error.
    last_stream: Option<u32>,
    encoder: hpack::Encoder,
    decoder: hpack::Decoder,
    uploads: Uploads,
    /// Bytes received on the connection since its window was last refilled.
    received: u32,
    input: Input,
    output: Vec<u8>,
    debt: Debt,
    /// Bytes of frames since one told something of a response.
    idle: usize,
}

/// A request in flight.
#[derive(Debug, Default)]
struct Stream {
    token: Token,
    /// Bytes received since the stream's window was last refilled.
    received: u32,
    /// Whether the request's method is HEAD.
    is_head: bool,
    /// Whether the final response's head has come.
    has_head: bool,
    left: ContentLeft,
}

/// What the peer has told of itself.
#[derive(Debug)]
struct PeerSettings {
    /// Until the peer tells, the number that RFC 9113 section 6.5.2 recommends as its least.
    max_streams: usize,
    initial_window: u32,
    max_frame_size: u32,
}

impl Connection {
    /// A connection whose output holds the preface: SETTINGS and, for a window above the default, WINDOW_UPDATE.
    /// Options outside their range are moved to its nearest end.
    pub fn new(options: Options) -> Self {
        let options = Options {
            stream_window: options.stream_window.clamp(1, frame::MAX_31_BITS),
            connection_window: options.connection_window.clamp(frame::DEFAULT_WINDOW, frame::MAX_31_BITS),
            max_frame_size: options.max_frame_size.clamp(*frame::FRAME_SIZES.start(), *frame::FRAME_SIZES.end()),
            ..options
        };
        let mut output = frame::PREFACE.to_vec();
        let settings = [
            (frame::HEADER_TABLE_SIZE, options.header_table_size),
            (frame::ENABLE_PUSH, 0),
            (frame::INITIAL_WINDOW_SIZE, options.stream_window),
            (frame::MAX_FRAME_SIZE, options.max_frame_size),
        ];
        frame::settings(&settings, &mut output);
        if options.connection_window > frame::DEFAULT_WINDOW {
            frame::number(frame::WINDOW_UPDATE, 0, options.connection_window - frame::DEFAULT_WINDOW, &mut output);
        }
        Self {
            options,
            peer: PeerSettings {
                max_streams: 100,
                initial_window: frame::DEFAULT_WINDOW,
                max_frame_size: *frame::FRAME_SIZES.start(),
            },
            streams: Streams::new(),
            next_stream: 1,
            last_stream: None,
            encoder: hpack::Encoder::new(),
            decoder: hpack::Decoder::new(options.header_table_size as usize, options.fields),
            uploads: Uploads::new(),
            received: 0,
            input: Input::default(),
            output,
            debt: Debt::new(options.max_streams),
            idle: 0,
        }
    }

    /// Ends a stream from our side.
    fn reset(&mut self, stream: u32, code: u32) {
        self.uploads.remove(stream);
        self.input.skip_stream(stream);
        frame::number(frame::RST_STREAM, stream, code, &mut self.output);
    }

    /// Reports all requests above a stream identifier as failed.
    fn fail_above(&mut self, last: u32, kind: FailureKind, sink: &mut impl FnMut(Event<'_>)) {
        self.uploads.remove_above(last);
        for (_, stream) in self.streams.remove_if(|id, _| id > last.into()) {
            sink(Event::Failed { token: stream.token, kind });
        }
    }

    /// Writes the HEADERS frame of a request, and CONTINUATION frames if the peer wants no frame so large. Gives the bytes
    /// of the header block.
    fn send_headers(&mut self, id: u32, request: &Prepared) -> u32 {
        let end_stream = if request.body.is_empty() { frame::END_STREAM } else { 0 };
        let start = self.output.len();
        frame::head(0, frame::HEADERS, end_stream | frame::END_HEADERS, id, &mut self.output);
        let block_start = self.output.len();
        self.encoder.encode(&request.fields, &mut self.output);
        let len = self.output.len() - block_start;
        let max = self.peer.max_frame_size as usize;
        if len <= max {
            self.output[start..start + 3].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
            return len as u32;
        }
        let block = self.output.split_off(block_start);
        self.output.truncate(start);
        let count = len.div_ceil(max);
        for (n, piece) in block.chunks(max).enumerate() {
            let (kind, first_flags) = if n == 0 { (frame::HEADERS, end_stream) } else { (frame::CONTINUATION, 0) };
            let last_flags = if n + 1 == count { frame::END_HEADERS } else { 0 };
            frame::head(piece.len(), kind, first_flags | last_flags, id, &mut self.output);
            self.output.extend_from_slice(piece);
        }
        len as u32
    }
}

impl crate::Connection for Connection {
    type Prepared = Prepared;

    fn capacity(&self) -> usize {
        if self.is_draining() || self.output.len() > limits::BACKLOG {
            return 0;
        }
        self.options.max_streams.min(self.peer.max_streams).saturating_sub(self.streams.len())
    }

    fn start(&mut self, token: Token, request: &Prepared) -> u32 {
        let id = self.next_stream;
        self.next_stream += 2;
        self.streams.insert(id.into(), Stream { token, is_head: request.is_head, ..Stream::default() });
        let head_bytes = self.send_headers(id, request);
        if !request.body.is_empty() {
            self.uploads.push(id, self.peer.initial_window, request.body.clone());
        }
        head_bytes
    }

    fn receive(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.debt.settle(self.output.len());
        let result = self.receive_frames(bytes, sink);
        if let Err(error) = &result {
            self.last_stream = Some(0);
            self.fail_above(0, FailureKind::Truncated, sink);
            if let Error::Http2 { code, .. } = error {
                frame::goaway(*code, &mut self.output);
            }
        }
        result
    }

    fn finish(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.last_stream = Some(0);
        self.fail_above(0, FailureKind::Truncated, sink);
    }

    fn cancel(&mut self, token: Token) {
        for (id, _) in self.streams.remove_if(|_, stream| stream.token == token) {
            self.reset(id as u32, frame::CANCEL);
        }
    }

    fn in_flight(&self) -> usize {
        self.streams.len()
    }

    fn is_draining(&self) -> bool {
        self.last_stream.is_some() || self.next_stream > frame::MAX_31_BITS
    }

    fn output(&mut self) -> &mut Vec<u8> {
        let len = self.output.len();
        self.debt.settle(len);
        if !self.uploads.is_empty() {
            self.uploads.send(self.peer.max_frame_size, &mut self.output);
            if self.output.len() > len {
                self.idle = 0;
                self.debt.settle(self.output.len());
            }
        }
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection as _;

    #[test]
    fn a_connection_drains_when_stream_identifiers_are_used_up() {
        let request = Request {
            method: "GET".into(),
            scheme: "http".into(),
            authority: "origin".into(),
            path: "/".into(),
            headers: Vec::new(),
            body: Bytes::new(),
        };
        let mut connection = Connection::new(Options::default());
        connection.next_stream = frame::MAX_31_BITS;
        assert_eq!((connection.capacity(), connection.is_draining()), (100, false));
        connection.start(0, &Prepared::from(&request));
        assert!(connection.output.windows(4).any(|bytes| bytes == [0x7f, 0xff, 0xff, 0xff]));
        assert_eq!((connection.capacity(), connection.in_flight(), connection.is_draining()), (0, 1, true));
    }
}
