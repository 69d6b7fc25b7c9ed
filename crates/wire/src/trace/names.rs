//! The names that registries give to numbers.

use super::Code;

type Table = [(u64, &'static str)];

const H2_FRAMES: &Table = &[
    (0x0, "DATA"),
    (0x1, "HEADERS"),
    (0x2, "PRIORITY"),
    (0x3, "RST_STREAM"),
    (0x4, "SETTINGS"),
    (0x5, "PUSH_PROMISE"),
    (0x6, "PING"),
    (0x7, "GOAWAY"),
    (0x8, "WINDOW_UPDATE"),
    (0x9, "CONTINUATION"),
    (0xa, "ALTSVC"),
    (0xc, "ORIGIN"),
    (0x10, "PRIORITY_UPDATE"),
];

const H2_SETTINGS: &Table = &[
    (0x1, "HEADER_TABLE_SIZE"),
    (0x2, "ENABLE_PUSH"),
    (0x3, "MAX_CONCURRENT_STREAMS"),
    (0x4, "INITIAL_WINDOW_SIZE"),
    (0x5, "MAX_FRAME_SIZE"),
    (0x6, "MAX_HEADER_LIST_SIZE"),
    (0x8, "ENABLE_CONNECT_PROTOCOL"),
    (0x9, "NO_RFC7540_PRIORITIES"),
];

const H2_ERRORS: &Table = &[
    (0x0, "NO_ERROR"),
    (0x1, "PROTOCOL_ERROR"),
    (0x2, "INTERNAL_ERROR"),
    (0x3, "FLOW_CONTROL_ERROR"),
    (0x4, "SETTINGS_TIMEOUT"),
    (0x5, "STREAM_CLOSED"),
    (0x6, "FRAME_SIZE_ERROR"),
    (0x7, "REFUSED_STREAM"),
    (0x8, "CANCEL"),
    (0x9, "COMPRESSION_ERROR"),
    (0xa, "CONNECT_ERROR"),
    (0xb, "ENHANCE_YOUR_CALM"),
    (0xc, "INADEQUATE_SECURITY"),
    (0xd, "HTTP_1_1_REQUIRED"),
];

const H3_FRAMES: &Table = &[
    (0x0, "DATA"),
    (0x1, "HEADERS"),
    (0x3, "CANCEL_PUSH"),
    (0x4, "SETTINGS"),
    (0x5, "PUSH_PROMISE"),
    (0x7, "GOAWAY"),
    (0xd, "MAX_PUSH_ID"),
    (0xf0700, "PRIORITY_UPDATE"),
];

const H3_SETTINGS: &Table = &[
    (0x1, "QPACK_MAX_TABLE_CAPACITY"),
    (0x6, "MAX_FIELD_SECTION_SIZE"),
    (0x7, "QPACK_BLOCKED_STREAMS"),
    (0x8, "ENABLE_CONNECT_PROTOCOL"),
    (0x33, "H3_DATAGRAM"),
];

const H3_ERRORS: &Table = &[
    (0x33, "H3_DATAGRAM_ERROR"),
    (0x100, "H3_NO_ERROR"),
    (0x101, "H3_GENERAL_PROTOCOL_ERROR"),
    (0x102, "H3_INTERNAL_ERROR"),
    (0x103, "H3_STREAM_CREATION_ERROR"),
    (0x104, "H3_CLOSED_CRITICAL_STREAM"),
    (0x105, "H3_FRAME_UNEXPECTED"),
    (0x106, "H3_FRAME_ERROR"),
    (0x107, "H3_EXCESSIVE_LOAD"),
    (0x108, "H3_ID_ERROR"),
    (0x109, "H3_SETTINGS_ERROR"),
    (0x10a, "H3_MISSING_SETTINGS"),
    (0x10b, "H3_REQUEST_REJECTED"),
    (0x10c, "H3_REQUEST_CANCELLED"),
    (0x10d, "H3_REQUEST_INCOMPLETE"),
    (0x10e, "H3_MESSAGE_ERROR"),
    (0x10f, "H3_CONNECT_ERROR"),
    (0x110, "H3_VERSION_FALLBACK"),
    (0x200, "QPACK_DECOMPRESSION_FAILED"),
    (0x201, "QPACK_ENCODER_STREAM_ERROR"),
    (0x202, "QPACK_DECODER_STREAM_ERROR"),
];

const H3_STREAMS: &Table = &[(0x0, "control"), (0x1, "push"), (0x2, "QPACK encoder"), (0x3, "QPACK decoder")];

pub(super) fn h2_frame(kind: u8) -> String {
    name(H2_FRAMES, kind.into())
}

pub(super) fn h2_setting(id: u16) -> String {
    name(H2_SETTINGS, id.into())
}

pub(super) fn h2_error(code: u32) -> Code {
    Code { name: name(H2_ERRORS, code.into()), value: code.into() }
}

pub(super) fn h3_frame(kind: u64) -> String {
    name_or_grease(H3_FRAMES, kind)
}

pub(super) fn h3_setting(id: u64) -> String {
    name_or_grease(H3_SETTINGS, id)
}

pub(super) fn h3_error(code: u64) -> Code {
    Code { name: name_or_grease(H3_ERRORS, code), value: code }
}

pub(super) fn h3_stream(kind: u64) -> String {
    name_or_grease(H3_STREAMS, kind)
}

fn name(table: &Table, code: u64) -> String {
    table.iter().find(|(known, _)| *known == code).map_or_else(|| format!("{code:#x}"), |(_, name)| (*name).to_owned())
}

/// HTTP/3 reserves numbers to be sent in place of unknown ones, so that peers learn to ignore these (RFC 9114 section
/// 7.2.8).
fn name_or_grease(table: &Table, code: u64) -> String {
    let is_grease = code.checked_sub(0x21).is_some_and(|rest| rest.is_multiple_of(0x1f));
    if is_grease { format!("GREASE {code:#x}") } else { name(table, code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_name_stay_numbers() {
        assert_eq!(h2_frame(9), "CONTINUATION");
        assert_eq!(h2_frame(0xee), "0xee");
        assert_eq!(h2_error(0x8), Code { name: "CANCEL".to_owned(), value: 8 });
        assert_eq!(h3_setting(0x33), "H3_DATAGRAM");
        assert_eq!(h3_frame(0x21), "GREASE 0x21");
        assert_eq!(h3_frame(0x40), "GREASE 0x40");
        assert_eq!(h3_stream(0x41), "0x41");
    }
}
