//! Properties of header decompression: a connection that shows fields and one that does not agree, and another
//! implementation finds the same fields.

use super::take;
use crate::support::request;
use wire::{Connection as _, Error, Event, h2, h3};

/// The fields of a response's head, and its status and sizes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    head: Option<(u16, u32, u32)>,
}

impl Told {
    fn record(&mut self, event: Event<'_>) {
        match event {
            Event::Field { name, value, .. } => self.fields.push((name.to_vec(), value.to_vec())),
            Event::Head { status, header_bytes, decoded_bytes, .. } => {
                self.head = Some((status, header_bytes, decoded_bytes));
            }
            _ => {}
        }
    }
}

/// The blocks of an input: each begins with its length, 0 for all the rest.
fn blocks(mut input: &[u8]) -> Vec<&[u8]> {
    let mut blocks = Vec::new();
    while !input.is_empty() {
        let len = usize::from(take(&mut input));
        let len = if len == 0 { 16_000 } else { len };
        blocks.push(input.split_off(..len.min(input.len())).unwrap_or_default());
    }
    blocks
}

/// HPACK: how large the table may be, and blocks of responses on one connection.
pub fn hpack(mut input: &[u8]) {
    let size = [4096, 0, 100, 300][usize::from(take(&mut input) & 3)];
    let connect = |fields| {
        let options = h2::Options { fields, header_table_size: size, ..h2::Options::default() };
        let mut connection = h2::Connection::new(options);
        connection.receive(&[0, 0, 0, 4, 0, 0, 0, 0, 0], &mut |_| {}).unwrap();
        connection
    };
    let (mut silent, mut showing) = (connect(false), connect(true));
    let mut oracle = loona_hpack::Decoder::new();
    oracle.set_max_table_size(size as usize);
    oracle.set_max_allowed_table_size(size as usize);
    let get = h2::Prepared::from(&request("GET", "/", b""));
    for (number, block) in (0..).zip(blocks(input)) {
        let stream: u32 = number * 2 + 1;
        // END_STREAM and END_HEADERS.
        let mut frame = (block.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([1, 5]);
        frame.extend(stream.to_be_bytes());
        frame.extend(block);
        let receive = |connection: &mut h2::Connection| {
            let mut told = Told::default();
            connection.start(0, &get);
            let result = connection.receive(&frame, &mut |event| told.record(event));
            (told, result)
        };
        let (told, result) = receive(&mut showing);
        let (silently_told, silent_result) = receive(&mut silent);
        assert_eq!((silently_told.head, &silent_result), (told.head, &result));
        let theirs = oracle.decode(block);
        match (result, theirs) {
            (Ok(()), Ok(theirs)) => compare(&told, theirs),
            // They refuse a size update that nothing follows, and stop there.
            (Ok(()), Err(error)) => {
                let is_trailing = format!("{error:?}").contains("SizeUpdateAtEnd");
                assert!(is_trailing, "they fail with {error:?}");
            }
            (Err(Error::Http2 { code: 9, .. }), _) => return,
            (Err(error), _) => panic!("{error}"),
        }
    }
}

/// QPACK: blocks of responses on one connection.
pub fn qpack(input: &[u8]) {
    let connect = |fields| h3::Connection::new(h3::Options { fields });
    let (mut silent, mut showing) = (connect(false), connect(true));
    let get = h3::Prepared::from(&request("GET", "/", b""));
    for (number, block) in (0..).zip(blocks(input)) {
        let stream: u64 = number * 4;
        // HEADERS with its length in four bytes.
        let mut frame = vec![1];
        frame.extend((block.len() as u32 | 0x8000_0000).to_be_bytes());
        frame.extend(block);
        let receive = |connection: &mut h3::Connection| {
            let mut told = Told::default();
            connection.start(stream, 0, &get);
            let result = connection.receive(stream, &frame, true, &mut |event| told.record(event));
            (told, result)
        };
        let (told, result) = receive(&mut showing);
        let (silently_told, silent_result) = receive(&mut silent);
        assert_eq!((silently_told.head, &silent_result), (told.head, &result));
        let theirs = qpack::decode_stateless(&mut &block[..], u64::MAX);
        match (result, theirs) {
            (Ok(()), Ok(theirs)) => {
                let fields = theirs.fields.into_iter().map(qpack::HeaderField::into_inner);
                compare(&told, fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect());
            }
            (Ok(()), Err(error)) => panic!("they fail with {error:?}"),
            (Err(Error::Http3 { code: 0x200, .. }), _) => return,
            (Err(error), _) => panic!("{error}"),
        }
    }
}

/// Compares what was told of a head with its fields.
fn compare(told: &Told, theirs: Vec<(Vec<u8>, Vec<u8>)>) {
    let Some((status, _, decoded_bytes)) = told.head else {
        return;
    };
    let total: usize = theirs.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert_eq!(decoded_bytes as usize, total);
    let (pseudo, regular): (Vec<_>, Vec<_>) = theirs.into_iter().partition(|(name, _)| name.starts_with(b":"));
    assert_eq!(pseudo, [(b":status".to_vec(), status.to_string().into_bytes())]);
    assert_eq!(told.fields, regular);
}
