//! What a field section says, and the memory of the last one.

use super::Reason;
use super::text::{Kind, Text};
use crate::length::ContentLeft;

/// A field section as far as the connection cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// `:status`, 100 or more; none in trailers.
    pub(crate) status: Option<u16>,
    /// Sum of the decoded lengths of names and values.
    pub(crate) decoded_bytes: u32,
    /// What content-length says.
    content_length: Option<u64>,
    /// Pseudo-header fields that a response must not have, twice, or after others (RFC 9113 section 8.3), a
    /// content-length that is none, or more than [`LIMIT`] bytes.
    pub(crate) malformed: bool,
    has_regular: bool,
}

/// Most decoded bytes. A reference to the dynamic table is one byte, so that a block may grow 4,000-fold.
const LIMIT: u32 = 1 << 20;

impl Section {
    /// Adds the lengths of a field's name and value.
    pub(super) fn count(&mut self, len: usize) {
        self.decoded_bytes = self.decoded_bytes.saturating_add(len as u32);
        self.malformed |= self.is_too_long();
    }

    /// Whether so much was decoded that the rest is of no interest.
    pub(super) fn is_too_long(&self) -> bool {
        self.decoded_bytes > LIMIT
    }

    /// Adds a field that is neither a pseudo-header field nor content-length, of this decoded length.
    pub(super) fn add_regular(&mut self, len: usize) {
        self.has_regular = true;
        self.count(len);
    }

    /// Adds a field.
    pub(super) fn add(&mut self, kind: Kind, value: Text<'_>) {
        match kind {
            Kind::Regular => self.has_regular = true,
            Kind::ContentLength => {
                self.has_regular = true;
                self.content_length = value.content_length(self.content_length);
                self.malformed |= self.content_length.is_none();
            }
            Kind::Status if !self.has_regular && self.status.is_none() => {
                self.status = value.status();
                self.malformed |= self.status.is_none();
            }
            Kind::Status | Kind::OtherPseudo => self.malformed = true,
        }
    }

    /// How much content follows this head (RFC 9110 section 6.4.1); `to_head` says that it answers a
    /// HEAD request.
    pub(crate) fn content(&self, to_head: bool) -> ContentLeft {
        let has_none = to_head || matches!(self.status, Some(204 | 304));
        ContentLeft::new(if has_none { Some(0) } else { self.content_length })
    }

    /// Whether it is the head of an interim response, after which another one comes.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_some_and(|status| status < 200)
    }
}

/// The last block that a connection decoded, with its meaning: servers repeat themselves, above all within a second.
/// And when something differs, most fields are still those of the last block, in the same order.
#[derive(Debug, Default)]
pub(super) struct Memo {
    block: Vec<u8>,
    section: Section,
    fields: Vec<Known>,
}

/// A field of the remembered block that is neither a pseudo-header field nor content-length.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Where in the block it begins.
    pub(super) start: u32,
    /// Length of its encoding, 0 if nothing is known of it.
    pub(super) encoded: u32,
    /// Decoded length of name and value.
    pub(super) decoded: u32,
    /// The entry that it added to the dynamic table, if any.
    pub(super) entry: Option<u64>,
}

/// Longer blocks are not remembered, to bound the memory of a connection.
const MEMO_LIMIT: usize = 1024;

/// Nor more fields.
const FIELDS_LIMIT: usize = 64;

impl Memo {
    /// The meaning of `block` if it is the last one.
    pub(super) fn recall(&self, block: &[u8]) -> Option<Section> {
        (!block.is_empty() && self.block == block).then_some(self.section)
    }

    /// The field at this place among the fields of the last block, if `rest` begins with the same encoding.
    pub(super) fn recall_field(&self, place: usize, rest: &[u8]) -> Option<Known> {
        let known = *self.fields.get(place)?;
        let encoding = self.block.get(known.start as usize..)?.get(..known.encoded as usize)?;
        (!encoding.is_empty() && rest.starts_with(encoding)).then_some(known)
    }

    /// Remembers the next field of the block that is being decoded, in the order of their places. Its encoding must mean
    /// the same whatever is in the dynamic table; if not, nothing is known of it.
    pub(super) fn keep_field(&mut self, place: usize, known: Known) {
        match self.fields.get_mut(place) {
            Some(field) => *field = known,
            None if place < FIELDS_LIMIT => self.fields.push(known),
            None => {}
        }
    }

    /// Remembers a block, after its fields, whose number is `fields`.
    pub(super) fn keep(&mut self, block: &[u8], fields: usize, section: Section) {
        self.fields.truncate(fields);
        self.block.clear();
        if block.len() <= MEMO_LIMIT {
            self.block.extend_from_slice(block);
            self.section = section;
        }
    }

    pub(super) fn block(&self) -> &[u8] {
        &self.block
    }
}

/// Room to decode a field for the driver.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Scratch {
    /// Decodes a field and hands it to `visit`.
    pub(super) fn show(
        &mut self,
        name: Text<'_>,
        value: Text<'_>,
        visit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Reason> {
        self.name.clear();
        name.append_to(&mut self.name)?;
        self.value.clear();
        value.append_to(&mut self.value)?;
        visit(&self.name, &self.value);
        Ok(())
    }
}
