use bytes::Bytes;

/// The driver's name for a request; the connection gives it back with every event of the response.
pub type Token = u32;

/// A request, ready to be encoded for any protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Method, for example `GET`.
    pub method: String,
    /// `http` or `https`.
    pub scheme: String,
    /// Host and, unless it is the scheme's default, port.
    pub authority: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// Further header fields: lower-case names without `host`, `content-length` and connection-specific fields, which
    /// the encoders add where the protocol wants them. Names and values are copied as they are: whoever takes them
    /// from a user checks them (RFC 9110 section 5.5) first.
    pub headers: Vec<(String, String)>,
    /// Body; empty for none.
    pub body: Bytes,
}

impl Request {
    /// Bytes of the head in HTTP/2 and HTTP/3 before compression: the sum of name and value lengths (h2load's formula).
    pub fn uncompressed_bytes(&self) -> u32 {
        let pseudo = [(7, &self.method), (7, &self.scheme), (10, &self.authority), (5, &self.path)];
        let pseudo = pseudo.map(|(name, value)| name + value.len());
        let fields = self.headers.iter().map(|(name, value)| name.len() + value.len());
        let length = self.content_length().map(|length| "content-length".len() + length.to_string().len());
        pseudo.into_iter().chain(fields).chain(length).sum::<usize>() as u32
    }

    /// Value of the content-length field, which a request without a body has only if its method expects one (RFC 9110
    /// section 8.6).
    pub(crate) fn content_length(&self) -> Option<usize> {
        let expects_body = matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        (expects_body || !self.body.is_empty()).then_some(self.body.len())
    }
}

/// What a connection tells its driver. Events of one request arrive as `Head`, any number of `Data`, then `Done`; or
/// end early with `Failed`. `Field` comes only when the connection's options ask for it.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// One header field; those of the head come just before `Head`, those of the trailers just before `Done`.
    Field {
        /// Which request.
        token: Token,
        /// Name, as the peer wrote it.
        name: &'a [u8],
        /// Value, without surrounding white space.
        value: &'a [u8],
    },
    /// The head of the final response (1xx responses are skipped).
    Head {
        /// Which request.
        token: Token,
        /// Status code, 200 to 599; a peer may invent codes up to 999.
        status: u16,
        /// Bytes of the head on the wire: status line and fields in HTTP/1.1, the field section in HTTP/2 and HTTP/3.
        header_bytes: u32,
        /// Bytes of the same head uncompressed: the sum of name and value lengths (h2load's formula); equals
        /// `header_bytes` in HTTP/1.1.
        decoded_bytes: u32,
    },
    /// A piece of the body.
    Data {
        /// Which request.
        token: Token,
        /// The bytes, borrowed from what was received.
        bytes: &'a [u8],
    },
    /// The response is complete.
    Done {
        /// Which request.
        token: Token,
    },
    /// The request failed and will have no further events; the connection may live on.
    Failed {
        /// Which request.
        token: Token,
        /// Why.
        kind: FailureKind,
    },
    /// The peer takes no new requests on this connection (GOAWAY, `Connection: close`); those in flight go on, and
    /// those that the peer did not see end in `Failed` with [`FailureKind::Refused`].
    Draining,
}

/// Why a single request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The peer certainly did not process it (REFUSED_STREAM, H3_REQUEST_REJECTED, above the last stream id of a
    /// GOAWAY, or never sent): it may be sent again.
    Refused,
    /// The stream was reset with this error code (RFC 9113 section 7, RFC 9114 section 8.1).
    Reset(u64),
    /// The connection ended before the response did.
    Truncated,
    /// The response breaks the protocol in a way that harms only itself (RFC 9113 section 8.1.1, RFC 9114 section
    /// 4.1.2), for example with a content-length that is not that of its body. HTTP/2 has reset the stream; over HTTP/3 the driver does, with H3_MESSAGE_ERROR.
    Malformed,
}

/// The peer broke the protocol; the connection is of no further use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// HTTP/1.1: the bytes are not a response (RFC 9112).
    #[error("malformed HTTP/1.1 response: {0}")]
    Http1(&'static str),
    /// HTTP/2: a connection error with its code (RFC 9113 section 5.4.1).
    #[error("HTTP/2 connection error {code:#x}: {reason}")]
    Http2 {
        /// Error code of RFC 9113 section 7.
        code: u32,
        /// What the peer did.
        reason: &'static str,
    },
    /// HTTP/3: a connection error with its code (RFC 9114 section 8).
    #[error("HTTP/3 connection error {code:#x}: {reason}")]
    Http3 {
        /// Error code of RFC 9114 section 8.1 or RFC 9204 section 6.
        code: u64,
        /// What the peer did.
        reason: &'static str,
    },
    /// The peer closed the connection with an error code (GOAWAY).
    #[error("the peer closed the connection with error code {0:#x}")]
    ClosedByPeer(u64),
}

/// A client connection over one byte stream: HTTP/1.1 and HTTP/2.
pub trait Connection {
    /// A request, encoded once and sent any number of times on any connection of this protocol.
    type Prepared: for<'a> From<&'a Request>;

    /// How many more requests can be started right now; 0 while 1 MB or more waits to be sent.
    fn capacity(&self) -> usize;

    /// Starts a request: its head and then its body go to the output. The caller must have seen `capacity() > 0`, and
    /// uses no token that is in flight on this connection. Gives the bytes of the head on the wire, as
    /// [`Event::Head`] counts those of responses.
    fn start(&mut self, token: Token, request: &Self::Prepared) -> u32;

    /// Takes bytes that the transport received and reports what they mean. Never keeps a reference to `bytes`. It may
    /// add to the output (acknowledgements, window updates).
    ///
    /// # Errors
    /// The peer broke the protocol or closed with an error: every request in flight has been reported as failed before
    /// this returns. The output may hold a last message to the peer; nothing else may be done with the connection.
    fn receive(&mut self, bytes: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error>;

    /// The transport reached its end: requests in flight are completed (HTTP/1.1 bodies that end with the connection)
    /// or reported as failed.
    fn finish(&mut self, sink: &mut impl FnMut(Event<'_>));

    /// Gives a request up, for example after a timeout: it has no further events. HTTP/2 resets its stream and goes on.
    /// HTTP/1.1 can only leave the connection, so it takes no new requests and should be closed.
    fn cancel(&mut self, token: Token);

    /// Requests started and neither done, failed nor cancelled.
    fn in_flight(&self) -> usize;

    /// Whether the connection takes no new requests, for good: close it once `in_flight()` is 0.
    fn is_draining(&self) -> bool;

    /// Bytes to send, in order. The driver removes from the front what it has sent. A large body is added in pieces,
    /// when this is called and little else is left to send: the driver asks again until it gets none.
    fn output(&mut self) -> &mut Vec<u8>;
}
