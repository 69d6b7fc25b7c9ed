//! Estimates and intervals from few paired measurements.
//!
//! One question, one centre, one interval and one p-value that agree with each other: the 95 % interval excludes zero
//! exactly when p < 0.05. Which method gives them depends on nothing but the number of values:
//!
//! ```text
//!  n < 3      nothing: two values say too little about their own spread
//!  n < 15     Student's t about the mean          assumes: nearly normal, or symmetric with long tails
//!  n >= 15    Hodges-Lehmann with the signed-rank  assumes: symmetric
//!             interval of Wilcoxon
//! ```
//!
//! Ranks assume less, but with few values they cannot answer: n values give no p below 2^(1-n), which for 7 is 0.016 and
//! never survives a correction for six comparisons. Student's t buys that resolution with an assumption about the shape;
//! a protocol against itself gives log ratios that are symmetric whatever the times look like (swapping the two trials of
//! a pair changes nothing but the sign), and for symmetric long tails t is conservative. From 15 on the smallest p is
//! 0.00006, enough for 800 comparisons, and one spoilt round moves a Hodges-Lehmann centre by little: ranks take over.
//! The figures behind these choices are in docs/statistics.md; tests/coverage.rs repeats them.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Normal, StudentsT};

/// Values below which there is no estimate.
pub const LEAST_VALUES: usize = 3;
/// Values from which ranks are used in place of Student's t.
pub const RANKS_FROM: usize = 15;
/// Probability that an interval misses its target, both sides together.
pub const ERROR: f64 = 0.05;
/// Values above which the distribution of the signed-rank sum is approximated by a normal one.
const EXACT_UP_TO: usize = 100;

/// The centre of a distribution, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Mean, or Hodges-Lehmann centre.
    pub centre: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Two-sided probability of values as far from zero as these, if their true centre were zero.
    pub p: f64,
}

impl Estimate {
    /// Estimates the centre of `values`; `None` when there are fewer than three.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        match values.len() {
            0..LEAST_VALUES => None,
            LEAST_VALUES..RANKS_FROM => Some(student(values)),
            _ => Some(signed_rank(values)),
        }
    }

    /// How many values would narrow the interval to `half_width` at the two-sided error probability `error`, if their
    /// spread stays what `count` values showed; `None` when it is more than `limit`.
    pub fn values_needed(&self, count: usize, half_width: f64, error: f64, limit: usize) -> Option<usize> {
        let spread = (self.high - self.low) / 2.0 * (count as f64).sqrt() / student_quantile(ERROR, count);
        let reach = |n: usize| student_quantile(error, n) * spread / (n as f64).sqrt();
        (LEAST_VALUES..=limit).find(|n| reach(*n) <= half_width)
    }
}

fn student(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    let centre = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance / n).sqrt();
    let reach = student_quantile(ERROR, values.len()) * error;
    let p = match (centre == 0.0, error == 0.0) {
        (true, _) => 1.0,
        (false, true) => 0.0,
        _ => 2.0 * student_distribution(values.len()).sf((centre / error).abs()),
    };
    Estimate { centre, low: centre - reach, high: centre + reach, p }
}

fn student_distribution(count: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, (count - 1) as f64).expect("two values or more leave a degree of freedom")
}

/// How many standard errors of `count` values a two-sided interval reaches on either side.
fn student_quantile(error: f64, count: usize) -> f64 {
    student_distribution(count).inverse_cdf(1.0 - error / 2.0)
}

fn signed_rank(values: &[f64]) -> Estimate {
    let averages = walsh_averages(values);
    let ranks = SignedRank::new(values.len());
    let rank = ranks.critical(ERROR / 2.0);
    let not_above = averages.partition_point(|average| *average <= 0.0);
    let not_below = averages.len() - averages.partition_point(|average| *average < 0.0);
    Estimate {
        centre: middle(&averages),
        low: averages[rank],
        high: averages[averages.len() - 1 - rank],
        p: (2.0 * ranks.at_most(not_above.min(not_below))).min(1.0),
    }
}

/// The averages of all pairs of values, each with itself included, in ascending order. The signed-rank sum of
/// `values - c` is the number of averages above c, so both centre and interval can be read off this list.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, first) in values.iter().enumerate() {
        averages.extend(values[index..].iter().map(|second| (first + second) / 2.0));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// The distribution of Wilcoxon's signed-rank sum when the centre is zero.
enum SignedRank {
    /// Cumulative probabilities of 0, 1, 2, ...
    Exact(Vec<f64>),
    Approximate(Normal),
}

impl SignedRank {
    fn new(count: usize) -> SignedRank {
        let highest = count * (count + 1) / 2;
        if count > EXACT_UP_TO {
            let (n, mean) = (count as f64, highest as f64 / 2.0);
            let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
            return SignedRank::Approximate(Normal::new(mean, deviation).expect("the deviation is positive"));
        }
        // Each rank counts or does not, with probability one half.
        let mut probabilities = vec![0.0; highest + 1];
        probabilities[0] = 1.0;
        for rank in 1..=count {
            for sum in (0..=highest).rev() {
                let with_rank = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
                probabilities[sum] = (probabilities[sum] + with_rank) / 2.0;
            }
        }
        let mut total = 0.0;
        let running = |probability: f64| {
            total += probability;
            total
        };
        SignedRank::Exact(probabilities.into_iter().map(running).collect())
    }

    /// Probability that the sum is `sum` or less.
    fn at_most(&self, sum: usize) -> f64 {
        match self {
            SignedRank::Exact(cumulative) => cumulative[sum],
            SignedRank::Approximate(normal) => normal.cdf(sum as f64 + 0.5),
        }
    }

    /// The largest sum whose cumulative probability is at most `probability`.
    fn critical(&self, probability: f64) -> usize {
        match self {
            SignedRank::Exact(cumulative) => cumulative.partition_point(|p| *p <= probability) - 1,
            SignedRank::Approximate(normal) => (normal.inverse_cdf(probability) - 0.5).floor() as usize,
        }
    }
}

/// Corrects p-values for their number (Holm 1979): rejecting where the result is at most `a` makes one or more false
/// rejections with a probability of at most `a`, however the tests depend on each other.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut highest: f64 = 0.0;
    for (position, index) in order.into_iter().enumerate() {
        highest = highest.max(p_values[index] * (p_values.len() - position) as f64).min(1.0);
        corrected[index] = highest;
    }
    corrected
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| middle(&sorted))
}

/// The 95 % interval of the median from order statistics, which assumes no shape at all; `None` below 6 values, where
/// even the range of all of them misses the median too often.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // How many values may lie on one side of the median before that is surprising.
    let left_out = Binomial::new(0.5, n as u64).ok()?.inverse_cdf(ERROR / 2.0) as usize;
    let rank = left_out.checked_sub(1)?;
    Some((sorted[rank], sorted[n - 1 - rank]))
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(actual: f64, expected: f64) {
        assert!((actual - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{actual} is not {expected}");
    }

    /// Extra hours of sleep, second drug minus first (Student 1908); expected values from scipy.stats.ttest_1samp.
    #[test]
    fn students_sleep_data() {
        let hours = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let estimate = Estimate::of(&hours).unwrap();
        close(estimate.centre, 1.58);
        close(estimate.low, 0.7001142367230175);
        close(estimate.high, 2.459885763276983);
        close(estimate.p, 0.002832890197384273);
    }

    /// Height of cross- minus self-fertilised maize (Darwin 1876, eighths of an inch); expected values from
    /// scipy.stats.wilcoxon(method="exact") and, for the interval, R's wilcox.test (ranks 26 and 95 of the averages).
    #[test]
    fn darwins_maize() {
        let eighths = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        let estimate = Estimate::of(&eighths).unwrap();
        close(estimate.centre, 25.0);
        close(estimate.low, 4.0);
        close(estimate.high, 41.5);
        close(estimate.p, 0.041259765625);
    }

    /// Expected values from scipy: exact ranks for the interval, method="approx" with correction for p.
    #[test]
    fn many_values_use_the_normal_approximation() {
        let values: Vec<f64> = (0..120).map(|i| f64::from(i * 37 % 120 - 50) / 10.0 + 0.03).collect();
        let estimate = Estimate::of(&values).unwrap();
        assert!((estimate.centre - 0.98).abs() < 1e-9);
        assert!((estimate.low - 0.33).abs() <= 0.051, "{estimate:?}");
        assert!((estimate.high - 1.63).abs() <= 0.051, "{estimate:?}");
        assert!((estimate.p - 0.004697617628806772).abs() < 1e-4, "{estimate:?}");
    }

    #[test]
    fn interval_and_p_value_agree() {
        for count in [3, 7, 14, 15, 16, 40, 150] {
            for shift in 0..400 {
                let wave = |i: usize| (((i + 1) * 7919 % 1009) as f64 / 500.0 - 1.0) + f64::from(shift) / 211.0;
                let values: Vec<f64> = (0..count).map(wave).collect();
                let estimate = Estimate::of(&values).unwrap();
                assert_eq!(estimate.low > 0.0 || estimate.high < 0.0, estimate.p <= ERROR, "{count} {estimate:?}");
                assert!(estimate.low <= estimate.centre && estimate.centre <= estimate.high, "{count} {estimate:?}");
            }
        }
    }

    #[test]
    fn values_without_spread_or_number() {
        assert_eq!(Estimate::of(&[0.1, 0.2]), None);
        let same = Estimate::of(&[0.1; 4]).unwrap();
        assert!(same.p < 1e-9 && same.high - same.low < 1e-9, "{same:?}");
        assert_eq!(Estimate::of(&[0.0; 4]).unwrap().p, 1.0);
        assert_eq!(Estimate::of(&[0.0; 20]).unwrap().p, 1.0);
        let outlier: Vec<f64> = (0..20).map(|i| if i == 3 { 9.0 } else { f64::from(i % 5) / 100.0 }).collect();
        assert!(Estimate::of(&outlier).unwrap().high < 0.04, "one spoilt round hardly moves the interval");
    }

    /// Holm's procedure by hand, and R's p.adjust(c(.01, .04, .03, .005), "holm").
    #[test]
    fn correction_for_many_comparisons() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (actual, expected) in corrected.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            close(actual, expected);
        }
        assert!(holm(&[]).is_empty());
    }

    /// Ranks from R: qbinom(0.025, n, 0.5) is 1 for 6 to 8 values, 2 for 9, 4 for 15.
    #[test]
    fn medians_and_their_intervals() {
        let count = |n: u32| (1..=n).map(f64::from).collect::<Vec<f64>>();
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&count(5)), None);
        assert_eq!(median_interval(&count(7)), Some((1.0, 7.0)));
        assert_eq!(median_interval(&count(9)), Some((2.0, 8.0)));
        assert_eq!(median_interval(&count(15)), Some((4.0, 12.0)));
        assert!(median_interval(&count(5000)).is_some_and(|(low, high)| low > 2400.0 && high < 2600.0));
    }

    /// n = (z s / w)^2 rounds for large n: a spread of 4 % and a half-width of 1 % need (1.96 * 4)^2 = 61.5, and t adds
    /// about two (Beal 1989).
    #[test]
    fn rounds_to_go() {
        let values: Vec<f64> = (0..10).map(|i| if i % 2 == 0 { 0.04 } else { -0.04 }).collect();
        let estimate = Estimate::of(&values).unwrap();
        let spread = 0.04 * (10.0_f64 / 9.0).sqrt();
        let expected = (1.96 * spread / 0.01_f64).powi(2) + 2.0;
        let needed = estimate.values_needed(10, 0.01, ERROR, 1000).unwrap();
        assert!((needed as f64 - expected).abs() <= 1.0, "{needed} is not about {expected}");
        assert_eq!(estimate.values_needed(10, 0.01, ERROR, 50), None);
    }
}
