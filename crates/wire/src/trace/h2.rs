//! HTTP/2: frames.

use super::names::{h2_error, h2_frame, h2_setting};
use super::{Content, Field, Frame, Item, Setting, fill, malformed, text};
use crate::fields::{Reason, hpack};
use crate::h2::frame::{self, Head};

/// Follows what one side sends on a connection.
#[derive(Debug)]
pub struct Trace {
    place: Place,
    /// What has come of the preface or of a frame.
    partial: Vec<u8>,
    /// The field section whose end has not come.
    block: Vec<u8>,
    decoder: hpack::Decoder,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Preface,
    Frame,
    /// In a payload that is not shown, of which so many bytes are to come.
    Opaque(usize),
    Lost,
}

/// Longest field section that is put together, in bytes; a connection takes no longer one either.
const BLOCK_LIMIT: usize = 256 << 10;

impl Trace {
    /// Follows the client, which begins with the connection preface.
    pub fn client() -> Self {
        Self { place: Place::Preface, ..Self::server() }
    }

    /// Follows the server.
    pub fn server() -> Self {
        let decoder = hpack::Decoder::showing_all();
        Self { place: Place::Frame, partial: Vec::new(), block: Vec::new(), decoder }
    }

    /// Takes the next bytes and reports what they mean.
    pub fn feed(&mut self, mut bytes: &[u8], report: &mut impl FnMut(Item)) {
        while !bytes.is_empty() {
            match self.place {
                Place::Lost => return,
                Place::Preface => {
                    if !fill(&mut self.partial, frame::PREFACE.len(), &mut bytes) {
                        return;
                    }
                    if self.partial != frame::PREFACE {
                        return self.give_up("the connection preface is another one", report);
                    }
                    report(Item::Preface);
                    self.go(Place::Frame);
                }
                Place::Opaque(left) => {
                    let len = left.min(bytes.len());
                    bytes = &bytes[len..];
                    self.place = if left > len { Place::Opaque(left - len) } else { Place::Frame };
                }
                Place::Frame => self.frame(&mut bytes, report),
            }
        }
    }

    fn frame(&mut self, bytes: &mut &[u8], report: &mut impl FnMut(Item)) {
        if !fill(&mut self.partial, frame::HEAD_LEN, bytes) {
            return;
        }
        let Some(head) = self.partial.first_chunk().map(Head::parse) else { return };
        if matches!(head.kind, frame::HEADERS..=frame::CONTINUATION) {
            if !fill(&mut self.partial, frame::HEAD_LEN + head.len, bytes) {
                return;
            }
            let partial = std::mem::take(&mut self.partial);
            match self.content(head, &partial[frame::HEAD_LEN..]) {
                Ok(content) => {
                    report(item(head, content));
                    self.go(Place::Frame);
                }
                // The decoder does not know the dynamic table any more.
                Err(reason) => {
                    report(item(head, malformed(reason)));
                    self.give_up("what follows may refer to fields that are not known", report);
                }
            }
        } else {
            report(item(head, Content::Opaque));
            self.go(if head.len > 0 { Place::Opaque(head.len) } else { Place::Frame });
        }
    }

    /// What a payload says.
    ///
    /// # Errors
    /// A field section cannot be decoded.
    fn content(&mut self, head: Head, payload: &[u8]) -> Result<Content, Reason> {
        match head.kind {
            frame::HEADERS => {
                self.block.clear();
                match fragment(head, payload) {
                    Some(fragment) => self.fields(head, fragment),
                    None => Err("the padding is longer than the frame"),
                }
            }
            frame::CONTINUATION => self.fields(head, payload),
            _ => Ok(fixed_content(head, payload).unwrap_or_else(|| malformed("the payload has a wrong length"))),
        }
    }

    /// Adds a part of a field section, and decodes it if this is the last one.
    fn fields(&mut self, head: Head, fragment: &[u8]) -> Result<Content, Reason> {
        if self.block.len() + fragment.len() > BLOCK_LIMIT {
            return Err("the field section is longer than 256 kB");
        }
        self.block.extend_from_slice(fragment);
        if !head.has(frame::END_HEADERS) {
            return Ok(Content::Opaque);
        }
        let mut fields = Vec::new();
        let section = self.decoder.decode(&self.block, |_, name, value| fields.push(Field::new(name, value)))?;
        let (encoded_bytes, decoded_bytes) = (self.block.len() as u64, section.decoded_bytes.into());
        Ok(Content::Fields { fields, encoded_bytes, decoded_bytes })
    }

    fn go(&mut self, place: Place) {
        self.place = place;
        self.partial.clear();
    }

    fn give_up(&mut self, reason: &str, report: &mut impl FnMut(Item)) {
        report(Item::Unreadable { reason: reason.to_owned() });
        self.go(Place::Lost);
    }
}

fn item(head: Head, content: Content) -> Item {
    Item::Frame(Frame {
        name: h2_frame(head.kind),
        stream: head.stream.into(),
        length: head.len as u64,
        flags: flags(head),
        content,
    })
}

/// The names of the flags that are set; of those that the type does not define, the number.
fn flags(head: Head) -> Vec<String> {
    let defined: &[(u8, &str)] = match head.kind {
        frame::DATA => &[(frame::END_STREAM, "END_STREAM"), (frame::PADDED, "PADDED")],
        frame::HEADERS => &[
            (frame::END_STREAM, "END_STREAM"),
            (frame::END_HEADERS, "END_HEADERS"),
            (frame::PADDED, "PADDED"),
            (frame::WITH_PRIORITY, "PRIORITY"),
        ],
        frame::SETTINGS | frame::PING => &[(frame::ACK, "ACK")],
        frame::PUSH_PROMISE => &[(frame::END_HEADERS, "END_HEADERS"), (frame::PADDED, "PADDED")],
        frame::CONTINUATION => &[(frame::END_HEADERS, "END_HEADERS")],
        _ => &[],
    };
    let mut left = head.flags;
    let mut names = Vec::new();
    for (flag, name) in defined {
        if head.has(*flag) {
            left &= !flag;
            names.push((*name).to_owned());
        }
    }
    if left != 0 {
        names.push(format!("{left:#x}"));
    }
    names
}

/// The part of a field section in the payload of a HEADERS frame: without padding and priority.
fn fragment(head: Head, mut payload: &[u8]) -> Option<&[u8]> {
    let mut padding = 0;
    if head.has(frame::PADDED) {
        let (&len, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(len), rest);
    }
    if head.has(frame::WITH_PRIORITY) {
        payload = payload.get(5..)?;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}

/// What a payload says that consists of numbers; `None` if it has a wrong length.
fn fixed_content(head: Head, payload: &[u8]) -> Option<Content> {
    Some(match head.kind {
        frame::SETTINGS => {
            let (settings, rest) = payload.as_chunks::<6>();
            if !rest.is_empty() {
                return None;
            }
            let setting = |&[a, b, value @ ..]: &[u8; 6]| Setting {
                name: h2_setting(u16::from_be_bytes([a, b])),
                value: u32::from_be_bytes(value).into(),
            };
            Content::Settings { settings: settings.iter().map(setting).collect() }
        }
        frame::RST_STREAM => Content::Reset { code: h2_error(number(payload)?) },
        frame::WINDOW_UPDATE => Content::Window { increment: (number(payload)? & frame::MAX_31_BITS).into() },
        frame::PING => Content::Ping { number: u64::from_be_bytes(payload.try_into().ok()?) },
        frame::GOAWAY => Content::Goaway {
            stream: (number(payload.get(..4)?)? & frame::MAX_31_BITS).into(),
            code: Some(h2_error(number(payload.get(4..8)?)?)),
            debug: text(&payload[8..]),
        },
        _ => Content::Opaque,
    })
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}
