//! QPACK (RFC 9204) with SETTINGS_QPACK_MAX_TABLE_CAPACITY 0 on both sides: the static table and literals.

use super::tables::{Found, QPACK, find};
use super::text::Kind;
use super::{Known, Memo, Reader, Reason, Scratch, Section, Text, writer};
use crate::Request;

/// Decodes the field sections of one connection, in any order.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Whether to decode every field for the driver.
    shows_fields: bool,
    /// Whether the pseudo-header fields are among them.
    shows_pseudo: bool,
    memo: Memo,
    scratch: Scratch,
}

impl Decoder {
    pub(crate) fn new(shows_fields: bool) -> Self {
        Self { shows_fields, ..Self::default() }
    }

    /// A decoder for onlookers, which shows the pseudo-header fields too.
    pub(crate) fn showing_all() -> Self {
        Self { shows_pseudo: true, ..Self::new(true) }
    }

    /// Decodes an encoded field section. `visit` sees each regular field, if the decoder shows fields, after the
    /// pseudo-header fields that the section holds by then.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut visit: impl FnMut(&Section, &[u8], &[u8]),
    ) -> Result<Section, Reason> {
        if !self.shows_fields
            && let Some(section) = self.memo.recall(block)
        {
            return Ok(section);
        }
        let mut reader = Reader::new(block);
        if reader.integer(8)? != 0 {
            return Err(NO_DYNAMIC);
        }
        // The base, by which nothing is counted here.
        reader.integer(7)?;
        let mut section = Section::default();
        let mut fields = 0;
        while let Some(first) = reader.peek() {
            let (start, place) = (reader.offset(), fields);
            fields += 1;
            if let Some(known) = self.memo.recall_field(place, reader.rest()) {
                self.memo.keep_field(place, Known { start, ..known });
                section.add_regular(known.decoded as usize);
                reader.skip(known.encoded);
                continue;
            }
            let (name, value) = match first >> 4 {
                0b1100..=0b1111 => static_field(reader.integer(6)?)?,
                0b0101 | 0b0111 => (static_field(reader.integer(4)?)?.0, reader.string(7)?),
                0b0010 | 0b0011 => (reader.string(3)?, reader.string(7)?),
                _ => return Err(NO_DYNAMIC),
            };
            let kind = name.kind();
            if self.shows_fields && (self.shows_pseudo || !kind.is_pseudo()) && !section.is_too_long() {
                self.scratch.show(name, value, &mut |name, value| visit(&section, name, value))?;
            }
            section.add(kind, value);
            let len = name.len()? + value.len()?;
            section.count(len);
            let is_known = kind == Kind::Regular && !self.shows_fields;
            let encoded = if is_known { reader.offset() - start } else { 0 };
            self.memo.keep_field(place, Known { start, encoded, decoded: len as u32, entry: None });
        }
        self.memo.keep(block, fields, section);
        Ok(section)
    }
}

const NO_DYNAMIC: Reason = "a field refers to the dynamic table, whose capacity is 0";

fn static_field(index: usize) -> Result<(Text<'static>, Text<'static>), Reason> {
    let (name, value) = QPACK.get(index).ok_or("a field refers to an index that the static table does not have")?;
    Ok((Text::plain(name.as_bytes()), Text::plain(value.as_bytes())))
}

/// Appends the field section of a request.
pub(crate) fn encode(request: &Request, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
    for (name, value) in [
        (":method", &request.method),
        (":scheme", &request.scheme),
        (":authority", &request.authority),
        (":path", &request.path),
    ] {
        field(name, value, out);
    }
    for (name, value) in &request.headers {
        field(name, value, out);
    }
    if let Some(length) = request.content_length() {
        field("content-length", &length.to_string(), out);
    }
}

fn field(name: &str, value: &str, out: &mut Vec<u8>) {
    match find(&QPACK, name, value) {
        Found::Field(index) => return writer::integer(0xc0, 6, index, out),
        Found::Name(index) => writer::integer(0x50, 4, index, out),
        Found::Nothing => writer::string(0x20, 3, name, out),
    }
    writer::string(0, 7, value, out);
}
