//! As little of HTTP/3 as a closed loop needs: constant bytes to send, and a walk over the frames that come back.

use bytes::Bytes;

/// The first bytes of the client's control stream: its type, and an empty SETTINGS frame.
pub const CONTROL: &[u8] = &[0, 4, 0];

/// The frame types DATA and HEADERS, RFC 9114 section 7.2.
const DATA: u64 = 0;
const HEADERS: u64 = 1;

/// The first bytes of a field section with status 200: no dynamic table, then entry 25 of the static one.
const STATUS_200: [u8; 3] = [0, 0, 0xd9];

/// A HEADERS frame with a GET, its strings without Huffman coding. Authority and path have at most 63 bytes.
pub fn request(authority: &str, path: &str) -> Bytes {
    // Entries 17 and 23 of the static table: `:method: GET` and `:scheme: https`.
    let mut section = vec![0, 0, 0xd1, 0xd7];
    // Literals named by the entries 0 and 1: `:authority` and `:path`.
    for (name, value) in [(0x50, authority), (0x51, path)] {
        assert!(value.len() < 64, "the probe takes names and paths up to 63 bytes");
        section.extend([name, value.len() as u8]);
        section.extend(value.as_bytes());
    }
    let length = section.len() as u16 | 0x4000;
    [&[HEADERS as u8], &length.to_be_bytes()[..], &section].concat().into()
}

/// Takes responses and counts them.
#[derive(Default)]
pub struct Responses {
    /// Responses since the last look.
    pub complete: u64,
    /// The walks of streams that have begun and not ended: nearly always none, since small responses come whole.
    partial: Vec<(u64, Walk)>,
    /// The body bytes that each response has.
    expected: Option<u64>,
}

impl Responses {
    /// Takes up the walk over a stream that has something to read.
    pub fn resume(&mut self, stream: u64) -> Walk {
        match self.partial.iter().position(|(id, _)| *id == stream) {
            Some(index) => self.partial.swap_remove(index).1,
            None => Walk::default(),
        }
    }

    /// Puts a walk aside until the stream has more.
    pub fn suspend(&mut self, stream: u64, walk: Walk) {
        self.partial.push((stream, walk));
    }

    /// The stream has ended.
    pub fn finish(&mut self, walk: Walk) {
        assert!(walk.left == 0 && walk.have == 0, "a response ends in the middle of a frame");
        assert!(walk.answered, "a response has no HEADERS frame");
        let expected = *self.expected.get_or_insert(walk.body);
        assert_eq!(walk.body, expected, "responses differ in size");
        self.complete += 1;
    }
}

/// A walk over the frames of a response, whose bytes may come in any pieces.
#[derive(Default)]
pub struct Walk {
    /// The bytes of a frame's type and length so far.
    header: [u8; 16],
    have: usize,
    /// Bytes that the present frame still has.
    left: u64,
    in_data: bool,
    answered: bool,
    body: u64,
}

impl Walk {
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len() as u64);
                self.left -= taken;
                self.body += if self.in_data { taken } else { 0 };
                bytes = &bytes[taken as usize..];
                continue;
            }
            self.header[self.have] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            let mut header = &self.header[..self.have];
            if let (Some(kind), Some(length)) = (varint(&mut header), varint(&mut header)) {
                self.have = 0;
                self.left = length;
                self.in_data = kind == DATA;
                if kind == HEADERS && !std::mem::replace(&mut self.answered, true) && bytes.len() >= STATUS_200.len() {
                    assert_eq!(bytes[..STATUS_200.len()], STATUS_200, "a response's status is not 200");
                }
            }
        }
    }
}

/// Takes a variable-length integer (RFC 9000 section 16) off the front.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let length = 1 << (*bytes.first()? >> 6);
    let (number, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    let first = u64::from(number[0] & 0x3f);
    Some(number[1..].iter().fold(first, |value, byte| value << 8 | u64::from(*byte)))
}
