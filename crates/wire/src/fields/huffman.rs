//! The Huffman code of RFC 7541 section 5.2, as tables that the compiler computes from the code's lengths.
//!
//! Decoding walks a state machine four bits at a time; no code is shorter than five bits, so that a step yields one
//! octet at most.

use super::Reason;
use super::tables::HUFFMAN_LENGTHS;

const END_OF_STRING: usize = 256;

/// The code of each octet, right-aligned, by ascending length and then octet.
const CODES: [u32; 257] = {
    let mut codes = [0; 257];
    let mut next = 0;
    let mut length = 1;
    while length <= 30 {
        let mut symbol = 0;
        while symbol < 257 {
            if HUFFMAN_LENGTHS[symbol] == length {
                codes[symbol] = next;
                next += 1;
            }
            symbol += 1;
        }
        next <<= 1;
        length += 1;
    }
    codes
};

/// What four more bits do.
#[derive(Clone, Copy)]
struct Step {
    /// State after them: an inner node of the code's tree, the root being 0.
    next: u8,
    /// The octet whose code they complete, if `EMITS`.
    octet: u8,
    flags: u8,
}

/// The step completes an octet.
const EMITS: u8 = 1;
/// The string may end after the step: the rest is at most seven bits of the end of string's code.
const MAY_END: u8 = 2;
/// The end of string's code is complete, which no string may contain.
const ENDS: u8 = 4;

static STEPS: [[Step; 16]; 256] = {
    // The tree: what follows each inner node, an inner node below 256, or 256 plus a symbol.
    let mut tree = [[0u16; 2]; 256];
    let mut nodes = 1;
    let mut symbol = 0;
    while symbol < 257 {
        let mut node = 0;
        let mut bit = HUFFMAN_LENGTHS[symbol];
        while bit > 0 {
            bit -= 1;
            let side = (CODES[symbol] >> bit & 1) as usize;
            if bit == 0 {
                tree[node][side] = 256 + symbol as u16;
            } else {
                if tree[node][side] == 0 {
                    tree[node][side] = nodes;
                    nodes += 1;
                }
                node = tree[node][side] as usize;
            }
        }
        symbol += 1;
    }
    // The nodes where a string may end: up to seven ones below the root.
    let mut may_end = [false; 256];
    let mut node = 0;
    let mut depth = 0;
    while depth < 8 {
        may_end[node] = true;
        node = tree[node][1] as usize;
        depth += 1;
    }
    let mut steps = [[Step { next: 0, octet: 0, flags: 0 }; 16]; 256];
    let mut state = 0;
    while state < 256 {
        let mut bits = 0;
        while bits < 16 {
            let mut step = Step { next: 0, octet: 0, flags: 0 };
            let mut node = state;
            let mut bit = 4;
            while bit > 0 {
                bit -= 1;
                let child = tree[node][bits >> bit & 1] as usize;
                node = if child < 256 { child } else { 0 };
                if child == 256 + END_OF_STRING {
                    step.flags |= ENDS;
                } else if child >= 256 {
                    step.flags |= EMITS;
                    step.octet = (child - 256) as u8;
                }
            }
            step.next = node as u8;
            if may_end[node] {
                step.flags |= MAY_END;
            }
            steps[state][bits] = step;
            bits += 1;
        }
        state += 1;
    }
    steps
};

/// Most octets that so many bytes of Huffman code can hold.
pub(super) fn max_decoded_len(coded: usize) -> usize {
    coded * 8 / 5
}

/// Decodes `coded` and returns how many octets it holds. After each step, `put` gets the number of octets complete
/// before it and the octet that it may have completed: a branch here would cost more than what is put in vain.
pub(super) fn decode(coded: &[u8], mut put: impl FnMut(usize, u8)) -> Result<usize, Reason> {
    let mut state = 0;
    let mut seen = 0;
    let mut flags = MAY_END;
    let mut len = 0;
    for byte in coded {
        for bits in [byte >> 4, byte & 15] {
            let step = STEPS[usize::from(state)][usize::from(bits)];
            put(len, step.octet);
            len += usize::from(step.flags & EMITS);
            state = step.next;
            flags = step.flags;
            seen |= flags;
        }
    }
    if seen & ENDS != 0 {
        Err("a Huffman-coded string contains the end-of-string symbol")
    } else if flags & MAY_END == 0 {
        Err("a Huffman-coded string has wrong padding")
    } else {
        Ok(len)
    }
}

/// Length of `text` in Huffman code, in bytes.
pub(super) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&octet| usize::from(HUFFMAN_LENGTHS[usize::from(octet)])).sum();
    bits.div_ceil(8)
}

/// Appends the Huffman code of `text`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut pending: u64 = 0;
    let mut bits = 0;
    for &octet in text {
        let length = HUFFMAN_LENGTHS[usize::from(octet)];
        pending = pending << length | u64::from(CODES[usize::from(octet)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            out.push((pending >> bits) as u8);
        }
    }
    if bits > 0 {
        out.push((pending << (8 - bits)) as u8 | 0xff >> bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, Reason> {
        let mut out = vec![0; max_decoded_len(coded.len()) + 1];
        let len = decode(coded, |at, octet| out[at] = octet)?;
        out.truncate(len);
        Ok(out)
    }

    #[test]
    fn every_pair_of_octets_survives() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let mut coded = Vec::new();
                encode(&[first, second], &mut coded);
                assert_eq!(coded.len(), encoded_len(&[first, second]));
                assert_eq!(decoded(&coded).unwrap(), [first, second]);
            }
        }
    }

    #[test]
    fn padding_must_be_short_and_all_ones() {
        assert_eq!(decoded(&[]).unwrap(), b"");
        assert_eq!(decoded(&[0x1f]).unwrap(), b"a");
        assert!(decoded(&[0x1e]).is_err());
        assert!(decoded(&[0x1f, 0xff]).is_err());
        assert!(decoded(&[0xff, 0xff, 0xff, 0xff]).is_err());
    }
}
