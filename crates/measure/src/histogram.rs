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
        // It grows with the values: what stays small costs little memory.
        Histogram(hdrhistogram::Histogram::new(3).expect("three digits are within HdrHistogram's range"))
    }
}

impl Histogram {
    /// Counts one value in microseconds; values outside the range count at its edge.
    pub fn record_us(&mut self, value_us: u64) {
        self.0.record(value_us.clamp(1, HIGHEST_US)).expect("the histogram grows with its values");
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("the histogram grows with its values");
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
            min: self.0.min(),
            mean,
            sd,
            within_sd: within as f64 / self.0.len() as f64,
            p50: self.0.value_at_quantile(0.50),
            p90: self.0.value_at_quantile(0.90),
            p95: self.0.value_at_quantile(0.95),
            p99: self.0.value_at_quantile(0.99),
            p999: self.0.value_at_quantile(0.999),
            p9999: self.0.value_at_quantile(0.9999),
            max: self.0.max(),
        })
    }

    /// The distribution as HdrHistogram V2, base64: what HdrHistogram's tools read.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).expect("writing to memory cannot fail");
        STANDARD.encode(bytes)
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures { count: self.count(), spread: self.spread() }
    }
}

/// For what only the library behind it can do.
impl AsRef<hdrhistogram::Histogram<u64>> for Histogram {
    fn as_ref(&self) -> &hdrhistogram::Histogram<u64> {
        &self.0
    }
}

/// A distribution in a few figures, in the unit of its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest value.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Share of values within one standard deviation of the mean, 0 to 1 (h2load's `+/- sd`).
    pub within_sd: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Largest value.
    pub max: u64,
}

/// The keys of a distribution's figures; without `count` values there are none.
#[derive(Serialize, Deserialize)]
pub(crate) struct Figures {
    count: u64,
    #[serde(flatten)]
    spread: Option<Spread>,
}

/// A whole distribution as it travels.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Packed(String);

impl From<&Histogram> for Packed {
    fn from(histogram: &Histogram) -> Packed {
        Packed(histogram.to_base64())
    }
}

impl TryFrom<Packed> for Histogram {
    type Error = String;

    fn try_from(packed: Packed) -> Result<Histogram, String> {
        let bytes = STANDARD.decode(packed.0).map_err(|error| error.to_string())?;
        let mut inner: hdrhistogram::Histogram<u64> =
            HdrDeserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
        inner.auto(true);
        Ok(Histogram(inner))
    }
}

/// The figures, and in `hdr` the whole distribution.
#[derive(Serialize, Deserialize)]
struct Document {
    #[serde(flatten)]
    figures: Figures,
    hdr: Packed,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document { figures: self.figures(), hdr: self.into() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Document::deserialize(deserializer)?.hdr.try_into().map_err(serde::de::Error::custom)
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
        let mut slow = Histogram::default();
        slow.record_us(u64::MAX);
        merged.merge(&slow);
        assert_eq!(merged.count(), 2001);
        assert!(merged.quantile_us(1.0).unwrap() >= 3_600_000_000, "the slowest counts at the edge of the range");
        merged = serde_json::from_str(&json).unwrap();
        merged.merge(&low);
        assert_eq!(merged.count(), 2000);
        let spread = merged.spread().unwrap();
        assert_eq!(spread.min, 1);
        assert!(spread.p50.abs_diff(1000) <= 10, "{spread:?}");
    }

    #[test]
    fn an_empty_histogram_has_no_figures() {
        let empty = Histogram::default();
        assert_eq!((empty.spread(), empty.quantile_us(0.5)), (None, None));
        let json = serde_json::to_string(&empty).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), empty);
    }
}
