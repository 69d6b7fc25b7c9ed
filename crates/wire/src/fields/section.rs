//! What a field section says, and the memory of the last one.

use super::Reason;
use super::text::{Kind, Text};

/// A field section as far as the connection cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    /// `:status`, 100 or more; none in trailers.
    pub(crate) status: Option<u16>,
    /// Sum of the decoded lengths of names and values.
    pub(crate) decoded_bytes: u32,
    /// Pseudo-header fields that a response must not have, twice, or after others (RFC 9113 section 8.3).
    pub(crate) malformed: bool,
    has_regular: bool,
}

impl Section {
    /// Adds the lengths of a field's name and value.
    pub(super) fn count(&mut self, len: usize) {
        self.decoded_bytes = self.decoded_bytes.saturating_add(len as u32);
    }

    /// Adds a field.
    pub(super) fn add(&mut self, kind: Kind, value: Text<'_>) {
        match kind {
            Kind::Regular => self.has_regular = true,
            Kind::Status if !self.has_regular && self.status.is_none() => {
                self.status = value.status();
                self.malformed |= self.status.is_none();
            }
            Kind::Status | Kind::OtherPseudo => self.malformed = true,
        }
    }

    /// Whether it is the head of an interim response, after which another one comes.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_some_and(|status| status < 200)
    }
}

/// The last block that a connection decoded, with its meaning: servers repeat themselves, above all within a second.
#[derive(Debug, Default)]
pub(super) struct Memo {
    block: Vec<u8>,
    section: Section,
}

/// Longer blocks are not remembered, to bound the memory of a connection.
const MEMO_LIMIT: usize = 1024;

impl Memo {
    /// The meaning of `block` if it is the last one.
    pub(super) fn recall(&self, block: &[u8]) -> Option<Section> {
        (!block.is_empty() && self.block == block).then_some(self.section)
    }

    pub(super) fn keep(&mut self, block: &[u8], section: Section) {
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
