//! HPACK (RFC 7541): responses in, requests out.

use super::dynamic::{DynamicTable, NO_ENTRY, Name, OVERHEAD};
use super::tables::{Found, HPACK, find};
use super::text::Kind;
use super::{Known, Memo, Reader, Reason, Scratch, Section, Text, writer};
use crate::Request;

/// Decodes the field sections of one connection, in order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable,
    /// Largest dynamic table that the peer may choose.
    limit: usize,
    /// Whether to decode every field for the driver.
    shows_fields: bool,
    /// Whether the pseudo-header fields are among them.
    shows_pseudo: bool,
    memo: Memo,
    /// What the remembered block does to the table.
    effect: Effect,
    /// How many times the remembered block has come since it was last applied to the table.
    deferred: usize,
    scratch: Scratch,
}

/// What a block does to the dynamic table.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// Nothing, but it may refer to the entries of this version of the table.
    Nothing { version: u64 },
    /// It refers to no entries and adds some of this total size; nginx sends such blocks only. Coming again, it means
    /// the same, and what it adds can wait until another block comes.
    Adds { size: usize },
    /// Something else: it cannot be remembered.
    Other,
}

impl Decoder {
    /// A decoder that allows the peer a dynamic table of `limit` bytes (SETTINGS_HEADER_TABLE_SIZE).
    pub(crate) fn new(limit: usize, shows_fields: bool) -> Self {
        Self {
            // The peer begins with the default and must announce any larger size.
            table: DynamicTable::new(limit.min(4096)),
            limit,
            shows_fields,
            shows_pseudo: false,
            memo: Memo::default(),
            effect: Effect::Other,
            deferred: 0,
            scratch: Scratch::default(),
        }
    }

    /// A decoder for onlookers: it allows the largest dynamic table and shows the pseudo-header fields too.
    pub(crate) fn showing_all() -> Self {
        Self { shows_pseudo: true, ..Self::new(u32::MAX as usize, true) }
    }

    /// Decodes a block. `visit` sees each regular field, if the decoder shows fields, after the pseudo-header fields
    /// that the section holds by then.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        visit: impl FnMut(&Section, &[u8], &[u8]),
    ) -> Result<Section, Reason> {
        if !self.shows_fields
            && let Some(section) = self.memo.recall(block)
        {
            match self.effect {
                Effect::Nothing { version } if version == self.table.version() => return Ok(section),
                Effect::Adds { .. } => {
                    self.deferred += 1;
                    return Ok(section);
                }
                _ => {}
            }
        }
        self.settle()?;
        let (section, effect) = self.read(block, visit)?;
        self.effect = effect;
        Ok(section)
    }

    /// Applies the remembered block as often as it was deferred; once it has filled the table, more changes nothing.
    fn settle(&mut self) -> Result<(), Reason> {
        if let Effect::Adds { size } = self.effect
            && self.deferred > 0
        {
            // Reading it remembers it again.
            let memo = std::mem::take(&mut self.memo);
            for _ in 0..self.deferred.min(self.table.limit() / size + 2) {
                self.read(memo.block(), |_, _, _| {})?;
            }
            self.deferred = 0;
        }
        Ok(())
    }

    fn read(
        &mut self,
        block: &[u8],
        mut visit: impl FnMut(&Section, &[u8], &[u8]),
    ) -> Result<(Section, Effect), Reason> {
        let version = self.table.version();
        let mut section = Section::default();
        let mut added = 0;
        let mut stands_alone = true;
        let mut fields = 0;
        let mut reader = Reader::new(block);
        while let Some(first) = reader.peek() {
            if first & 0xe0 == 0x20 {
                self.change_size(reader.integer(5)?, &section)?;
                stands_alone = false;
                continue;
            }
            let (start, place) = (reader.offset(), fields);
            fields += 1;
            if let Some(size) = self.repeat(place, &mut reader, &mut section) {
                added += size;
                continue;
            }
            let mut is_constant = true;
            let (name, value, insertion) = if first & 0x80 != 0 {
                let index = reader.integer(7)?;
                is_constant = index <= HPACK.len();
                let (name, value) = lookup(&self.table, index)?;
                (name, value, None)
            } else {
                let inserts = first & 0x40 != 0;
                let (name, source) = match reader.integer(if inserts { 6 } else { 4 })? {
                    0 => {
                        let name = reader.string(7)?;
                        (name, Name::Text(name))
                    }
                    index => {
                        is_constant = index <= HPACK.len();
                        (lookup(&self.table, index)?.0, source(index))
                    }
                };
                let value = reader.string(7)?;
                (name, value, inserts.then_some((source, value)))
            };
            let kind = name.kind();
            if self.shows_fields && (self.shows_pseudo || !kind.is_pseudo()) && !section.is_too_long() {
                self.scratch.show(name, value, &mut |name, value| visit(&section, name, value))?;
            }
            section.add(kind, value);
            let before = self.table.added();
            let (len, is_added) = if let Some((name, value)) = insertion {
                let size = self.table.insert(name, value)?;
                added += size;
                (size - OVERHEAD, true)
            } else {
                (name.len()? + value.len()?, false)
            };
            section.count(len);
            stands_alone &= is_constant;
            let entry = Some(self.table.added()).filter(|now| *now > before);
            let is_known = is_constant && kind == Kind::Regular && !self.shows_fields && is_added == entry.is_some();
            let encoded = if is_known { reader.offset() - start } else { 0 };
            self.memo.keep_field(place, Known { start, encoded, decoded: len as u32, entry });
        }
        self.memo.keep(block, fields, section);
        let effect = if self.table.version() == version {
            Effect::Nothing { version }
        } else if stands_alone {
            Effect::Adds { size: added }
        } else {
            Effect::Other
        };
        Ok((section, effect))
    }

    /// Takes the field at this place if it is the one of the last block, without decoding it. Returns what it has added to
    /// the table, in bytes.
    fn repeat(&mut self, place: usize, reader: &mut Reader<'_>, section: &mut Section) -> Option<usize> {
        let known = self.memo.recall_field(place, reader.rest())?;
        let size = known.entry.map_or(Some(0), |entry| self.table.repeat(entry))?;
        let entry = known.entry.map(|_| self.table.added());
        self.memo.keep_field(place, Known { start: reader.offset(), entry, ..known });
        reader.skip(known.encoded);
        section.add_regular(known.decoded as usize);
        Some(size)
    }

    fn change_size(&mut self, size: usize, section: &Section) -> Result<(), Reason> {
        if *section != Section::default() {
            return Err("a dynamic table size update comes after a field");
        }
        if size > self.limit {
            return Err("a dynamic table size update exceeds SETTINGS_HEADER_TABLE_SIZE");
        }
        self.table.set_limit(size);
        Ok(())
    }
}

fn lookup(table: &DynamicTable, index: usize) -> Result<(Text<'_>, Text<'_>), Reason> {
    match index.checked_sub(1) {
        None => Err(NO_ENTRY),
        Some(index) => match HPACK.get(index) {
            Some((name, value)) => Ok((Text::plain(name.as_bytes()), Text::plain(value.as_bytes()))),
            None => table.get(index - HPACK.len()).ok_or(NO_ENTRY),
        },
    }
}

#[cfg(test)]
impl Decoder {
    /// The dynamic table, newest first.
    pub(super) fn table_entries(&self) -> Vec<(String, String)> {
        (0..).map_while(|index| self.table.entry(index)).collect()
    }

    pub(super) fn table_size(&self) -> usize {
        self.table.size()
    }
}

/// The name of the field at `index`, to be copied to a new entry.
fn source<'a>(index: usize) -> Name<'a> {
    match HPACK.get(index - 1) {
        Some((name, _)) => Name::Text(Text::plain(name.as_bytes())),
        None => Name::OfEntry(index - 1 - HPACK.len()),
    }
}

/// The field section of a request, encoded once.
///
/// What requests to an origin have in common is sent once and put into the dynamic table; afterwards it costs a byte a
/// field. The entries are the newest ones whenever they are referred to, so their indices are constant.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// Method, scheme and path.
    head: Vec<u8>,
    /// Authority and all other fields, to be inserted into the dynamic table.
    inserting: Vec<u8>,
    /// The same as references to these entries.
    inserted: Vec<u8>,
    /// The same without the dynamic table.
    literal: Vec<u8>,
    /// Size of the entries (RFC 7541 section 4.1).
    size: usize,
    /// Content-length.
    tail: Vec<u8>,
}

impl From<&Request> for Template {
    fn from(request: &Request) -> Self {
        let mut head = Vec::new();
        for (name, value) in [(":method", &request.method), (":scheme", &request.scheme), (":path", &request.path)] {
            field(false, name, value, &mut head);
        }
        let (mut inserting, mut literal, mut size) = (Vec::new(), Vec::new(), 0);
        let mut references = Vec::new();
        let authority = (":authority", request.authority.as_str());
        let others = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in std::iter::once(authority).chain(others) {
            field(true, name, value, &mut inserting);
            field(false, name, value, &mut literal);
            let index = find(&HPACK, name, value);
            if !matches!(index, Found::Field(_)) {
                size += name.len() + value.len() + OVERHEAD;
            }
            references.push(index);
        }
        let mut inserted = Vec::new();
        let mut newer = references.iter().filter(|index| !matches!(index, Found::Field(_))).count();
        for index in references {
            let index = match index {
                Found::Field(index) => index + 1,
                Found::Name(_) | Found::Nothing => {
                    newer -= 1;
                    HPACK.len() + 1 + newer
                }
            };
            writer::integer(0x80, 7, index, &mut inserted);
        }
        let mut tail = Vec::new();
        if let Some(length) = request.content_length() {
            field(false, "content-length", &length.to_string(), &mut tail);
        }
        Self { head, inserting, inserted, literal, size, tail }
    }
}

fn field(inserts: bool, name: &str, value: &str, out: &mut Vec<u8>) {
    let (pattern, prefix) = if inserts { (0x40, 6) } else { (0, 4) };
    match find(&HPACK, name, value) {
        Found::Field(index) => return writer::integer(0x80, 7, index + 1, out),
        Found::Name(index) => writer::integer(pattern, prefix, index + 1, out),
        Found::Nothing => {
            out.push(pattern);
            writer::string(0, 7, name, out);
        }
    }
    writer::string(0, 7, value, out);
}

/// Writes the field sections of one connection, in order.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Size of the dynamic table that the peer keeps for us.
    limit: usize,
    /// A lower limit that the peer wants and has not been told that it applies.
    new_limit: Option<usize>,
    /// The `inserting` block whose entries are the newest.
    newest: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self { limit: 4096, new_limit: None, newest: Vec::new() }
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE. More than what the table has now is not needed.
    pub(crate) fn limit(&mut self, size: u32) {
        let size = size as usize;
        if size < self.limit {
            self.limit = size;
            self.new_limit = Some(size);
            self.newest.clear();
        }
    }

    /// Appends the block of a request.
    pub(crate) fn encode(&mut self, request: &Template, out: &mut Vec<u8>) {
        if let Some(limit) = self.new_limit.take() {
            writer::integer(0x20, 5, limit, out);
        }
        out.extend_from_slice(&request.head);
        if self.newest == request.inserting {
            out.extend_from_slice(&request.inserted);
        } else if request.size <= self.limit {
            out.extend_from_slice(&request.inserting);
            self.newest.clone_from(&request.inserting);
        } else {
            out.extend_from_slice(&request.literal);
        }
        out.extend_from_slice(&request.tail);
    }
}
