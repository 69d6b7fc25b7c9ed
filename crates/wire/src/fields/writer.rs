//! The primitive types of RFC 7541 section 5 and RFC 9204 section 4.1, appended to a block.

use super::huffman;

/// Appends an integer; the first byte has `prefix` bits for it and otherwise holds `pattern`.
pub(super) fn integer(pattern: u8, prefix: u32, value: usize, out: &mut Vec<u8>) {
    let mask = u8::MAX >> (8 - prefix);
    if value < usize::from(mask) {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | mask);
    let mut rest = value - usize::from(mask);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a string in the shorter of its two forms. The first byte has `prefix` bits for the length, the bit before
/// them for the form, and otherwise holds `pattern`.
pub(super) fn string(pattern: u8, prefix: u32, text: &str, out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text.as_bytes());
    if coded < text.len() {
        integer(pattern | 1 << prefix, prefix, coded, out);
        huffman::encode(text.as_bytes(), out);
    } else {
        integer(pattern, prefix, text.len(), out);
        out.extend_from_slice(text.as_bytes());
    }
}
