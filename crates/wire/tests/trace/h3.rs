use qpack::HeaderField;
use wire::trace::h3::Trace;
use wire::trace::{Code, Content, Item, Setting};

use crate::{every_way, fields, frame};

fn follow(stream: u64, bytes: &[u8]) -> Vec<Item> {
    every_way(bytes, || {
        let mut trace = Trace::default();
        move |bytes: &[u8], mut report: &mut dyn FnMut(Item)| trace.feed(stream, bytes, false, &mut report)
    })
}

fn begins(stream: u64, purpose: &str) -> Item {
    Item::Stream { stream, purpose: purpose.to_owned() }
}

#[test]
fn a_control_stream_has_settings_and_goaway() {
    // SETTINGS with MAX_FIELD_SECTION_SIZE 16,384 and H3_DATAGRAM 1; a frame of type 0x21; GOAWAY with stream 8.
    let bytes = [&[0, 4, 7, 6, 0x80, 0, 0x40, 0, 0x33, 1][..], &[0x21, 2, 1, 2], &[7, 1, 8]].concat();
    let setting = |name: &str, value| Setting { name: name.to_owned(), value };
    let settings = vec![setting("MAX_FIELD_SECTION_SIZE", 16_384), setting("H3_DATAGRAM", 1)];
    assert_eq!(
        follow(3, &bytes),
        [
            begins(3, "control"),
            frame("SETTINGS", 3, 7, &[], Content::Settings { settings }),
            frame("GREASE 0x21", 3, 2, &[], Content::Opaque),
            frame("GOAWAY", 3, 1, &[], Content::Goaway { stream: 8, code: None, debug: String::new() }),
        ]
    );
    let empty = frame("SETTINGS", 2, 0, &[], Content::Settings { settings: Vec::new() });
    assert_eq!(follow(2, &[0, 4, 0]), [begins(2, "control"), empty]);
}

#[test]
fn a_response_of_another_encoder_is_understood() {
    let pairs = [(":status", "200"), ("server", "oracle"), ("x-long", &"long ".repeat(50))];
    let mut block = Vec::new();
    qpack::encode_stateless(&mut block, pairs.iter().map(|(name, value)| HeaderField::new(*name, *value))).unwrap();
    let length = block.len() as u64;
    let mut bytes = vec![1, 0x40 | (length >> 8) as u8, length as u8];
    bytes.extend_from_slice(&block);
    bytes.extend_from_slice(b"\x00\x05hello\x00\x00");
    let decoded_bytes = pairs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum();
    let content = Content::Fields { fields: fields(&pairs), encoded_bytes: length, decoded_bytes };
    let data = |length| frame("DATA", 4, length, &[], Content::Opaque);
    assert_eq!(follow(4, &bytes), [frame("HEADERS", 4, length, &[], content), data(5), data(0)]);
}

#[test]
fn other_streams_are_named() {
    let mut trace = Trace::default();
    let mut items = Vec::new();
    let mut report = |item| items.push(item);
    trace.feed(7, &[2], false, &mut report);
    trace.feed(7, &[0x20, 0x20], false, &mut report);
    trace.feed(11, &[0x40, 0x54, 1, 2, 3], false, &mut report);
    trace.feed(0, &[], true, &mut report);
    trace.reset(4, 0x10b, &mut report);
    trace.stop(8, 0x100, &mut report);
    let code = |name: &str, value| Code { name: name.to_owned(), value };
    assert_eq!(
        items,
        [
            begins(7, "QPACK encoder"),
            Item::Instructions { stream: 7, bytes: 2 },
            begins(11, "0x54"),
            Item::End { stream: 0 },
            Item::Reset { stream: 4, code: code("H3_REQUEST_REJECTED", 0x10b) },
            Item::Stop { stream: 8, code: code("H3_NO_ERROR", 0x100) },
        ]
    );
}

#[test]
fn what_cannot_be_decoded_is_told() {
    for bytes in [&[1, 3, 0, 0, 0x80][..], &[1, 0], &[7, 0], &[4, 1, 6]] {
        let items = follow(0, bytes);
        let [Item::Frame(frame)] = &items[..] else { panic!("{items:?}") };
        assert!(matches!(frame.content, Content::Malformed { .. }), "{frame:?}");
    }
    // A field section of 300,000 bytes is not put together.
    let items = follow(0, &[1, 0x80, 0x04, 0x93, 0xe0, 0, 0]);
    assert!(matches!(&items[..], [Item::Frame(frame)] if matches!(frame.content, Content::Malformed { .. })));
}
