use std::convert::Infallible;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The content repeats after this many bytes: more than gzip looks back, and a prime, so that data which went astray by
/// a whole packet, frame or page shows.
const PERIOD: usize = 65_521;

static CONTENT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut state = 0_u64;
    (0..PERIOD).map(|_| splitmix64(&mut state) as u8).collect()
});

/// A body of any length whose byte at each offset is always the same, and looks random.
///
/// It is handed out in slices of one shared block, so that a large answer costs no memory.
pub struct ContentBytes {
    left: u64,
}

impl ContentBytes {
    /// The first `count` bytes of the content.
    pub fn new(count: u64) -> ContentBytes {
        ContentBytes { left: count }
    }
}

impl Body for ContentBytes {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let length = self.left.min(PERIOD as u64);
        self.left -= length;
        Poll::Ready(Some(Ok(Frame::data(CONTENT.slice(..length as usize)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Sebastiano Vigna's SplitMix64: a generator that fits in four lines and passes the tests for randomness.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn collect(count: u64) -> Bytes {
        ContentBytes::new(count).collect().await.unwrap().to_bytes()
    }

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        let mut state = 1_234_567;
        let first: Vec<u64> = (0..3).map(|_| splitmix64(&mut state)).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[tokio::test]
    async fn each_length_is_a_prefix_of_the_longer_ones() {
        let longest = collect(200_000).await;
        for count in [0, 1, 480, PERIOD - 1, PERIOD, PERIOD + 1, 200_000] {
            assert_eq!(collect(count as u64).await, longest[..count], "{count} bytes");
        }
    }

    #[tokio::test]
    async fn every_byte_value_is_about_equally_common() {
        let mut counts = [0_u32; 256];
        collect(PERIOD as u64).await.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        // 256 expected per value, standard deviation 16: five of them on each side.
        assert!(counts.iter().all(|count| (176..336).contains(count)), "{counts:?}");
    }
}
