//! The dynamic table of RFC 7541 section 2.3.2.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Reason, Text};

/// The table: strings lie one after the other in one buffer, oldest first, so that an entry costs no allocation.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// Newest at the back.
    entries: VecDeque<Entry>,
    /// Strings of the entries, preceded by those of evicted entries until they are half of it.
    bytes: Vec<u8>,
    /// How many bytes were removed from the front of `bytes` so far.
    removed: u64,
    /// How many entries were ever added.
    added: u64,
    /// Size by the formula of RFC 7541 section 4.1.
    size: usize,
    limit: usize,
    version: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its name begins, counted from the first byte ever stored.
    start: u64,
    name_len: u32,
    value_len: u32,
}

/// What RFC 7541 section 4.1 adds to the lengths of an entry's strings.
pub(super) const OVERHEAD: usize = 32;

impl Entry {
    fn size(self) -> usize {
        self.name_len as usize + self.value_len as usize + OVERHEAD
    }
}

/// The name of an entry to insert.
#[derive(Clone, Copy)]
pub(super) enum Name<'a> {
    Text(Text<'a>),
    /// That of an entry, 0 being the newest.
    OfEntry(usize),
}

impl DynamicTable {
    pub(super) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: Vec::new(), removed: 0, added: 0, size: 0, limit, version: 0 }
    }

    /// Changes with every change of the table.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// How many entries were ever added. Right after an insertion, the number of the new entry for [`Self::repeat`].
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    /// Name and value of an entry, 0 being the newest.
    pub(super) fn get(&self, index: usize) -> Option<(Text<'_>, Text<'_>)> {
        let (name, value) = self.place(index)?;
        Some((Text::plain(&self.bytes[name]), Text::plain(&self.bytes[value])))
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the size limit and evicts what exceeds it (RFC 7541 section 4.3).
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.version += 1;
        self.evict_down_to(limit);
        self.reclaim();
    }

    /// Adds an entry, evicts the oldest ones (RFC 7541 section 4.4), and returns the size of the new one. Its name may
    /// be that of an entry which goes.
    pub(super) fn insert(&mut self, name: Name<'_>, value: Text<'_>) -> Result<usize, Reason> {
        let start = self.bytes.len();
        let name_len = match name {
            Name::Text(text) => text.append_to(&mut self.bytes)? as u32,
            Name::OfEntry(index) => {
                let (name, _) = self.place(index).ok_or(NO_ENTRY)?;
                let len = name.len() as u32;
                self.bytes.extend_from_within(name);
                len
            }
        };
        let value_len = value.append_to(&mut self.bytes)? as u32;
        Ok(self.push(Entry { start: self.removed + start as u64, name_len, value_len }))
    }

    /// Adds the entry of this number again, if it is still there, and returns its size.
    pub(super) fn repeat(&mut self, number: u64) -> Option<usize> {
        let (name, value) = self.place((self.added - number) as usize)?;
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        let start = self.removed + self.bytes.len() as u64;
        self.bytes.extend_from_within(name.start..value.end);
        Some(self.push(Entry { start, name_len, value_len }))
    }

    /// Adds an entry whose strings are the last bytes, evicts the oldest ones, and returns the size of the new one.
    fn push(&mut self, entry: Entry) -> usize {
        self.version += 1;
        self.evict_down_to(self.limit.saturating_sub(entry.size()));
        if entry.size() <= self.limit {
            self.size += entry.size();
            self.entries.push_back(entry);
            self.added += 1;
        }
        self.reclaim();
        entry.size()
    }

    fn place(&self, index: usize) -> Option<(Range<usize>, Range<usize>)> {
        let entry = self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        let name = (entry.start - self.removed) as usize;
        let value = name + entry.name_len as usize;
        Some((name..value, value..value + entry.value_len as usize))
    }

    fn evict_down_to(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.size();
        }
    }

    /// Frees the strings of evicted entries once they are half of the buffer: each byte is moved once on average.
    fn reclaim(&mut self) {
        let unused = self.entries.front().map_or(self.bytes.len(), |oldest| (oldest.start - self.removed) as usize);
        if unused * 2 > self.bytes.len() {
            self.bytes.drain(..unused);
            self.removed += unused as u64;
        }
    }
}

pub(super) const NO_ENTRY: Reason = "a field refers to an index that the tables do not have";

#[cfg(test)]
impl DynamicTable {
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn entry(&self, index: usize) -> Option<(String, String)> {
        let (name, value) = self.place(index)?;
        let text = |range: Range<usize>| String::from_utf8(self.bytes[range].to_vec()).unwrap();
        Some((text(name), text(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &mut DynamicTable, name: &str, value: &str) {
        table.insert(Name::Text(Text::plain(name.as_bytes())), Text::plain(value.as_bytes())).unwrap();
    }

    #[test]
    fn memory_stays_bounded_and_entries_stay_right() {
        let mut table = DynamicTable::new(200);
        for round in 0..10_000 {
            insert(&mut table, "name", &round.to_string());
            assert_eq!(table.entry(0), Some(("name".into(), round.to_string())));
            if round >= 3 {
                assert_eq!(table.entry(3), Some(("name".into(), (round - 3).to_string())));
            }
            assert!(table.size() <= 200 && table.bytes.len() <= 400);
        }
    }

    #[test]
    fn an_entry_may_take_its_name_from_one_that_goes() {
        let mut table = DynamicTable::new(40);
        insert(&mut table, "abc", "1");
        table.insert(Name::OfEntry(0), Text::plain(b"2")).unwrap();
        assert_eq!(table.entry(0), Some(("abc".into(), "2".into())));
        assert_eq!(table.entry(1), None);
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut table = DynamicTable::new(64);
        insert(&mut table, "a", "b");
        insert(&mut table, "a", &"b".repeat(64));
        assert_eq!((table.entry(0), table.size(), table.bytes.len()), (None, 0, 0));
    }
}
