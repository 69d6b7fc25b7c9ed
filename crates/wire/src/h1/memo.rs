//! The last head of a connection and what it says: servers repeat themselves.

use super::head::{Framing, Head};
use crate::length::content_length;

/// A head that need not be parsed again, nor one that differs from it only in values that mean nothing here.
#[derive(Debug, Default)]
pub(super) struct Memo {
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// Longer heads are not kept, to bound the memory of a connection.
const LIMIT: usize = 4096;

impl Memo {
    /// What the head at the front of `rest` says, and its length, if it is like the one kept.
    pub(super) fn recall(&mut self, rest: &[u8]) -> Option<(Head, usize)> {
        let head = self.head?;
        if rest.starts_with(&self.bytes) { Some((head, self.bytes.len())) } else { self.adapt(head, rest) }
    }

    /// Keeps a head that was parsed.
    pub(super) fn keep(&mut self, bytes: &[u8], head: Head) {
        self.bytes.clear();
        self.head = (bytes.len() <= LIMIT).then_some(head);
        if self.head.is_some() {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Goes through the lines in which the heads differ, and keeps the new one if it is like the old one.
    #[inline(never)]
    fn adapt(&mut self, mut head: Head, rest: &[u8]) -> Option<(Head, usize)> {
        let (mut old, mut new) = (self.bytes.as_slice(), rest);
        while !old.is_empty() {
            let start = memchr::memrchr(b'\n', &old[..common_prefix(old, new)]).map_or(0, |at| at + 1);
            (old, new) = (&old[start..], &new[start..]);
            let (line, old_rest) = split_line(old)?;
            old = old_rest;
            if let Some(new_rest) = new.strip_prefix(line) {
                new = new_rest;
            } else {
                let (new_line, new_rest) = split_line(new)?;
                new = new_rest;
                head.framing = changed(head, line, new_line)?;
            }
        }
        let len = rest.len() - new.len();
        if len > LIMIT {
            return None;
        }
        self.keep(&rest[..len], head);
        Some((head, len))
    }
}

/// How long the body is when a line has become another one; `None` if that takes parsing. The names must be the same,
/// and the new value must have no character that is not allowed.
fn changed(head: Head, old: &[u8], new: &[u8]) -> Option<Framing> {
    let (name, _) = old.split_at(memchr::memchr(b':', old)?);
    let value = new.strip_prefix(name)?.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
    // Not `any`, so that the compiler can look at many at once.
    if value.iter().fold(false, |found, &byte| found | (byte < b' ') | (byte == 0x7f)) {
        return None;
    }
    // Most names are told from these by their length.
    if name.eq_ignore_ascii_case(b"content-length") {
        let length = content_length(value, None).ok()?;
        return head.has_one_length.then_some(Framing::Length(length));
    }
    let matters = name.eq_ignore_ascii_case(b"connection") || name.eq_ignore_ascii_case(b"transfer-encoding");
    (!matters).then_some(head.framing)
}

/// How many bytes at the front are the same, or up to 15 less.
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let (one, other) = (one.as_chunks::<16>().0, other.as_chunks().0);
    one.iter().zip(other).take_while(|(one, other)| one == other).count() * 16
}

/// A line with its end, and the rest.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(memchr::memchr(b'\n', bytes)? + 1)
}

#[cfg(test)]
mod tests {
    use super::super::head::{end, parse};
    use super::*;

    const FIRST: &str = "HTTP/1.1 200 OK\r\nDate: today\r\nContent-Length: 5\r\nX:\r\nConnection: keep-alive\r\n\r\n";

    /// Whatever is recalled is what parsing finds.
    #[test]
    fn what_is_recalled_is_right() {
        for (from, to, is_recalled) in [
            ("today", "tomorrow", true),
            ("today", "", true),
            ("Length: 5", "Length: 1234", true),
            ("Length: 5", "Length: 5, 5", true),
            ("Length: 5", "Length: x", false),
            ("Length: 5", "Length:", false),
            ("X:", "X: y", true),
            ("X:", "Y:", false),
            ("X:", "X", false),
            ("X:", "X: \u{7f}", false),
            ("X:", "X: \r", false),
            ("today\r\n", "tomorrow\n", false),
            ("X:\r\n", "", false),
            ("X:\r\n", "X:\r\nX:\r\n", false),
            ("X:\r\n", "X:\r\nTransfer-Encoding: chunked\r\n", false),
            ("keep-alive", "close", false),
            ("200 OK", "204 OK", false),
            ("\r\n\r\n", "\r\n", false),
        ] {
            let mut memo = Memo::default();
            assert_eq!(memo.recall(FIRST.as_bytes()), None);
            memo.keep(FIRST.as_bytes(), parse(FIRST.as_bytes(), |_, _| {}).unwrap());
            let text = FIRST.replacen(from, to, 1) + "body";
            let found = memo.recall(text.as_bytes());
            assert_eq!(found.is_some(), is_recalled, "{text}");
            if let Some((head, len)) = found {
                assert_eq!(Some(len), end(text.as_bytes(), 0), "{text}");
                assert_eq!(Ok(head), parse(&text.as_bytes()[..len], |_, _| {}), "{text}");
                assert_eq!(memo.recall(text.as_bytes()), found, "it is the one kept now");
            }
        }
    }

    #[test]
    fn a_length_that_is_not_the_only_reason_is_parsed_again() {
        for fields in [
            "content-length: 5\r\ncontent-length: 5\r\n",
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        ] {
            let mut memo = Memo::default();
            let first = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
            memo.keep(first.as_bytes(), parse(first.as_bytes(), |_, _| {}).unwrap());
            assert_eq!(memo.recall(first.replacen('5', "6", 1).as_bytes()), None);
        }
        let mut memo = Memo::default();
        let none = "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n";
        memo.keep(none.as_bytes(), parse(none.as_bytes(), |_, _| {}).unwrap());
        assert_eq!(memo.recall(none.replace('5', "6").as_bytes()), None);
    }

    #[test]
    fn long_heads_are_not_kept() {
        let mut memo = Memo::default();
        let long = FIRST.replace("today", &"today ".repeat(1000));
        memo.keep(long.as_bytes(), parse(long.as_bytes(), |_, _| {}).unwrap());
        assert_eq!(memo.recall(long.as_bytes()), None);
        memo.keep(FIRST.as_bytes(), parse(FIRST.as_bytes(), |_, _| {}).unwrap());
        assert_eq!(memo.recall(long.as_bytes()), None);
    }
}
