//! A string of a field section, as it came.

use super::{Reason, huffman};

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
    Status,
    OtherPseudo,
}

/// `:status` in Huffman code: a server may spell it although every static table has it.
const STATUS_CODED: [u8; 5] = [0xb8, 0x84, 0x8d, 0x36, 0xa3];

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
            Kind::Regular
        } else if self.raw == if self.huffman { &STATUS_CODED[..] } else { b":status" } {
            Kind::Status
        } else {
            Kind::OtherPseudo
        }
    }

    /// The string as a status code: three digits, 100 or more.
    pub(super) fn status(self) -> Option<u16> {
        let mut digits = [0; 3];
        if self.huffman {
            let mut put = |at, octet| {
                if let Some(digit) = digits.get_mut(at) {
                    *digit = octet;
                }
            };
            if huffman::decode(self.raw, &mut put) != Ok(3) {
                return None;
            }
        } else {
            digits = self.raw.try_into().ok()?;
        }
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        (status >= 100).then_some(status)
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
}
