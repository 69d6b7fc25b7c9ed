use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A latency distribution in microseconds, 1 us to 1 h, three significant digits.
///
/// Serialises losslessly (HdrHistogram V2, base64), so distributions of several trials or machines can be merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

const HIGHEST_US: u64 = 3_600_000_000;

impl Default for Histogram {
    fn default() -> Self {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_US, 3);
        Histogram(inner.expect("the bounds are constants within HdrHistogram's range"))
    }
}

impl Histogram {
    /// Counts one value in microseconds; values outside the range count at its edge.
    pub fn record_us(&mut self, value_us: u64) {
        self.0.saturating_record(value_us.max(1));
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value in microseconds at `quantile` (0 to 1), or `None` when nothing was counted.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile))
    }

    /// The distribution in the figures that h2load, wrk and oha report; `None` when nothing was counted.
    pub fn spread(&self) -> Option<Spread> {
        if self.0.is_empty() {
            return None;
        }
        let (mean, sd) = (self.0.mean(), self.0.stdev());
        let within = self.0.count_between((mean - sd).max(0.0) as u64, (mean + sd) as u64);
        Some(Spread {
            min_us: self.0.min(),
            max_us: self.0.max(),
            mean_us: mean,
            sd_us: sd,
            within_sd: within as f64 / self.0.len() as f64,
            p50_us: self.0.value_at_quantile(0.50),
            p90_us: self.0.value_at_quantile(0.90),
            p99_us: self.0.value_at_quantile(0.99),
            p999_us: self.0.value_at_quantile(0.999),
        })
    }
}

/// A distribution in a few figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest value, microseconds.
    pub min_us: u64,
    /// Largest value, microseconds.
    pub max_us: u64,
    /// Arithmetic mean, microseconds.
    pub mean_us: f64,
    /// Standard deviation, microseconds.
    pub sd_us: f64,
    /// Share of values within one standard deviation of the mean, 0 to 1 (h2load's `+/- sd`).
    pub within_sd: f64,
    /// Median, microseconds.
    pub p50_us: u64,
    /// 90th percentile, microseconds.
    pub p90_us: u64,
    /// 99th percentile, microseconds.
    pub p99_us: u64,
    /// 99.9th percentile, microseconds.
    pub p999_us: u64,
}

#[derive(Serialize, Deserialize)]
struct Packed {
    count: u64,
    #[serde(flatten)]
    spread: Option<Spread>,
    hdr: String,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(serde::ser::Error::custom)?;
        Packed { count: self.count(), spread: self.spread(), hdr: STANDARD.encode(bytes) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let packed = Packed::deserialize(deserializer)?;
        let bytes = STANDARD.decode(packed.hdr).map_err(serde::de::Error::custom)?;
        let inner = HdrDeserializer::new().deserialize(&mut bytes.as_slice()).map_err(serde::de::Error::custom)?;
        Ok(Histogram(inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn travels_losslessly_and_merges() {
        let mut low = Histogram::default();
        let mut high = Histogram::default();
        for value in 1..=1000 {
            low.record_us(value);
            high.record_us(value * 1000);
        }
        let json = serde_json::to_string(&high).unwrap();
        let mut merged: Histogram = serde_json::from_str(&json).unwrap();
        assert_eq!(merged, high);
        merged.merge(&low);
        assert_eq!(merged.count(), 2000);
        let spread = merged.spread().unwrap();
        assert_eq!(spread.min_us, 1);
        assert!(spread.p50_us.abs_diff(1000) <= 10, "{spread:?}");
    }

    #[test]
    fn an_empty_histogram_has_no_figures() {
        let empty = Histogram::default();
        assert_eq!((empty.spread(), empty.quantile_us(0.5)), (None, None));
        let json = serde_json::to_string(&empty).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), empty);
    }
}
