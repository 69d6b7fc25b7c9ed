use std::sync::Arc;

use wire::Request;

/// The requests of a run and the order in which they are chosen.
///
/// Equal weights go round in turn. Others follow the multiples of the golden ratio, whose fractions fill every interval
/// in proportion to its length from the first few on; so the sequence repeats from run to run and is even at any time.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    requests: Arc<[Request]>,
    /// Upper ends of the requests' shares of 0 to 1; empty when all weigh the same.
    shares: Arc<[f64]>,
    chosen: u64,
}

impl Mix {
    /// The requests with their weights, at least one.
    pub(crate) fn new(weighted: impl IntoIterator<Item = (Request, f64)>) -> Mix {
        let (requests, weights): (Vec<Request>, Vec<f64>) = weighted.into_iter().unzip();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let mut share = |weight: &f64| {
            sum += weight / total;
            sum
        };
        let equal = weights.iter().all(|weight| *weight == weights[0]);
        let shares = if equal { Vec::new() } else { weights.iter().map(&mut share).collect() };
        Mix { requests: requests.into(), shares: shares.into(), chosen: 0 }
    }

    /// The same requests for another worker, which begins elsewhere in the order.
    pub(crate) fn offset(&self, start: u64) -> Mix {
        Mix { chosen: start, ..self.clone() }
    }

    pub(crate) fn request(&self, index: usize) -> &Request {
        &self.requests[index]
    }

    /// The index of the next request.
    pub(crate) fn choose(&mut self) -> usize {
        if self.requests.len() == 1 {
            return 0;
        }
        let turn = self.chosen;
        self.chosen += 1;
        if self.shares.is_empty() {
            return (turn % self.requests.len() as u64) as usize;
        }
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let at = (turn as f64 * GOLDEN).fract();
        // The sum of the shares may be a rounding error short of 1.
        self.shares.partition_point(|end| *end <= at).min(self.requests.len() - 1)
    }
}

#[cfg(test)]
pub(super) fn one() -> Mix {
    Mix::new([(request("/"), 1.0)])
}

#[cfg(test)]
fn request(path: &str) -> Request {
    Request {
        method: "GET".to_owned(),
        scheme: "http".to_owned(),
        authority: "host".to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: bytes::Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_go_round() {
        let mut mix = Mix::new(["/a", "/b", "/c"].map(|path| (request(path), 2.0))).offset(1);
        assert_eq!([(); 4].map(|()| mix.choose()), [1, 2, 0, 1]);
        assert_eq!(mix.request(1).path, "/b");
    }

    #[test]
    fn weights_hold_from_the_first_few_requests_on() {
        let mut mix = Mix::new([("/a", 7.0), ("/b", 2.0), ("/c", 1.0)].map(|(path, weight)| (request(path), weight)));
        let mut counts = [0_u32; 3];
        for turn in 1..=10_000_u32 {
            counts[mix.choose()] += 1;
            for (count, share) in counts.iter().zip([0.7, 0.2, 0.1]) {
                assert!((f64::from(*count) - f64::from(turn) * share).abs() < 4.0, "after {turn}: {counts:?}");
            }
        }
    }
}
