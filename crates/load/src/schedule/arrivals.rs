use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::plan::{Arrivals, Stage};

/// When arrivals are due, as offsets from the start, in ascending order.
///
/// With the rate r(t) given by the stages, the expected number of arrivals until t is its integral R(t). Arrivals are at
/// R⁻¹ of 1/2, 3/2, 5/2, ...: at equal distances where the rate is constant. Those of a Poisson process are at R⁻¹ of
/// the sums of exponential variables with mean 1 (time change of a unit-rate process).
#[derive(Debug)]
pub(crate) struct ArrivalTimes {
    pieces: Vec<Piece>,
    /// Index of the piece that the latest arrival was in.
    piece: usize,
    /// Expected arrivals until the next one.
    next: f64,
    step: f64,
    random: Option<StdRng>,
}

/// A stage of positive length: the rate goes from `from` to `to` in a straight line.
#[derive(Debug)]
struct Piece {
    start_s: f64,
    length_s: f64,
    from: f64,
    to: f64,
    /// Expected arrivals before this piece, and in it.
    before: f64,
    within: f64,
}

impl ArrivalTimes {
    /// The arrivals of one worker of several that share them: uniform ones in turn, random ones each with its own stream
    /// of random numbers.
    pub(crate) fn new(stages: &[Stage], arrivals: Arrivals, seed: u64, part: u32, parts: u32) -> ArrivalTimes {
        let (mut start_s, mut before, mut from) = (0.0, 0.0, 0.0);
        let mut pieces = Vec::new();
        for stage in stages {
            let length_s = stage.length.as_secs_f64();
            if length_s > 0.0 {
                let within = (from + stage.level) / 2.0 * length_s;
                pieces.push(Piece { start_s, length_s, from, to: stage.level, before, within });
                start_s += length_s;
                before += within;
            }
            from = stage.level;
        }
        // A worker of several takes every n-th arrival, or makes a stream of its own with the n-th part of the rate:
        // both mean steps n times as long.
        let step = f64::from(parts);
        let mut random = (arrivals == Arrivals::Poisson)
            .then(|| StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part.into())));
        let next = match &mut random {
            Some(random) => exponential(random) * step,
            None => f64::from(part) + 0.5,
        };
        ArrivalTimes { pieces, piece: 0, next, step, random }
    }

    /// The next arrival; `None` after the last.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        while self.pieces.get(self.piece).is_some_and(|piece| self.next >= piece.before + piece.within) {
            self.piece += 1;
        }
        let at = self.pieces.get(self.piece)?.when(self.next);
        self.next += match &mut self.random {
            Some(random) => exponential(random) * self.step,
            None => self.step,
        };
        Some(Duration::from_secs_f64(at))
    }
}

impl Piece {
    /// The time at which the expected number of arrivals reaches `count`, which it does within this piece.
    fn when(&self, count: f64) -> f64 {
        let rest = count - self.before;
        // rest = from t + slope t² / 2, solved in the form that loses no digits when the slope is small or 0.
        let slope = (self.to - self.from) / self.length_s;
        let root = (self.from * self.from + 2.0 * slope * rest).max(0.0).sqrt();
        let divisor = self.from + root;
        // Only at the very start of a climb from 0 nothing can be divided by.
        let after = if divisor > 0.0 { (2.0 * rest / divisor).min(self.length_s) } else { 0.0 };
        self.start_s + after
    }
}

/// Exponentially distributed with mean 1.
fn exponential(random: &mut StdRng) -> f64 {
    -(1.0 - random.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(length_s: f64, level: f64) -> Stage {
        Stage { length: Duration::from_secs_f64(length_s), level }
    }

    fn times(stages: &[Stage], arrivals: Arrivals, part: u32, parts: u32) -> Vec<f64> {
        let mut times = ArrivalTimes::new(stages, arrivals, 7, part, parts);
        std::iter::from_fn(|| times.next()).map(|time| time.as_secs_f64()).collect()
    }

    #[test]
    fn a_constant_rate_has_equal_distances() {
        let stages = [stage(0.0, 100.0), stage(2.0, 100.0)];
        let times = times(&stages, Arrivals::Uniform, 0, 1);
        assert_eq!(times.len(), 200);
        for (index, time) in times.iter().enumerate() {
            assert!((time - (index as f64 + 0.5) / 100.0).abs() < 1e-6);
        }
    }

    #[test]
    fn a_ramp_follows_the_integral_of_its_rate() {
        // From 0 to 100 per second in 10 s, then down to 0 in 5 s: 500 and 250 arrivals.
        let stages = [stage(10.0, 100.0), stage(5.0, 0.0)];
        let times = times(&stages, Arrivals::Uniform, 0, 1);
        assert_eq!(times.len(), 750);
        assert!(times.is_sorted());
        for second in 1..=10 {
            let expected = 5.0 * f64::from(second * second);
            let before = times.iter().filter(|time| **time < f64::from(second)).count() as f64;
            assert!((before - expected).abs() <= 1.0, "{before} arrivals before {second} s");
        }
    }

    #[test]
    fn workers_share_the_arrivals_in_turn() {
        let stages = [stage(0.0, 30.0), stage(1.0, 30.0)];
        let mut shared: Vec<f64> = (0..3).flat_map(|part| times(&stages, Arrivals::Uniform, part, 3)).collect();
        shared.sort_by(f64::total_cmp);
        assert_eq!(shared, times(&stages, Arrivals::Uniform, 0, 1));
    }

    /// The distances of a Poisson process are exponential: mean 1/r, standard deviation 1/r, P(distance > mean) = 1/e.
    #[test]
    fn random_arrivals_are_exponential_and_repeat() {
        let stages = [stage(0.0, 1000.0), stage(50.0, 1000.0)];
        let times = times(&stages, Arrivals::Poisson, 1, 2);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let sd = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
        let above = gaps.iter().filter(|gap| **gap > mean).count() as f64 / count;
        assert!((mean / 0.002 - 1.0).abs() < 0.03, "mean {mean}");
        assert!((sd / mean - 1.0).abs() < 0.03, "sd {sd}");
        assert!((above - (-1.0_f64).exp()).abs() < 0.01, "{above}");
        assert_eq!(times, super::tests::times(&stages, Arrivals::Poisson, 1, 2));
        assert_ne!(times, super::tests::times(&stages, Arrivals::Poisson, 0, 2));
    }

    #[test]
    fn an_arrival_at_the_turn_of_the_rate_is_not_delayed() {
        // 2.5 arrivals until the rate is 0: the third is due at that moment.
        let stages = [stage(0.0, 5.0), stage(1.0, 0.0), stage(2.0, 100.0)];
        let times = times(&stages, Arrivals::Uniform, 0, 1);
        assert_eq!(times.len(), 102);
        assert!(times.is_sorted() && (times[2] - 1.0).abs() < 1e-6, "{:?}", &times[..5]);
    }

    #[test]
    fn stages_without_arrivals_are_skipped() {
        let stages = [stage(1.0, 0.0), stage(0.0, 10.0), stage(1.0, 10.0), stage(0.0, 0.0), stage(5.0, 0.0)];
        let times = times(&stages, Arrivals::Uniform, 0, 1);
        assert_eq!(times.len(), 10);
        assert!(times.iter().all(|time| (1.0..2.0).contains(time)));
        assert_eq!(Stage::total_length(&stages), Duration::from_secs(7));
    }
}
