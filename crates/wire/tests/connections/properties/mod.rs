//! What holds for any input. The fuzz targets and the tests of this directory check the same functions.

mod fields;
mod h3;
mod stream;

pub use fields::{hpack, qpack};
pub use h3::h3;
pub use stream::{chunked, h1, h2};

use crate::support::Seen;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use wire::Token;

/// A property: it panics if it does not hold for an input.
pub type Property = fn(&[u8]);

/// All properties by name; the name is that of the fuzz target and of the directory with its seeds.
pub const ALL: [(&str, Property); 6] =
    [("h1", h1), ("h2", h2), ("h3", h3), ("chunked", chunked), ("hpack", hpack), ("qpack", qpack)];

/// Takes the first byte of an input; 0 if there is none.
fn take(input: &mut &[u8]) -> u8 {
    input.split_off_first().copied().unwrap_or(0)
}

/// A source of chance for sizes of pieces.
fn chance(seed: u8) -> StdRng {
    StdRng::seed_from_u64(seed.into())
}

/// Sizes of pieces that `len` bytes are cut into, mostly small.
fn sizes(random: &mut StdRng, len: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut left = len;
    while left > 0 {
        let longest = if random.random_bool(0.8) { 20 } else { len };
        let size = random.random_range(1..=left.min(longest));
        sizes.push(size);
        left -= size;
    }
    sizes
}

/// Checks that events of each of the requests come in their order, and exactly one of them is the end.
fn check_order(seen: &[Seen], requests: Token) {
    for token in 0..requests {
        let (mut heads, mut ends) = (0, 0);
        for event in seen {
            let (of, is_right) = match event {
                Seen::Field(of, ..) => (*of, true),
                Seen::Head(of, status) => {
                    heads += usize::from(*of == token);
                    (*of, heads <= 1 && (200..=999).contains(status))
                }
                Seen::Data(of, _) => (*of, heads == 1),
                Seen::Done(of) => (*of, heads == 1),
                Seen::Failed(of, _) => (*of, true),
                Seen::Draining => continue,
            };
            assert!(of < requests, "an event of a request that was never started: {seen:?}");
            if of == token {
                assert!(is_right && ends == 0, "events of request {token} are in disorder: {seen:?}");
                ends += usize::from(matches!(event, Seen::Done(_) | Seen::Failed(..)));
            }
        }
        assert_eq!(ends, 1, "request {token} ends {ends} times: {seen:?}");
    }
}
