//! A string of a field section, as it came.

use super::{Reason, huffman};
use crate::length::content_length;

/// A name or value, plain or Huffman-coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    huffman: bool,
}

/// Kinds of fields, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    ContentLength,
    Status,
    OtherPseudo,
}

impl Kind {
    pub(super) fn is_pseudo(self) -> bool {
        matches!(self, Kind::Status | Kind::OtherPseudo)
    }
}

/// `:status` in Huffman code: a server may spell it although every static table has it.
const STATUS_CODED: [u8; 5] = [0xb8, 0x84, 0x8d, 0x36, 0xa3];

/// `content-length`, likewise.
const CONTENT_LENGTH_CODED: [u8; 10] = [0x21, 0xea, 0x49, 0x6a, 0x4a, 0xd4, 0x16, 0xa9, 0x93, 0x3f];

impl<'a> Text<'a> {
    pub(super) fn plain(raw: &'a [u8]) -> Self {
        Self { raw, huffman: false }
    }

    pub(super) fn coded(raw: &'a [u8]) -> Self {
        Self { raw, huffman: true }
    }

    /// Length of the decoded string; finds every error of the coding.
    pub(super) fn len(self) -> Result<usize, Reason> {
        if self.huffman { huffman::decode(self.raw, |_, _| {}) } else { Ok(self.raw.len()) }
    }

    /// Appends the decoded string to `out` and returns its length.
    pub(super) fn append_to(self, out: &mut Vec<u8>) -> Result<usize, Reason> {
        if !self.huffman {
            out.extend_from_slice(self.raw);
            return Ok(self.raw.len());
        }
        let start = out.len();
        // One more, for the octets that `decode` puts before it knows that there is none.
        out.resize(start + huffman::max_decoded_len(self.raw.len()) + 1, 0);
        let room = &mut out[start..];
        let len = huffman::decode(self.raw, |at, octet| room[at] = octet)?;
        out.truncate(start + len);
        Ok(len)
    }

    /// What the string means as the name of a field.
    pub(super) fn kind(self) -> Kind {
        let is_pseudo = match self.raw.first() {
            // The Huffman code of a colon has seven bits.
            Some(byte) if self.huffman => byte >> 1 == 0b101_1100,
            Some(byte) => *byte == b':',
            None => false,
        };
        if !is_pseudo {
            let is_length = self.raw == if self.huffman { &CONTENT_LENGTH_CODED[..] } else { b"content-length" };
            if is_length { Kind::ContentLength } else { Kind::Regular }
        } else if self.raw == if self.huffman { &STATUS_CODED[..] } else { b":status" } {
            Kind::Status
        } else {
            Kind::OtherPseudo
        }
    }

    /// The string as a status code: three digits, 100 or more.
    pub(super) fn status(self) -> Option<u16> {
        let mut room = [0; 3];
        let digits = self.decode_into(&mut room).filter(|digits| digits.len() == 3)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        (status >= 100).then_some(status)
    }

    /// The string as a length of the content, together with a field `before` it.
    pub(super) fn content_length(self, before: Option<u64>) -> Option<u64> {
        let mut room = [0; 32];
        content_length(self.decode_into(&mut room)?, before).ok()
    }

    /// The decoded string, if `room` is enough for it.
    fn decode_into<'b>(self, room: &'b mut [u8]) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        if !self.huffman {
            return (self.raw.len() <= room.len()).then_some(self.raw);
        }
        let put = |at, octet| {
            if let Some(place) = room.get_mut(at) {
                *place = octet;
            }
        };
        let len = huffman::decode(self.raw, put).ok()?;
        room.get(..len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<u8> {
        let mut coded = Vec::new();
        huffman::encode(text.as_bytes(), &mut coded);
        coded
    }

    #[test]
    fn kinds_are_known_in_either_form() {
        for (name, kind) in [
            (":status", Kind::Status),
            (":states", Kind::OtherPseudo),
            (":", Kind::OtherPseudo),
            ("status", Kind::Regular),
            ("content-length", Kind::ContentLength),
            ("content-lengths", Kind::Regular),
            ("", Kind::Regular),
        ] {
            assert_eq!(Text::plain(name.as_bytes()).kind(), kind);
            assert_eq!(Text::coded(&code(name)).kind(), kind);
        }
    }

    #[test]
    fn only_three_digits_are_a_status() {
        for (value, status) in [
            ("200", Some(200)),
            ("599", Some(599)),
            ("099", None),
            ("20", None),
            ("2000", None),
            ("20x", None),
            ("", None),
        ] {
            assert_eq!(Text::plain(value.as_bytes()).status(), status);
            assert_eq!(Text::coded(&code(value)).status(), status);
        }
    }

    #[test]
    fn only_numbers_are_a_content_length() {
        let long = "1,".repeat(20);
        for (value, length) in [("0", Some(0)), ("1, 1", Some(1)), ("1, 2", None), ("x", None), (&long, None)] {
            assert_eq!(Text::plain(value.as_bytes()).content_length(None), length);
            assert_eq!(Text::coded(&code(value)).content_length(None), length);
        }
    }
}
