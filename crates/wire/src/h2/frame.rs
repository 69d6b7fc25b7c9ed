//! Frames on the wire (RFC 9113 sections 4, 6 and 7).

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame's header.
pub(crate) const HEAD_LEN: usize = 9;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;

pub(super) const HEADER_TABLE_SIZE: u16 = 1;
pub(super) const ENABLE_PUSH: u16 = 2;
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const MAX_FRAME_SIZE: u16 = 5;

pub(super) const NO_ERROR: u32 = 0x0;
pub(super) const PROTOCOL_ERROR: u32 = 0x1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 0x3;
pub(super) const FRAME_SIZE_ERROR: u32 = 0x6;
pub(super) const REFUSED_STREAM: u32 = 0x7;
pub(super) const CANCEL: u32 = 0x8;
pub(super) const COMPRESSION_ERROR: u32 = 0x9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 0xb;

/// Largest flow-control window, setting and stream identifier.
pub(crate) const MAX_31_BITS: u32 = (1 << 31) - 1;
/// What each window is until someone changes it.
pub(super) const DEFAULT_WINDOW: u32 = 65_535;
/// Smallest and largest value of SETTINGS_MAX_FRAME_SIZE; the smallest is the default.
pub(super) const FRAME_SIZES: std::ops::RangeInclusive<u32> = 1 << 14..=(1 << 24) - 1;

/// The header of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    pub(crate) fn parse(bytes: &[u8; HEAD_LEN]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { len, kind, flags, stream: u32::from_be_bytes(stream) & MAX_31_BITS }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the header of a frame.
pub(super) fn head(len: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// Appends a SETTINGS frame.
pub(super) fn settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    head(settings.len() * 6, SETTINGS, 0, 0, out);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends a frame that holds one number: RST_STREAM or WINDOW_UPDATE.
pub(super) fn number(kind: u8, stream: u32, value: u32, out: &mut Vec<u8>) {
    head(4, kind, 0, stream, out);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends a GOAWAY frame; the peer never had a stream of its own.
pub(super) fn goaway(code: u32, out: &mut Vec<u8>) {
    head(8, GOAWAY, 0, 0, out);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&code.to_be_bytes());
}
