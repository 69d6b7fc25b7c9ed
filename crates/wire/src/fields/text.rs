//! A string of a field section, as it came.

use super::{Reason, huffman};

/// A name or value, plain or Huffman-coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    huffman: bool,
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
        if !self.huffman {
            return Ok(self.raw.len());
        }
        let mut length = 0;
        huffman::decode(self.raw, |_| length += 1)?;
        Ok(length)
    }

    /// Appends the decoded string to `out`.
    pub(super) fn append_to(self, out: &mut Vec<u8>) -> Result<(), Reason> {
        if !self.huffman {
            out.extend_from_slice(self.raw);
            return Ok(());
        }
        huffman::decode(self.raw, |octet| out.push(octet))
    }

    /// Whether the string begins with a colon (the Huffman code 1011100).
    pub(super) fn is_pseudo(self) -> bool {
        self.raw.first().is_some_and(|&byte| if self.huffman { byte >> 1 == 0b101_1100 } else { byte == b':' })
    }

    pub(super) fn is_status(self) -> bool {
        if self.huffman { self.raw == STATUS_CODED } else { self.raw == b":status" }
    }

    /// The string as a status code: three digits, 100 or more.
    pub(super) fn status(self) -> Option<u16> {
        let mut digits = [0; 3];
        let mut length = 0;
        let mut put = |octet| {
            if let Some(digit) = digits.get_mut(length) {
                *digit = octet;
            }
            length += 1;
        };
        if self.huffman {
            huffman::decode(self.raw, put).ok()?;
        } else {
            self.raw.iter().copied().for_each(&mut put);
        }
        if length != 3 || !digits.iter().all(u8::is_ascii_digit) {
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
    fn status_is_known_in_either_form() {
        assert_eq!(code(":status"), STATUS_CODED);
        assert!(Text::coded(&code(":status")).is_status());
        assert!(Text::plain(b":status").is_status());
        assert!(!Text::coded(&code(":states")).is_status());
    }

    #[test]
    fn a_colon_is_known_in_either_form() {
        for (name, pseudo) in [(":path", true), (":", true), ("path", false), ("", false)] {
            assert_eq!(Text::plain(name.as_bytes()).is_pseudo(), pseudo);
            assert_eq!(Text::coded(&code(name)).is_pseudo(), pseudo);
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
