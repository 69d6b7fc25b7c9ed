use crate::rounds::Rounds;
use crate::statistics::{ERROR, Estimate, LEAST_VALUES, holm};
use crate::summary::{Answer, Comparison, Plan};
use crate::{RESOLUTION, entrants};

/// Rounds beyond which an estimate of the rounds needed helps nobody.
const MOST_ROUNDS: usize = 1000;

/// Compares every entrant with the baseline on every link. The answers are corrected for their number.
pub(crate) fn comparisons(plan: &Plan, rounds: &Rounds) -> Vec<Comparison> {
    let baseline = entrants::baseline(&plan.entrants);
    let others = (0..plan.entrants.len()).filter(|entrant| *entrant != baseline);
    let pairs: Vec<Pair> = plan
        .links
        .iter()
        .flat_map(|link| others.clone().map(move |entrant| (link.name.as_str(), entrant)))
        .map(|(link, entrant)| Pair::new(link, entrant, rounds.log_ratios(link, entrant, baseline)))
        .collect();
    // A pair without an estimate stays in the family: how strict the others are must not depend on failures.
    let p_values: Vec<f64> = pairs.iter().map(|pair| pair.estimate.map_or(1.0, |estimate| estimate.p)).collect();
    let labels = entrants::labels(&plan.entrants);
    pairs
        .iter()
        .zip(holm(&p_values))
        .map(|(pair, corrected)| {
            let answer = pair.estimate.map_or(Answer::CannotTell, |known| judge(&known, corrected, plan.practical));
            Comparison {
                link: pair.link.to_owned(),
                protocol: plan.entrants[pair.entrant],
                label: labels[pair.entrant].clone(),
                entrant: pair.entrant,
                baseline: plan.entrants[baseline],
                metric: plan.metric.clone(),
                ratio: pair.centre().map(f64::exp),
                low: pair.estimate.map(|estimate| estimate.low.exp()),
                high: pair.estimate.map(|estimate| estimate.high.exp()),
                answer,
                rounds: pair.log_ratios.len() as u32,
                rounds_needed: match answer {
                    Answer::CannotTell => pair.rounds_needed(plan.practical),
                    _ => None,
                },
            }
        })
        .collect()
}

/// An entrant beside the baseline on one link.
struct Pair<'a> {
    link: &'a str,
    entrant: usize,
    log_ratios: Vec<f64>,
    estimate: Option<Estimate>,
}

impl<'a> Pair<'a> {
    fn new(link: &'a str, entrant: usize, log_ratios: Vec<f64>) -> Pair<'a> {
        let estimate = Estimate::of(&log_ratios);
        Pair { link, entrant, log_ratios, estimate }
    }

    /// The centre of the log ratios; of too few for an estimate, their mean.
    fn centre(&self) -> Option<f64> {
        let mean = || self.log_ratios.iter().sum::<f64>() / self.log_ratios.len() as f64;
        self.estimate.map(|estimate| estimate.centre).or_else(|| (!self.log_ratios.is_empty()).then(mean))
    }

    /// Estimates the rounds that would probably settle the comparison.
    ///
    /// An effect of practical size needs an interval of half its width, so that it stands clear of 1 after correction,
    /// but never one narrower than the practical size. A smaller effect needs an interval inside the resolution.
    fn rounds_needed(&self, practical: f64) -> Option<u32> {
        let Some(estimate) = self.estimate else { return Some(LEAST_VALUES as u32) };
        let (effect, size) = (estimate.centre.abs(), practical.ln_1p());
        let half_width =
            if effect >= size { size.max(effect / 2.0) } else { RESOLUTION.max(practical).ln_1p() - effect };
        let rounds = self.log_ratios.len();
        let needed = estimate.values_needed(rounds, half_width, ERROR, MOST_ROUNDS)?;
        u32::try_from(needed.max(rounds + 1)).ok()
    }
}

/// The answer that an estimate of a log ratio supports; `corrected` is its p-value, corrected for all comparisons.
///
/// - `faster`, `slower`: the difference is established in spite of the number of comparisons, and of practical size.
/// - `no difference`: the interval excludes everything beyond [`RESOLUTION`], and either the estimate is below the
///   practical size, or it is below twice that size and the interval contains 1.
/// - `cannot tell`: neither.
pub(crate) fn judge(estimate: &Estimate, corrected: f64, practical: f64) -> Answer {
    let size = practical.ln_1p();
    let effect = estimate.centre.abs();
    if corrected <= ERROR && effect >= size {
        return if estimate.centre < 0.0 { Answer::Faster } else { Answer::Slower };
    }
    let limit = RESOLUTION.max(practical).ln_1p();
    let is_narrow = estimate.low > -limit && estimate.high < limit;
    let is_near = effect < size || (effect < 2.0 * size && estimate.p > ERROR);
    if is_narrow && is_near { Answer::NoDifference } else { Answer::CannotTell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_judged(low: f64, high: f64, p: f64, corrected: f64, expected: Answer) {
        let (low, high) = (low.ln(), high.ln());
        let estimate = Estimate { centre: (low + high) / 2.0, low, high, p };
        assert_eq!(judge(&estimate, corrected, 0.03), expected);
        // Exchanging the entrants exchanges faster and slower and nothing else.
        let exchanged = Estimate { centre: -estimate.centre, low: -high, high: -low, p };
        let expected = match expected {
            Answer::Faster => Answer::Slower,
            Answer::Slower => Answer::Faster,
            other => other,
        };
        assert_eq!(judge(&exchanged, corrected, 0.03), expected);
    }

    #[test]
    fn a_difference_must_be_established_and_matter() {
        assert_judged(0.84, 0.91, 0.001, 0.006, Answer::Faster);
        assert_judged(0.97, 0.99, 0.001, 0.006, Answer::NoDifference);
        // Established alone, but not among so many comparisons: neither answer would be honest.
        assert_judged(1.01, 1.12, 0.02, 0.12, Answer::CannotTell);
    }

    #[test]
    fn no_difference_must_exclude_a_large_one() {
        assert_judged(0.96, 1.05, 0.8, 1.0, Answer::NoDifference);
        assert_judged(0.85, 1.19, 0.9, 1.0, Answer::NoDifference);
        assert_judged(0.85, 1.21, 0.9, 1.0, Answer::CannotTell);
        // The estimate itself is more than twice the practical size.
        assert_judged(0.98, 1.18, 0.1, 0.6, Answer::CannotTell);
    }

    #[test]
    fn without_a_practical_size_nothing_is_too_small_to_matter() {
        let estimate = Estimate { centre: 0.001, low: 0.0005, high: 0.0015, p: 0.001 };
        assert_eq!(judge(&estimate, 0.006, 0.0), Answer::Slower);
    }
}
