//! The onlookers against bytes that others made: by hand after the RFCs, and by the crates h2 and qpack.

mod h1;
mod h2;
mod h3;

use wire::trace::{Content, Field, Frame, Item};

/// What an onlooker reports when it is fed `bytes` in pieces of `size`.
fn pieces(bytes: &[u8], size: usize, mut feed: impl FnMut(&[u8], &mut dyn FnMut(Item))) -> Vec<Item> {
    let mut items = Vec::new();
    for piece in bytes.chunks(size) {
        feed(piece, &mut |item| items.push(item));
    }
    items
}

/// What an onlooker reports of `bytes`, which must not depend on how they are cut.
fn every_way<F: FnMut(&[u8], &mut dyn FnMut(Item))>(bytes: &[u8], make: impl Fn() -> F) -> Vec<Item> {
    let whole = pieces(bytes, bytes.len().max(1), make());
    for size in 1..bytes.len().min(40) {
        assert_eq!(pieces(bytes, size, make()), whole, "by {size}");
    }
    whole
}

fn fields(pairs: &[(&str, &str)]) -> Vec<Field> {
    pairs.iter().map(|(name, value)| Field { name: (*name).to_owned(), value: (*value).to_owned() }).collect()
}

fn frame(name: &str, stream: u64, length: u64, flags: &[&str], content: Content) -> Item {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    Item::Frame(Frame { name: name.to_owned(), stream, length, flags, content })
}
