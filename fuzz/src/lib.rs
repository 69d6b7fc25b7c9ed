//! The properties that the fuzz targets check. They are those of the tests of crate `wire`, which check them on the
//! seeds and on random mutations of these with every toolchain; and one of the page scanner of crate `load`.

#[path = "../../crates/wire/tests/connections/properties/mod.rs"]
pub mod properties;
#[path = "../../crates/load/src/page/scan.rs"]
mod scan;
#[path = "../../crates/wire/tests/connections/support.rs"]
pub mod support;

/// A document: it does not matter where it is cut.
pub fn page(input: &[u8]) {
    let links = |size: usize| {
        let mut scanner = scan::Scanner::default();
        let mut links = Vec::new();
        input.chunks(size).for_each(|piece| scanner.feed(piece, &mut |link| links.push(link)));
        links
    };
    let whole = links(input.len().max(1));
    for size in [1, 2, 7, 64] {
        assert_eq!(links(size), whole, "in pieces of {size} bytes");
    }
}
