//! The requests in flight on a connection, found by stream identifier.

/// A hash table with linear probing. Identifiers of a client's streams are consecutive, and the hash of the n-th one is
/// n: it works like a ring that new streams go round, only that a stream which outlives the others is stepped over.
///
/// `SHIFT` is how many low bits of the identifiers are constant.
#[derive(Debug)]
pub(crate) struct Streams<S, const SHIFT: u32> {
    /// A power of two, more than half of them free.
    slots: Vec<Slot<S>>,
    len: usize,
    /// How many streams are not at their home; usually none.
    displaced: usize,
}

#[derive(Debug, Default)]
struct Slot<S> {
    /// Identifier plus 1, 0 for a free slot.
    key: u64,
    stream: S,
}

impl<S: Default, const SHIFT: u32> Streams<S, SHIFT> {
    pub(crate) fn new() -> Self {
        Self { slots: vec![Slot::default(), Slot::default()], len: 0, displaced: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a stream that is not in the table.
    pub(crate) fn insert(&mut self, id: u64, stream: S) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let home = self.home(id);
        let mut at = home;
        while self.slots[at].key != 0 {
            at = self.after(at);
        }
        self.displaced += usize::from(at != home);
        self.slots[at] = Slot { key: id + 1, stream };
        self.len += 1;
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut S> {
        let at = self.find(id)?;
        Some(&mut self.slots[at].stream)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<S> {
        let at = self.find(id)?;
        let removed = std::mem::take(&mut self.slots[at]).stream;
        self.len -= 1;
        self.displaced -= usize::from(at != self.home(id));
        if self.displaced > 0 {
            self.close_gap(at);
        }
        Some(removed)
    }

    /// Removes all streams for which `goes` holds and returns them in the order of their identifiers.
    pub(crate) fn remove_if(&mut self, goes: impl Fn(u64, &S) -> bool) -> Vec<(u64, S)> {
        let chosen = self.slots.iter().filter(|slot| slot.key != 0 && goes(slot.key - 1, &slot.stream));
        let mut ids: Vec<u64> = chosen.map(|slot| slot.key - 1).collect();
        ids.sort_unstable();
        ids.into_iter().filter_map(|id| self.remove(id).map(|stream| (id, stream))).collect()
    }

    /// Moves back each following stream whose search would now end at the hole.
    fn close_gap(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = self.after(hole);
        while self.slots[at].key != 0 {
            let home = self.home(self.slots[at].key - 1);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.displaced -= usize::from(hole == home);
                self.slots.swap(hole, at);
                hole = at;
            }
            at = self.after(at);
        }
    }

    fn find(&self, id: u64) -> Option<usize> {
        let mut at = self.home(id);
        loop {
            match self.slots[at].key {
                0 => return None,
                key if key == id + 1 => return Some(at),
                _ => at = self.after(at),
            }
        }
    }

    fn home(&self, id: u64) -> usize {
        (id >> SHIFT) as usize & (self.slots.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let double = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, std::iter::repeat_with(Slot::default).take(double).collect());
        self.len = 0;
        self.displaced = 0;
        for slot in old {
            if slot.key != 0 {
                self.insert(slot.key - 1, slot.stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Against the standard library's map, with streams of very different life times.
    #[test]
    fn agrees_with_a_map() {
        let mut streams = Streams::<u64, 1>::new();
        let mut model = HashMap::new();
        let mut random: u64 = 1;
        let mut next = 1;
        for _ in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if model.len() < 50 && random >> 63 == 1 {
                streams.insert(next, next * 3);
                model.insert(next, next * 3);
                next += 2;
            } else {
                let age = (random >> 33) % if random >> 40 & 7 == 0 { 400 } else { 60 };
                let id = next.saturating_sub(age) | 1;
                assert_eq!(streams.get_mut(id).copied(), model.get(&id).copied());
                assert_eq!(streams.remove(id), model.remove(&id));
            }
            let away = (0..streams.slots.len()).filter(|&at| match streams.slots[at].key {
                0 => false,
                key => streams.home(key - 1) != at,
            });
            assert_eq!((streams.len(), streams.displaced), (model.len(), away.count()));
        }
        assert!(streams.slots.len() <= 128, "long-lived streams must not make the table grow");
        let mut rest: Vec<_> = model.into_iter().filter(|(id, _)| id % 3 == 0).collect();
        rest.sort_unstable();
        assert_eq!(streams.remove_if(|id, _| id % 3 == 0), rest);
    }
}
