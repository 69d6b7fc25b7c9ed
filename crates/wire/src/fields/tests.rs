//! HPACK and QPACK against the examples of their RFCs and against other implementations.

use bytes::Bytes;
use qpack::HeaderField;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Section, hpack, qpack as ours};
use crate::Request;

type Fields = Vec<(String, String)>;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn owned(fields: &[(&str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn total(fields: &[(String, String)]) -> u32 {
    fields.iter().map(|(name, value)| (name.len() + value.len()) as u32).sum()
}

fn regular(fields: &[(String, String)]) -> Fields {
    fields.iter().filter(|(name, _)| !name.starts_with(':')).cloned().collect()
}

/// Decodes a block with a decoder that shows fields and with one that does not, which must agree.
struct Both {
    showing: hpack::Decoder,
    silent: hpack::Decoder,
}

impl Both {
    fn new(limit: usize) -> Self {
        Self { showing: hpack::Decoder::new(limit, true), silent: hpack::Decoder::new(limit, false) }
    }

    fn decode(&mut self, block: &[u8]) -> (Section, Fields) {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let section = self.showing.decode(block, |_, name, value| fields.push((text(name), text(value)))).unwrap();
        assert_eq!(self.silent.decode(block, |_, _, _| panic!("a silent decoder shows a field")), Ok(section));
        (section, fields)
    }

    /// Checks a block's fields, and the table after it.
    fn check(&mut self, block: &str, fields: &[(&str, &str)], table: &[(&str, &str)]) {
        let (section, shown) = self.decode(&hex(block));
        let fields = owned(fields);
        assert_eq!(shown, regular(&fields));
        assert_eq!(section.decoded_bytes, total(&fields));
        let table = owned(table);
        for decoder in [&self.showing, &self.silent] {
            assert_eq!(decoder.table_entries(), table);
            assert_eq!(decoder.table_size(), total(&table) as usize + 32 * table.len());
        }
    }
}

/// RFC 7541 appendix C.2.
#[test]
fn single_fields() {
    let custom = [("custom-key", "custom-header")];
    Both::new(4096).check("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", &custom, &custom);
    Both::new(4096).check("040c 2f73 616d 706c 652f 7061 7468", &[(":path", "/sample/path")], &[]);
    Both::new(4096).check("1008 7061 7373 776f 7264 0673 6563 7265 74", &[("password", "secret")], &[]);
    Both::new(4096).check("82", &[(":method", "GET")], &[]);
}

/// RFC 7541 appendices C.3 (plain strings) and C.4 (Huffman code).
#[test]
fn requests() {
    let authority = (":authority", "www.example.com");
    let no_cache = ("cache-control", "no-cache");
    let custom = ("custom-key", "custom-value");
    let first = [(":method", "GET"), (":scheme", "http"), (":path", "/"), authority];
    let second = [(":method", "GET"), (":scheme", "http"), (":path", "/"), authority, no_cache];
    let third = [(":method", "GET"), (":scheme", "https"), (":path", "/index.html"), authority, custom];
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        let mut decoders = Both::new(4096);
        decoders.check(blocks[0], &first, &[authority]);
        decoders.check(blocks[1], &second, &[no_cache, authority]);
        decoders.check(blocks[2], &third, &[custom, no_cache, authority]);
    }
}

/// RFC 7541 appendices C.5 (plain strings) and C.6 (Huffman code): a table of 256 bytes, so that entries are evicted.
#[test]
fn responses() {
    let (found, not_modified, ok) = ((":status", "302"), (":status", "307"), (":status", "200"));
    let private = ("cache-control", "private");
    let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let later = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
    let location = ("location", "https://www.example.com");
    let gzip = ("content-encoding", "gzip");
    let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    for blocks in [
        [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120
             474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738
             666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33
             3630 303b 2076 6572 7369 6f6e 3d31",
        ],
        [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718
             63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7
             b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ],
    ] {
        let mut decoders = Both::new(256);
        decoders.check(blocks[0], &[found, private, date, location], &[location, date, private, found]);
        decoders.check(blocks[1], &[not_modified, private, date, location], &[not_modified, location, date, private]);
        decoders.check(blocks[2], &[ok, private, later, location, gzip, cookie], &[cookie, gzip, later]);
    }
}

#[test]
fn status_is_found_in_every_form() {
    for (block, status) in [
        ("88", 200),
        ("8e", 500),
        ("0803 3230 36", 206),
        ("0882 6402", 302),
        ("4883 640e ff", 307),
        ("00073a7374617475730334 3138", 418),
    ] {
        assert_eq!(Both::new(4096).decode(&hex(block)).0.status, Some(status), "{block}");
    }
    // In QPACK: static entry 25; name reference with literal 418; literal name.
    for (block, status) in
        [("0000 d9", 200), ("0000 5f09 0334 3138", 418), ("0000 2700 3a73 7461 7475 7303 3431 38", 418)]
    {
        let section = ours::Decoder::new(false).decode(&hex(block), |_, _, _| {}).unwrap();
        assert_eq!(section.status, Some(status), "{block}");
    }
}

#[test]
fn wrong_pseudo_fields_are_malformed() {
    // Twice; after a regular field; of a request; not a number.
    for block in ["8888", "0f0d 0130 88", "8288", "0803 7878 78"] {
        assert!(Both::new(4096).decode(&hex(block)).0.malformed, "{block}");
    }
    assert!(!Both::new(4096).decode(&hex("88 0f0d 0130")).0.malformed);
}

#[test]
fn what_cannot_be_decoded_is_an_error() {
    for block in [
        "80",             // index 0
        "be",             // an empty dynamic table's entry
        "7f 00",          // its name
        "40",             // no name
        "00 01 61",       // no value
        "00 05 61",       // a name longer than the block
        "00 81 1e 01 61", // wrong padding of Huffman code
        "3f e2 1f",       // a table of 4,097 bytes
        "88 20",          // a size update after a field
        "ff ff ff ff ff ff ff",
    ] {
        for shows in [true, false] {
            assert!(hpack::Decoder::new(4096, shows).decode(&hex(block), |_, _, _| {}).is_err(), "{block}");
        }
    }
    for block in [
        "",           // no prefix
        "0381 1011",  // RFC 9204 appendix B.2: needs entries of the dynamic table
        "0000 80",    // a dynamic entry
        "0000 40 00", // its name
        "0000 10",    // after the base
        "0000 00 00", // a name after the base
        "0000 ff 24", // static entry 99
    ] {
        assert!(ours::Decoder::new(true).decode(&hex(block), |_, _, _| {}).is_err(), "{block}");
    }
}

#[test]
fn the_last_block_is_only_remembered_while_the_table_is_the_same() {
    let mut decoder = hpack::Decoder::new(4096, false);
    let mut bytes = |block: &str| decoder.decode(&hex(block), |_, _, _| {}).unwrap().decoded_bytes;
    assert_eq!(bytes("40 01 61 01 62"), 2);
    assert_eq!(bytes("be"), 2);
    assert_eq!(bytes("be"), 2);
    assert_eq!(bytes("40 01 61 03 62 62 62"), 4);
    assert_eq!(bytes("be"), 4);
    assert_eq!(bytes("40 01 61 03 62 62 62"), 4);
    assert_eq!(bytes("40 01 61 03 62 62 62"), 4);
}

/// A silent decoder defers what repeated blocks add to the table, which must not show.
#[test]
fn deferred_additions_are_made_up_for() {
    let mut random = StdRng::seed_from_u64(1);
    let mut block = |fields: usize| -> Vec<u8> {
        let mut block = vec![0x88];
        for _ in 0..fields {
            // Server, date or content-length, with a value of its own.
            let index = [54, 33, 28][random.random_range(0..3)];
            block.extend([0x40 | index, 2, random.random_range(b'a'..=b'z'), random.random_range(b'a'..=b'z')]);
        }
        block
    };
    for limit in [0, 50, 300, 4096] {
        let mut decoders = Both::new(limit);
        decoders.decode(&[0x88]);
        for repeats in [1, 2, 3, 7, 200] {
            for fields in [1, 2, 5] {
                let repeated = block(fields);
                for _ in 0..repeats {
                    decoders.decode(&repeated);
                }
                // Refers to all entries that there are, whose number the showing decoder knows.
                let count = decoders.showing.table_entries().len();
                let mut all = vec![0x88];
                all.extend((0..count.min(60)).map(|entry| 0xbe + entry as u8));
                let (section, shown) = decoders.decode(&all);
                assert_eq!(section.decoded_bytes, 10 + total(&shown));
                assert_eq!(decoders.silent.table_entries(), decoders.showing.table_entries());
            }
        }
    }
}

/// A silent decoder knows the fields of the last block again, which must not show.
#[test]
fn blocks_that_differ_in_some_fields_are_right() {
    // Indexed, with each kind of insertion and without, content-length, of the dynamic table, and too large for it.
    let large = [&[0x76, 0x7f, 0x21][..], &[b'x'; 160]].concat();
    let fixed: [&[u8]; 9] = [
        b"\x90",
        b"\x76\x89\xaa\x63\x55\xe5\x80\xae\x21\x2e\x1f",
        b"\x40\x01a\x01b",
        b"\x0f\x12\x02c,",
        b"\x5c\x03100",
        b"\x0f\x0d\x03100",
        b"\xbe",
        b"\x7e\x01v",
        &large,
    ];
    let mut random = StdRng::seed_from_u64(3);
    for limit in [0, 50, 150, 4096] {
        let mut decoders = Both::new(limit);
        // An entry to refer to, unless there is no room for it.
        decoders.decode(b"\x88\x40\x01a\x01b");
        let mut places: Vec<usize> = (0..8).map(|_| random.random_range(0..fixed.len())).collect();
        for _ in 0..500 {
            if random.random_bool(0.3) {
                let at = random.random_range(0..places.len());
                places[at] = random.random_range(0..fixed.len());
            }
            let mut block = vec![0x88];
            for &place in &places {
                let refers = [0xbe, 0x7e].contains(&fixed[place][0]);
                if !refers || !decoders.showing.table_entries().is_empty() && block.len() == 1 {
                    block.extend_from_slice(fixed[place]);
                }
            }
            block.extend([0x0f, 0x12, 1, random.random_range(b'a'..=b'c')]);
            let (section, shown) = decoders.decode(&block);
            assert_eq!(section.decoded_bytes, 10 + total(&shown));
            if random.random_bool(0.1) {
                // What is deferred must be made up for before the tables are the same.
                decoders.decode(&[0x88]);
                assert_eq!(decoders.silent.table_entries(), decoders.showing.table_entries());
                assert_eq!(decoders.silent.table_size(), decoders.showing.table_size());
            }
        }
    }
}

/// RFC 9204 appendix B.1.
#[test]
fn qpack_literal_with_a_name_reference() {
    let block = hex("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    let section = ours::Decoder::new(true).decode(&block, |_, _, _| {}).unwrap();
    assert_eq!(section.decoded_bytes, 5 + 11);
}

const NAMES: [&str; 8] =
    ["content-type", "server", "x-request-id", "etag", "date", "set-cookie", "x", "a-name-that-no-static-table-has"];

fn random_response(random: &mut StdRng) -> Fields {
    let mut fields = vec![(":status".to_string(), random.random_range(200..600).to_string())];
    for _ in 0..random.random_range(0..12) {
        let name = NAMES[random.random_range(0..NAMES.len())].to_string();
        let length = if random.random_bool(0.02) { 300 } else { random.random_range(0..12) };
        // Values repeat often enough for the dynamic table to be used.
        let letter = random.random_range(b' '..b'~');
        fields.push((name, (letter as char).to_string().repeat(length)));
    }
    fields
}

fn bytes_of(fields: &Fields) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

#[test]
fn hpack_agrees_with_another_encoder() {
    let mut random = StdRng::seed_from_u64(7541);
    let mut encoder = loona_hpack::Encoder::new();
    let mut decoders = Both::new(4096);
    for _ in 0..2000 {
        let fields = random_response(&mut random);
        let (section, shown) = decoders.decode(&encoder.encode(bytes_of(&fields)));
        assert_eq!(shown, regular(&fields));
        assert_eq!(section.status.map(|status| status.to_string()).as_ref(), Some(&fields[0].1));
        assert_eq!((section.decoded_bytes, section.malformed), (total(&fields), false));
    }
}

#[test]
fn qpack_agrees_with_another_encoder() {
    let mut random = StdRng::seed_from_u64(9204);
    let mut decoder = ours::Decoder::new(true);
    for _ in 0..2000 {
        let fields = random_response(&mut random);
        let mut block = Vec::new();
        let theirs = fields.iter().map(|(name, value)| HeaderField::new(name.clone(), value.clone()));
        qpack::encode_stateless(&mut block, theirs).unwrap();
        let mut shown = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let section = decoder.decode(&block, |_, name, value| shown.push((text(name), text(value)))).unwrap();
        assert_eq!(shown, regular(&fields));
        assert_eq!(section.status.map(|status| status.to_string()).as_ref(), Some(&fields[0].1));
        assert_eq!((section.decoded_bytes, section.malformed), (total(&fields), false));
    }
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &'static [u8]) -> Request {
    Request {
        method: method.into(),
        scheme: "https".into(),
        authority: "origin:8443".into(),
        path: path.into(),
        headers: owned(headers),
        body: Bytes::from_static(body),
    }
}

/// Requests of two kinds, and what their fields are in the order in which they are sent.
fn requests_and_fields() -> Vec<(Request, Fields)> {
    let agent = ("user-agent", "fairlane");
    let cookie = ("cookie", "a=b; c=\u{e9}");
    let (https, origin) = ((":scheme", "https"), (":authority", "origin:8443"));
    let encoding = ("accept-encoding", "gzip, deflate");
    vec![
        (
            request("GET", "/", &[agent, ("accept", "*/*")], b""),
            owned(&[(":method", "GET"), https, (":path", "/"), origin, agent, ("accept", "*/*")]),
        ),
        (
            request("GET", "/bytes/100", &[agent, ("accept", "*/*")], b""),
            owned(&[(":method", "GET"), https, (":path", "/bytes/100"), origin, agent, ("accept", "*/*")]),
        ),
        (
            request("POST", "/echo", &[cookie, encoding, agent], b"four"),
            owned(&[
                (":method", "POST"),
                https,
                (":path", "/echo"),
                origin,
                cookie,
                encoding,
                agent,
                ("content-length", "4"),
            ]),
        ),
    ]
}

#[test]
fn another_decoder_reads_our_hpack() {
    // Peers whose table has the default size, takes only some requests, and takes nothing.
    for limit in [4096, 130, 0] {
        let mut random = StdRng::seed_from_u64(limit.into());
        let mut encoder = hpack::Encoder::new();
        encoder.limit(limit);
        let mut decoder = loona_hpack::Decoder::new();
        let requests = requests_and_fields();
        let templates: Vec<hpack::Template> = requests.iter().map(|(request, _)| request.into()).collect();
        for _ in 0..200 {
            let choice = random.random_range(0..requests.len());
            let mut block = Vec::new();
            encoder.encode(&templates[choice], &mut block);
            let decoded = decoder.decode(&block).unwrap();
            let decoded = decoded.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            assert!(decoded.eq(bytes_of(&requests[choice].1)));
        }
    }
}

#[test]
fn a_repeated_request_costs_a_byte_a_field() {
    let mut encoder = hpack::Encoder::new();
    let template = hpack::Template::from(&request("GET", "/", &[("user-agent", "fairlane"), ("accept", "*/*")], b""));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    encoder.encode(&template, &mut first);
    encoder.encode(&template, &mut second);
    assert!(first.len() > 20);
    assert_eq!(second, [0x82, 0x87, 0x84, 0xc0, 0xbf, 0xbe]);
}

#[test]
fn a_limit_is_announced_once() {
    let mut encoder = hpack::Encoder::new();
    let template = hpack::Template::from(&request("GET", "/", &[], b""));
    encoder.limit(100_000);
    encoder.limit(60);
    let mut blocks = [Vec::new(), Vec::new()];
    for block in &mut blocks {
        encoder.encode(&template, block);
    }
    assert_eq!(blocks[0][..2], [0x3f, 60 - 31]);
    assert_eq!(blocks[1], [0x82, 0x87, 0x84, 0xbe]);
}

#[test]
fn another_decoder_reads_our_qpack() {
    for (request, fields) in requests_and_fields() {
        let mut block = Vec::new();
        ours::encode(&request, &mut block);
        let decoded = qpack::decode_stateless(&mut block.as_slice(), u64::MAX).unwrap().fields;
        let mut decoded: Vec<_> = decoded.into_iter().map(HeaderField::into_inner).collect();
        let mut expected: Vec<_> =
            bytes_of(&fields).map(|(name, value)| (name.to_vec().into(), value.to_vec().into())).collect();
        decoded.sort_unstable();
        expected.sort_unstable();
        assert_eq!(decoded, expected);
    }
}
