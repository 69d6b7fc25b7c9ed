//! The primitive types of RFC 7541 section 5 and RFC 9204 section 4.1, read from a block.

use super::{Reason, Text};

/// What is left of a block.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(block: &'a [u8]) -> Self {
        Self { rest: block, len: block.len() }
    }

    /// How many bytes of the block were read.
    pub(super) fn offset(&self) -> u32 {
        (self.len - self.rest.len()) as u32
    }

    /// What is left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Leaves out so many bytes, which must be there.
    pub(super) fn skip(&mut self, len: u32) {
        self.rest = &self.rest[len as usize..];
    }

    /// The next byte, which stays.
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// An integer whose first byte has `prefix` bits for it, 1 to 8 (RFC 7541 section 5.1).
    pub(super) fn integer(&mut self, prefix: u32) -> Result<usize, Reason> {
        let mask = u8::MAX >> (8 - prefix);
        let mut value = u64::from(self.byte()? & mask);
        if value < u64::from(mask) {
            return Ok(value as usize);
        }
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value += u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map(|value| value as usize).map_err(|_| TOO_LARGE);
            }
        }
        Err(TOO_LARGE)
    }

    /// A string whose first byte has `prefix` bits for the length and one before them that tells Huffman code.
    pub(super) fn string(&mut self, prefix: u32) -> Result<Text<'a>, Reason> {
        let huffman = self.peek().is_some_and(|first| first >> prefix & 1 == 1);
        let length = self.integer(prefix)?;
        let (raw, rest) = self.rest.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(if huffman { Text::coded(raw) } else { Text::plain(raw) })
    }

    fn byte(&mut self) -> Result<u8, Reason> {
        let (&byte, rest) = self.rest.split_first().ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(byte)
    }
}

const TOO_SHORT: Reason = "a field section ends in the middle of a field";
const TOO_LARGE: Reason = "an integer in a field section is larger than 2^32-1";

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 appendix C.1.
    #[test]
    fn integers_of_the_rfc() {
        assert_eq!(Reader::new(&[0b1110_1010]).integer(5), Ok(10));
        assert_eq!(Reader::new(&[0b0001_1111, 0b1001_1010, 0b0000_1010]).integer(5), Ok(1337));
        assert_eq!(Reader::new(&[42]).integer(8), Ok(42));
    }

    #[test]
    fn integers_end_at_32_bits() {
        assert_eq!(Reader::new(&[0xff, 0x80, 0xfe, 0xff, 0xff, 0x0f]).integer(8), Ok(u32::MAX as usize));
        assert_eq!(Reader::new(&[0xff, 0x81, 0xfe, 0xff, 0xff, 0x0f]).integer(8), Err(TOO_LARGE));
        assert_eq!(Reader::new(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]).integer(8), Err(TOO_LARGE));
        assert_eq!(Reader::new(&[0xff, 0x80]).integer(8), Err(TOO_SHORT));
    }
}
