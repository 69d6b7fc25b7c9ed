//! HTTP/3: frames and the streams that carry them.

use std::collections::HashMap;

use super::names::{h3_error, h3_frame, h3_setting, h3_stream};
use super::{Content, Field, Frame, Item, Setting, fill, malformed};
use crate::fields::qpack;
use crate::h3::frame::{GOAWAY, HEADERS, SETTINGS, varint};

/// Follows what one side sends on a connection, on all streams.
#[derive(Debug)]
pub struct Trace {
    streams: HashMap<u64, Stream>,
    decoder: qpack::Decoder,
}

/// One direction of a stream.
#[derive(Debug)]
struct Stream {
    place: Place,
    /// What has come of a number, or of a payload that is shown.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the type of a unidirectional stream.
    Type,
    /// In the type and the length of a frame.
    Head,
    /// In a payload that is shown: type and length.
    Payload(u64, u64),
    /// In a payload that is not shown, of which so many bytes are to come.
    Opaque(u64),
    /// In QPACK instructions.
    Instructions,
    /// In a stream of another kind.
    Unknown,
}

/// Longest payload that is shown, in bytes; a connection takes no longer one either.
const PAYLOAD_LIMIT: u64 = 256 << 10;

impl Default for Trace {
    fn default() -> Self {
        Self { streams: HashMap::new(), decoder: qpack::Decoder::showing_all() }
    }
}

impl Trace {
    /// Takes the next bytes of a stream and reports what they mean; `fin` says that the stream ends after them.
    pub fn feed(&mut self, stream: u64, mut bytes: &[u8], fin: bool, report: &mut impl FnMut(Item)) {
        let is_unidirectional = stream & 2 != 0;
        let new = || Stream { place: if is_unidirectional { Place::Type } else { Place::Head }, partial: Vec::new() };
        let state = self.streams.entry(stream).or_insert_with(new);
        while !bytes.is_empty() {
            state.step(stream, &mut bytes, &mut self.decoder, report);
        }
        if fin {
            self.streams.remove(&stream);
            report(Item::End { stream });
        }
    }

    /// The sender gave its direction of a stream up.
    pub fn reset(&mut self, stream: u64, code: u64, report: &mut impl FnMut(Item)) {
        self.streams.remove(&stream);
        report(Item::Reset { stream, code: h3_error(code) });
    }

    /// The sender wants no more of the other direction of a stream.
    pub fn stop(&self, stream: u64, code: u64, report: &mut impl FnMut(Item)) {
        report(Item::Stop { stream, code: h3_error(code) });
    }
}

impl Stream {
    /// Takes some bytes from the front of `bytes`.
    fn step(&mut self, id: u64, bytes: &mut &[u8], decoder: &mut qpack::Decoder, report: &mut impl FnMut(Item)) {
        match self.place {
            Place::Type => {
                let Some([kind]) = self.numbers(bytes) else { return };
                report(Item::Stream { stream: id, purpose: h3_stream(kind) });
                self.place = match kind {
                    0 => Place::Head,
                    2 | 3 => Place::Instructions,
                    _ => Place::Unknown,
                };
            }
            Place::Head => {
                let Some([kind, length]) = self.numbers(bytes) else { return };
                let is_shown = matches!(kind, HEADERS | SETTINGS | GOAWAY);
                if is_shown && length <= PAYLOAD_LIMIT {
                    self.place = Place::Payload(kind, length);
                    // An empty payload needs no further bytes.
                    self.payload(id, kind, length, bytes, decoder, report);
                    return;
                }
                let content =
                    if is_shown { malformed("longer than 256 kB, so it is not shown") } else { Content::Opaque };
                report(item(id, kind, length, content));
                self.place = if length > 0 { Place::Opaque(length) } else { Place::Head };
            }
            Place::Payload(kind, length) => self.payload(id, kind, length, bytes, decoder, report),
            Place::Opaque(left) => {
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                *bytes = &bytes[len..];
                let left = left - len as u64;
                self.place = if left > 0 { Place::Opaque(left) } else { Place::Head };
            }
            Place::Instructions => {
                report(Item::Instructions { stream: id, bytes: bytes.len() as u64 });
                *bytes = &[];
            }
            Place::Unknown => *bytes = &[],
        }
    }

    fn payload(
        &mut self,
        id: u64,
        kind: u64,
        length: u64,
        bytes: &mut &[u8],
        decoder: &mut qpack::Decoder,
        report: &mut impl FnMut(Item),
    ) {
        if fill(&mut self.partial, length as usize, bytes) {
            report(item(id, kind, length, content(kind, &self.partial, decoder)));
            self.partial.clear();
            self.place = Place::Head;
        }
    }

    /// Takes variable-length integers from the front of `bytes`, once all of them are there.
    fn numbers<const N: usize>(&mut self, bytes: &mut &[u8]) -> Option<[u64; N]> {
        while let Some((&byte, rest)) = bytes.split_first() {
            self.partial.push(byte);
            *bytes = rest;
            let mut collected = self.partial.as_slice();
            let mut numbers = [0; N];
            if numbers.iter_mut().all(|number| varint(&mut collected).map(|value| *number = value).is_some()) {
                self.partial.clear();
                return Some(numbers);
            }
        }
        None
    }
}

fn item(stream: u64, kind: u64, length: u64, content: Content) -> Item {
    Item::Frame(Frame { name: h3_frame(kind), stream, length, flags: Vec::new(), content })
}

fn content(kind: u64, mut payload: &[u8], decoder: &mut qpack::Decoder) -> Content {
    match kind {
        HEADERS => {
            let mut fields = Vec::new();
            match decoder.decode(payload, |_, name, value| fields.push(Field::new(name, value))) {
                Ok(section) => Content::Fields {
                    fields,
                    encoded_bytes: payload.len() as u64,
                    decoded_bytes: section.decoded_bytes.into(),
                },
                Err(reason) => malformed(reason),
            }
        }
        SETTINGS => {
            let mut settings = Vec::new();
            while !payload.is_empty() {
                let (Some(id), Some(value)) = (varint(&mut payload), varint(&mut payload)) else {
                    return malformed("it ends in the middle of a setting");
                };
                settings.push(Setting { name: h3_setting(id), value });
            }
            Content::Settings { settings }
        }
        _ => match varint(&mut payload) {
            Some(stream) if payload.is_empty() => Content::Goaway { stream, code: None, debug: String::new() },
            _ => malformed("it does not hold one integer"),
        },
    }
}
