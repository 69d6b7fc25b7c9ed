//! Transport parameters of QUIC, as they are encoded in a handshake (RFC 9000 section 18).

use quinn_proto::VarInt;
use quinn_proto::coding::Codec as _;

use super::report::Parameter;

/// Names, and whether the value is a number.
const KNOWN: [(u64, &str, bool); 20] = [
    (0x00, "original_destination_connection_id", false),
    (0x01, "max_idle_timeout", true),
    (0x02, "stateless_reset_token", false),
    (0x03, "max_udp_payload_size", true),
    (0x04, "initial_max_data", true),
    (0x05, "initial_max_stream_data_bidi_local", true),
    (0x06, "initial_max_stream_data_bidi_remote", true),
    (0x07, "initial_max_stream_data_uni", true),
    (0x08, "initial_max_streams_bidi", true),
    (0x09, "initial_max_streams_uni", true),
    (0x0a, "ack_delay_exponent", true),
    (0x0b, "max_ack_delay", true),
    (0x0c, "disable_active_migration", false),
    (0x0d, "preferred_address", false),
    (0x0e, "active_connection_id_limit", true),
    (0x0f, "initial_source_connection_id", false),
    (0x10, "retry_source_connection_id", false),
    (0x20, "max_datagram_frame_size", true),
    (0x2ab2, "grease_quic_bit", false),
    (0xff04_de1b, "min_ack_delay_draft07", true),
];

/// The parameters that are encoded in `bytes`, in order of their identifiers.
pub(super) fn read(mut bytes: &[u8]) -> Vec<Parameter> {
    let mut found = Vec::new();
    while let Some((id, value)) = next(&mut bytes) {
        let known = KNOWN.iter().find(|(known, ..)| *known == id);
        let mut rest = value;
        let value = match known.filter(|(.., is_number)| *is_number).and_then(|_| VarInt::decode(&mut rest).ok()) {
            Some(number) => number.to_string(),
            None => value.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        found.push((
            id,
            Parameter { name: known.map_or_else(|| format!("{id:#x}"), |(_, name, _)| (*name).to_owned()), value },
        ));
    }
    found.sort_by_key(|(id, _)| *id);
    found.into_iter().map(|(_, parameter)| parameter).collect()
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let id = VarInt::decode(bytes).ok()?;
    let len = usize::try_from(VarInt::decode(bytes).ok()?.into_inner()).ok()?;
    let (value, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some((id.into(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_bytes_and_flags_are_told_apart() {
        let bytes =
            [&[0x04, 0x04, 0x80, 0x10, 0x00, 0x00][..], &[0x0c, 0x00], &[0x0f, 2, 0xab, 0xcd], &[0x40, 0xff, 1, 7]];
        let read: Vec<_> = read(&bytes.concat()).into_iter().map(|found| (found.name, found.value)).collect();
        let expected = [
            ("initial_max_data", "1048576"),
            ("disable_active_migration", ""),
            ("initial_source_connection_id", "abcd"),
            ("0xff", "07"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        assert_eq!(read(&[0x0c, 0x00, 0x04, 0x04, 0x80]).len(), 1);
    }
}
