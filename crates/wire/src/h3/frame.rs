//! Frames on the wire (RFC 9114 sections 7 and 8, RFC 9000 section 16).

use crate::Error;

pub(super) const DATA: u64 = 0x0;
pub(crate) const HEADERS: u64 = 0x1;
pub(super) const CANCEL_PUSH: u64 = 0x3;
pub(crate) const SETTINGS: u64 = 0x4;
pub(super) const PUSH_PROMISE: u64 = 0x5;
pub(crate) const GOAWAY: u64 = 0x7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;
/// Types of HTTP/2 frames that HTTP/3 must not have (RFC 9114 section 7.2.8).
pub(super) const RESERVED: [u64; 4] = [0x2, 0x6, 0x8, 0x9];

pub(super) const STREAM_CREATION_ERROR: u64 = 0x103;
pub(super) const CLOSED_CRITICAL_STREAM: u64 = 0x104;
pub(super) const FRAME_UNEXPECTED: u64 = 0x105;
pub(super) const FRAME_ERROR: u64 = 0x106;
pub(super) const EXCESSIVE_LOAD: u64 = 0x107;
pub(super) const ID_ERROR: u64 = 0x108;
pub(super) const SETTINGS_ERROR: u64 = 0x109;
pub(super) const MISSING_SETTINGS: u64 = 0x10a;
pub(super) const REQUEST_REJECTED: u64 = 0x10b;
pub(super) const QPACK_DECOMPRESSION_FAILED: u64 = 0x200;
pub(super) const QPACK_ENCODER_STREAM_ERROR: u64 = 0x201;

pub(super) fn error<T>(code: u64, reason: &'static str) -> Result<T, Error> {
    Err(Error::Http3 { code, reason })
}

/// Largest payload of a frame that is collected before it is used, in bytes.
pub(super) const COLLECT_LIMIT: u64 = 256 << 10;

/// Takes a variable-length integer from the front of `bytes`, if it is complete.
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, after) = bytes.split_first()?;
    let (more, rest) = after.split_at_checked((1 << (first >> 6)) - 1)?;
    *bytes = rest;
    Some(more.iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte)))
}

/// Appends a variable-length integer below 2^62 in its shortest form.
pub(super) fn put_varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends a frame.
pub(super) fn put(kind: u64, payload: &[u8], out: &mut Vec<u8>) {
    put_head(kind, payload.len(), out);
    out.extend_from_slice(payload);
}

/// Appends type and length of a frame.
pub(super) fn put_head(kind: u64, len: usize, out: &mut Vec<u8>) {
    put_varint(kind, out);
    put_varint(len as u64, out);
}

/// Cuts the bytes of one stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    place: Place,
    /// What has come of a frame's type and length, or of a payload that is collected.
    partial: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Between,
    /// Between frames, and `partial` still holds the last one.
    Reported,
    /// In the payload of a frame of this type, of which so many bytes are to come.
    Payload(u64, u64),
}

/// What comes next on a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A frame of this type begins, whose payload has so many bytes.
    Begin(u64, u64),
    /// Some of the payload of a DATA frame.
    Data(&'a [u8]),
    /// The payload of a frame of this type: one that is neither DATA nor unknown.
    Whole(u64, &'a [u8]),
}

impl Frames {
    /// The next piece, taken from the front of `bytes`; `None` if more bytes are needed.
    pub(super) fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<Piece<'a>>, Error> {
        loop {
            match self.place {
                Place::Reported => {
                    self.partial.clear();
                    self.place = Place::Between;
                }
                Place::Between => {
                    let Some((kind, len)) = self.head(bytes) else {
                        return Ok(None);
                    };
                    if is_collected(kind) && len > COLLECT_LIMIT {
                        return error(EXCESSIVE_LOAD, "a frame that is not DATA is longer than 256 kB");
                    }
                    self.place = Place::Payload(kind, len);
                    return Ok(Some(Piece::Begin(kind, len)));
                }
                Place::Payload(kind, left) if is_collected(kind) => {
                    let (part, rest) = bytes.split_at((left as usize).min(bytes.len()));
                    *bytes = rest;
                    let left = left - part.len() as u64;
                    if left == 0 && self.partial.is_empty() {
                        self.place = Place::Between;
                        return Ok(Some(Piece::Whole(kind, part)));
                    }
                    self.partial.extend_from_slice(part);
                    if left == 0 {
                        self.place = Place::Reported;
                        return Ok(Some(Piece::Whole(kind, &self.partial)));
                    }
                    self.place = Place::Payload(kind, left);
                    return Ok(None);
                }
                Place::Payload(_, 0) => self.place = Place::Between,
                Place::Payload(kind, left) => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let (part, rest) = bytes.split_at(usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len()));
                    *bytes = rest;
                    self.place = Place::Payload(kind, left - part.len() as u64);
                    if kind == DATA {
                        return Ok(Some(Piece::Data(part)));
                    }
                }
            }
        }
    }

    /// Whether the stream may end here.
    pub(super) fn is_between(&self) -> bool {
        match self.place {
            Place::Between => self.partial.is_empty(),
            Place::Reported => true,
            Place::Payload(kind, left) => left == 0 && !is_collected(kind),
        }
    }

    /// Type and length of a frame.
    fn head(&mut self, bytes: &mut &[u8]) -> Option<(u64, u64)> {
        let parse = |mut bytes: &[u8]| {
            let before = bytes.len();
            let kind = varint(&mut bytes)?;
            let len = varint(&mut bytes)?;
            Some((kind, len, before - bytes.len()))
        };
        if self.partial.is_empty() {
            match parse(bytes) {
                Some((kind, len, used)) => {
                    *bytes = &bytes[used..];
                    return Some((kind, len));
                }
                None => self.partial.extend_from_slice(bytes),
            }
            *bytes = &[];
            return None;
        }
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.partial.push(byte);
            if let Some((kind, len, _)) = parse(&self.partial) {
                self.partial.clear();
                return Some((kind, len));
            }
        }
        None
    }
}

/// Whether the payload is needed in one piece. That of unknown types is skipped.
fn is_collected(kind: u64) -> bool {
    matches!(kind, HEADERS | SETTINGS | GOAWAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn integers_of_the_rfc() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut rest = bytes;
            assert_eq!((varint(&mut rest), rest.len()), (Some(value), 0));
            for len in 0..bytes.len() {
                assert_eq!(varint(&mut &bytes[..len]), None);
            }
            let mut out = Vec::new();
            put_varint(value, &mut out);
            assert_eq!(out, bytes);
        }
        assert_eq!(varint(&mut &[0x40, 0x25][..]), Some(37));
    }

    #[test]
    fn frames_are_found_in_any_pieces() {
        let mut stream = Vec::new();
        put(HEADERS, b"section", &mut stream);
        put(0x21, b"grease", &mut stream);
        put(DATA, b"", &mut stream);
        stream.extend_from_slice(&[0x40, 0x00, 0x80, 0x00, 0x00, 0x04]);
        stream.extend_from_slice(b"data");
        put(GOAWAY, b"", &mut stream);
        for size in 1..=stream.len() {
            let mut frames = Frames::default();
            let (mut begun, mut data, mut whole) = (Vec::new(), Vec::new(), Vec::new());
            for mut bytes in stream.chunks(size) {
                while let Some(piece) = frames.next(&mut bytes).unwrap() {
                    match piece {
                        Piece::Begin(kind, len) => begun.push((kind, len)),
                        Piece::Data(bytes) => data.extend_from_slice(bytes),
                        Piece::Whole(kind, payload) => whole.push((kind, payload.to_vec())),
                    }
                }
            }
            assert!(frames.is_between());
            assert_eq!(begun, [(HEADERS, 7), (0x21, 6), (DATA, 0), (DATA, 4), (GOAWAY, 0)]);
            assert_eq!(data, b"data");
            assert_eq!(whole, [(HEADERS, b"section".to_vec()), (GOAWAY, Vec::new())]);
        }
    }

    #[test]
    fn a_stream_may_only_end_between_frames() {
        let mut stream = Vec::new();
        put(HEADERS, b"section", &mut stream);
        put(DATA, b"data", &mut stream);
        for len in 1..stream.len() {
            let mut frames = Frames::default();
            let mut bytes = &stream[..len];
            while frames.next(&mut bytes).unwrap().is_some() {}
            assert_eq!(frames.is_between(), len == 9, "{len}");
        }
    }
}
