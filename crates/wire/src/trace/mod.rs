//! Onlookers: they are shown the bytes of a connection, each direction by itself, and say what these mean.
//!
//! ```text
//!   driver ──> bytes it sends ──────> h1, h2 or h3::Trace ──┐
//!                                                           ├──> Item, Item, ...
//!   driver <── bytes it received ──> h1, h2 or h3::Trace ──┘
//! ```
//!
//! An onlooker takes no part in the connection and judges nothing: that is the connection's work, which sees the same
//! bytes. From the first byte on that it cannot follow, it says [`Item::Unreadable`] and nothing more. It copies what it
//! reports, so it is for people who look at single requests and not for load.

pub mod h1;
pub mod h2;
pub mod h3;
mod names;

use serde::Serialize;

/// Something that an onlooker saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// HTTP/1.1: the head of a request or of a response, 1xx included.
    Head {
        /// Request line or status line, as it came.
        start_line: String,
        /// Fields, as they came.
        fields: Vec<Field>,
        /// Length in bytes, with the empty line.
        bytes: u64,
    },
    /// HTTP/1.1: a chunk begins (RFC 9112 section 7.1); one of size 0 ends the body.
    Chunk {
        /// Bytes of data.
        size: u64,
        /// Chunk extensions, as they came; mostly empty.
        extensions: String,
    },
    /// HTTP/1.1: the trailers of a chunked body, unless there are none.
    Trailers {
        /// Fields, as they came.
        fields: Vec<Field>,
        /// Length in bytes, with the empty line.
        bytes: u64,
    },
    /// HTTP/2: the client's connection preface (RFC 9113 section 3.4).
    Preface,
    /// HTTP/2 and HTTP/3: a frame. One with data is reported when its data begins, any other one when it is complete.
    Frame(Frame),
    /// HTTP/3: a unidirectional stream begins and says what it is for (RFC 9114 section 6.2).
    Stream {
        /// Identifier.
        stream: u64,
        /// `control`, `push`, `QPACK encoder`, `QPACK decoder`, or a number.
        purpose: String,
    },
    /// HTTP/3: instructions on a QPACK stream (RFC 9204 section 4.2).
    Instructions {
        /// Identifier.
        stream: u64,
        /// How many bytes of them.
        bytes: u64,
    },
    /// HTTP/3: this direction of a stream ends in an orderly way.
    End {
        /// Identifier.
        stream: u64,
    },
    /// HTTP/3: the sender gives its direction of a stream up (RESET_STREAM, RFC 9000 section 19.4).
    Reset {
        /// Identifier.
        stream: u64,
        /// Why.
        code: Code,
    },
    /// HTTP/3: the sender wants no more of the other direction of a stream (STOP_SENDING, RFC 9000 section 19.5).
    Stop {
        /// Identifier.
        stream: u64,
        /// Why.
        code: Code,
    },
    /// The onlooker cannot follow; nothing more of this direction is reported.
    Unreadable {
        /// What it did not understand.
        reason: String,
    },
}

/// A header or trailer field. What is not UTF-8 is replaced by U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Name; in HTTP/2 and HTTP/3 that of a pseudo-header field begins with a colon.
    pub name: String,
    /// Value, without surrounding white space.
    pub value: String,
}

impl Field {
    fn new(name: &[u8], value: &[u8]) -> Self {
        Self { name: text(name), value: text(value) }
    }
}

/// A frame of HTTP/2 or HTTP/3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Name of its type; a number if the type is unknown.
    pub name: String,
    /// Identifier of its stream; 0 in HTTP/2 is the connection.
    pub stream: u64,
    /// Length of the payload in bytes.
    pub length: u64,
    /// Names of the flags that are set (HTTP/2).
    pub flags: Vec<String>,
    /// What the payload says.
    #[serde(flatten)]
    pub content: Content,
}

/// What the payload of a frame says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "content", rename_all = "snake_case")]
pub enum Content {
    /// Nothing that is shown: data, an acknowledgement, a part of a field section, a frame of an unknown type.
    Opaque,
    /// A field section, complete with this frame.
    Fields {
        /// The fields, decoded.
        fields: Vec<Field>,
        /// Length of the section on the wire in bytes.
        encoded_bytes: u64,
        /// Sum of the lengths of names and values.
        decoded_bytes: u64,
    },
    /// Settings, in their order.
    Settings {
        /// Each with its name.
        settings: Vec<Setting>,
    },
    /// More room for data.
    Window {
        /// Bytes.
        increment: u64,
    },
    /// The stream is given up.
    Reset {
        /// Why.
        code: Code,
    },
    /// The connection takes no new requests.
    Goaway {
        /// HTTP/2: the last stream that was or may be processed. HTTP/3: the first one that was not.
        stream: u64,
        /// Why (HTTP/2 only).
        code: Option<Code>,
        /// What the sender says about it (HTTP/2 only).
        debug: String,
    },
    /// A sign of life.
    Ping {
        /// The number that the answer repeats.
        number: u64,
    },
    /// The payload breaks the rules of its type.
    Malformed {
        /// How.
        reason: String,
    },
}

/// A setting of HTTP/2 or HTTP/3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name in the registry, or the identifier as a number.
    pub name: String,
    /// Value.
    pub value: u64,
}

/// An error code of HTTP/2 or HTTP/3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Code {
    /// Name in the registry, or the code as a number.
    pub name: String,
    /// The code.
    pub value: u64,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Moves bytes from the front of `bytes` to `partial` until that has `len`; whether it has.
fn fill(partial: &mut Vec<u8>, len: usize, bytes: &mut &[u8]) -> bool {
    let (taken, rest) = bytes.split_at(len.saturating_sub(partial.len()).min(bytes.len()));
    partial.extend_from_slice(taken);
    *bytes = rest;
    partial.len() >= len
}

fn malformed(reason: &str) -> Content {
    Content::Malformed { reason: reason.to_owned() }
}
