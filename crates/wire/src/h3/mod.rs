//! HTTP/3 (RFC 9114): requests over the streams of a QUIC connection that the driver owns.
//!
//! ```text
//!   start(stream) ──> HEADERS, DATA ──> bytes for a new bidirectional stream, then its end
//!   receive(stream) ─┬─ request stream ──> frames ──> QPACK ──> Event
//!                    └─ the peer's unidirectional streams: SETTINGS, GOAWAY, QPACK
//! ```
//!
//! Neither side uses QPACK's dynamic table, so no stream waits for another one. What it leaves out on purpose: server
//! push is refused, and of the rules for header fields it checks only those of pseudo-header fields and content-length.

pub(crate) mod frame;
mod peer;

use bytes::Bytes;

use crate::fields::qpack;
use crate::length::ContentLeft;
use crate::limits;
use crate::streams::Streams;
use crate::{Error, Event, FailureKind, Request, Token};
use frame::{Frames, Piece, error};
use peer::PeerStreams;

/// How an HTTP/3 connection behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether to report every header field ([`Event::Field`]).
    pub fields: bool,
}

/// A request, encoded once.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// HEADERS, and the beginning of the DATA frame that holds the body.
    head: Bytes,
    section_bytes: u32,
    body: Bytes,
    is_head: bool,
}

impl Prepared {
    /// Bytes of the field section on the wire, as [`Event::Head`] counts those of responses.
    pub fn head_bytes(&self) -> u32 {
        self.section_bytes
    }
}

impl From<&Request> for Prepared {
    fn from(request: &Request) -> Self {
        let mut section = Vec::new();
        qpack::encode(request, &mut section);
        let mut head = Vec::new();
        frame::put(frame::HEADERS, &section, &mut head);
        if !request.body.is_empty() {
            frame::put_head(frame::DATA, request.body.len(), &mut head);
        }
        let section_bytes = section.len() as u32;
        Self { head: head.into(), section_bytes, body: request.body.clone(), is_head: request.method == "HEAD" }
    }
}

/// A client connection.
#[derive(Debug)]
pub struct Connection {
    streams: Streams<Stream, 2>,
    decoder: qpack::Decoder,
    peer: PeerStreams,
    is_draining: bool,
    /// Bytes received since some told something of a response.
    idle: usize,
}

/// A request in flight.
#[derive(Debug, Default)]
struct Stream {
    token: Token,
    /// Whether the request's method is HEAD.
    is_head: bool,
    stage: Stage,
    left: ContentLeft,
    frames: Frames,
}

/// What of the response has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Nothing,
    Head,
    Trailers,
}

impl Connection {
    /// A connection that has sent nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            streams: Streams::new(),
            decoder: qpack::Decoder::new(options.fields),
            peer: PeerStreams::default(),
            is_draining: false,
            idle: 0,
        }
    }

    /// The bytes to write on the client's first unidirectional stream, which must stay open: its type and SETTINGS.
    pub fn control_stream(&self) -> Vec<u8> {
        // All settings have their defaults: no dynamic table, no blocked streams, no limit of field sections.
        let mut bytes = vec![peer::CONTROL as u8];
        frame::put(frame::SETTINGS, &[], &mut bytes);
        bytes
    }

    /// Starts a request on a new bidirectional stream. Gives its head and its body, which may be empty, both shared by all
    /// requests made from `request`. The driver sends them on that stream and ends its sending side.
    pub fn start(&mut self, stream: u64, token: Token, request: &Prepared) -> [Bytes; 2] {
        self.streams.insert(stream, Stream { token, is_head: request.is_head, ..Stream::default() });
        [request.head.clone(), request.body.clone()]
    }

    /// Takes the next bytes of a stream, in order; `fin` says that the peer ended the stream after them. For request
    /// streams and for those that the peer opens.
    ///
    /// # Errors
    /// The peer broke the protocol: every request in flight has been reported as failed before this returns. The driver
    /// closes the QUIC connection with the error's code.
    pub fn receive(
        &mut self,
        stream: u64,
        bytes: &[u8],
        fin: bool,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Error> {
        self.idle += bytes.len();
        // The low bits tell who opened the stream, and whether it has one direction (RFC 9000 section 2.1).
        let result = match stream & 3 {
            0 => self.receive_response(stream, bytes, fin, sink),
            3 => {
                let Self { streams, peer, is_draining, .. } = self;
                peer.receive(stream, bytes, fin, &mut |id| {
                    if !std::mem::replace(is_draining, true) {
                        sink(Event::Draining);
                    }
                    fail_from(streams, id, FailureKind::Refused, sink);
                })
            }
            _ => error(frame::STREAM_CREATION_ERROR, "a server opens a bidirectional stream"),
        };
        // Each request in flight may be collecting a frame.
        let too_much = self.idle > limits::IDLE + self.streams.len() * frame::COLLECT_LIMIT as usize;
        let calm = if too_much { error(frame::EXCESSIVE_LOAD, "1 MB tells nothing of any response") } else { Ok(()) };
        self.check(result.and(calm), sink)
    }

    /// The peer reset the sending side of a stream (RESET_STREAM). A STOP_SENDING is not reported here: the driver
    /// resets its own side and waits for the response.
    ///
    /// # Errors
    /// As [`Connection::receive`]: a control or QPACK stream must not be reset.
    pub fn reset(&mut self, stream: u64, code: u64, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        if let Some(stream) = self.streams.remove(stream) {
            let kind = if code == frame::REQUEST_REJECTED { FailureKind::Refused } else { FailureKind::Reset(code) };
            sink(Event::Failed { token: stream.token, kind });
        }
        let result = self.peer.end(stream);
        self.check(result, sink)
    }

    /// The QUIC connection is lost: requests in flight are reported as failed.
    pub fn finish(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        self.is_draining = true;
        fail_from(&mut self.streams, 0, FailureKind::Truncated, sink);
    }

    /// Gives up the request of a stream, for example after a timeout: it has no further events. The driver resets and
    /// stops the QUIC stream with H3_REQUEST_CANCELLED.
    pub fn cancel(&mut self, stream: u64) {
        self.streams.remove(stream);
    }

    /// Requests started and neither done, failed nor cancelled.
    pub fn in_flight(&self) -> usize {
        self.streams.len()
    }

    /// Whether the peer takes no new requests: close the connection once `in_flight()` is 0.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    fn receive_response(
        &mut self,
        id: u64,
        mut bytes: &[u8],
        fin: bool,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Error> {
        // What comes for a request that was given up is of no interest.
        let Some(Stream { token, is_head, stage, left, frames }) = self.streams.get_mut(id) else {
            return Ok(());
        };
        let token = *token;
        let mut malformed = false;
        while !malformed && let Some(piece) = frames.next(&mut bytes)? {
            match piece {
                Piece::Begin(kind, len) => {
                    admit(kind, *stage)?;
                    malformed = kind == frame::DATA && !left.take(len);
                }
                Piece::Data(bytes) => {
                    self.idle = 0;
                    sink(Event::Data { token, bytes });
                }
                Piece::Whole(_, block) => {
                    let section = self
                        .decoder
                        .decode(block, |section, name, value| {
                            if !section.is_interim() {
                                sink(Event::Field { token, name, value });
                            }
                        })
                        .or_else(|reason| error(frame::QPACK_DECOMPRESSION_FAILED, reason))?;
                    match (*stage, section.status) {
                        _ if section.malformed => malformed = true,
                        (Stage::Nothing, Some(100 | 102..=199)) => {}
                        (Stage::Nothing, Some(status @ 200..)) => {
                            *stage = Stage::Head;
                            *left = section.content(*is_head);
                            self.idle = 0;
                            let header_bytes = block.len() as u32;
                            sink(Event::Head { token, status, header_bytes, decoded_bytes: section.decoded_bytes });
                        }
                        (Stage::Head, None) => *stage = Stage::Trailers,
                        _ => malformed = true,
                    }
                }
            }
        }
        if fin && !malformed && !frames.is_between() {
            return error(frame::FRAME_ERROR, "a stream ends in the middle of a frame");
        }
        malformed |= fin && (*stage == Stage::Nothing || !left.may_end());
        if malformed {
            self.streams.remove(id);
            sink(Event::Failed { token, kind: FailureKind::Malformed });
        } else if fin {
            self.streams.remove(id);
            sink(Event::Done { token });
        }
        Ok(())
    }

    fn check(&mut self, result: Result<(), Error>, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        if result.is_err() {
            self.finish(sink);
        }
        result
    }
}

/// Reports all requests from a stream identifier on as failed.
fn fail_from(streams: &mut Streams<Stream, 2>, first: u64, kind: FailureKind, sink: &mut impl FnMut(Event<'_>)) {
    for (_, stream) in streams.remove_if(|id, _| id >= first) {
        sink(Event::Failed { token: stream.token, kind });
    }
}

/// Checks whether a frame of this type may come on a request stream now (RFC 9114 section 4.1).
fn admit(kind: u64, stage: Stage) -> Result<(), Error> {
    match kind {
        frame::DATA if stage != Stage::Head => error(frame::FRAME_UNEXPECTED, "DATA comes before or after its place"),
        frame::HEADERS if stage == Stage::Trailers => error(frame::FRAME_UNEXPECTED, "HEADERS come after trailers"),
        frame::PUSH_PROMISE => error(frame::ID_ERROR, "PUSH_PROMISE although no push was allowed"),
        frame::CANCEL_PUSH | frame::SETTINGS | frame::GOAWAY | frame::MAX_PUSH_ID => {
            error(frame::FRAME_UNEXPECTED, "a frame of the control stream on a request stream")
        }
        _ if frame::RESERVED.contains(&kind) => error(frame::FRAME_UNEXPECTED, "a frame of HTTP/2"),
        _ => Ok(()),
    }
}
