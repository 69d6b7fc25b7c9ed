//! Ratios as people read them. Every rounding of a ratio, in sentences and in tables, is decided here.

use crate::summary::Comparison;

/// A ratio with the digits that its interval deserves: `0.87x`, `1.004x`.
pub fn ratio(comparison: &Comparison) -> Option<String> {
    let decimals = decimals(comparison);
    comparison.ratio.map(|ratio| format!("{ratio:.decimals$}x"))
}

/// The 95 % interval of a ratio: `0.84–0.91`.
pub fn interval(comparison: &Comparison) -> Option<String> {
    let decimals = decimals(comparison);
    let (low, high) = comparison.low.zip(comparison.high)?;
    Some(format!("{low:.decimals$}–{high:.decimals$}"))
}

/// The difference that an interval rules out, the same in both directions, rounded up: `4 %`.
pub fn ruled_out(comparison: &Comparison) -> Option<String> {
    let (low, high) = comparison.low.zip(comparison.high)?;
    let share = high.max(1.0 / low) - 1.0;
    let step = if share < 0.03 { 0.001 } else { 0.01 };
    Some(percent((share / step - 1e-6).ceil() * step, if share < 0.03 { 1 } else { 0 }))
}

/// A ratio as a difference of time: `13 % less time than HTTP/1.1 (9–16 %)`.
pub(crate) fn difference(comparison: &Comparison, baseline: &str) -> Option<String> {
    let (ratio, (low, high)) = comparison.ratio.zip(comparison.low.zip(comparison.high))?;
    if ratio >= 2.0 {
        return Some(format!("{ratio:.1} times the time of {baseline} ({low:.1}–{high:.1})"));
    }
    let (word, centre, from, to) = if ratio < 1.0 {
        ("less", 1.0 - ratio, 1.0 - high, 1.0 - low)
    } else {
        ("more", ratio - 1.0, low - 1.0, high - 1.0)
    };
    let digits = usize::from(to - from < 0.03 || centre < 0.01);
    let (centre, to) = (percent(centre, digits), percent(to, digits));
    Some(format!("{centre} {word} time than {baseline} ({:.digits$}–{to})", from * 100.0))
}

/// A share as `3 %`.
pub(crate) fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$} %", share * 100.0)
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn decimals(comparison: &Comparison) -> usize {
    let width = comparison.low.zip(comparison.high).map_or(1.0, |(low, high)| high - low);
    if width < 0.02 { 3 } else { 2 }
}

#[cfg(test)]
mod tests {
    use measure::Protocol;

    use super::*;
    use crate::summary::Answer;

    fn comparison(ratio: f64, low: f64, high: f64) -> Comparison {
        Comparison {
            link: "lte".to_owned(),
            protocol: Protocol::H3,
            label: "h3".to_owned(),
            entrant: 1,
            baseline: Protocol::H1,
            metric: "page load time".to_owned(),
            ratio: Some(ratio),
            low: Some(low),
            high: Some(high),
            answer: Answer::CannotTell,
            rounds: 7,
            rounds_needed: None,
        }
    }

    #[test]
    fn differences_read_in_the_right_direction() {
        let words = |ratio, low, high| difference(&comparison(ratio, low, high), "HTTP/1.1").unwrap();
        assert_eq!(words(0.87, 0.84, 0.91), "13 % less time than HTTP/1.1 (9–16 %)");
        assert_eq!(words(1.15, 1.09, 1.22), "15 % more time than HTTP/1.1 (9–22 %)");
        assert_eq!(words(0.927, 0.923, 0.930), "7.3 % less time than HTTP/1.1 (7.0–7.7 %)");
        assert_eq!(words(2.31, 2.1, 2.54), "2.3 times the time of HTTP/1.1 (2.1–2.5)");
    }

    #[test]
    fn what_is_ruled_out_is_rounded_up() {
        let words = |low, high| ruled_out(&comparison(1.0, low, high)).unwrap();
        assert_eq!(words(0.97, 1.04), "4 %");
        assert_eq!(words(0.97, 1.041), "5 %");
        assert_eq!(words(0.90, 1.04), "12 %", "10 % less is the same as 11.1 % more, seen from the other side");
        assert_eq!(words(0.995, 1.0121), "1.3 %");
    }

    #[test]
    fn digits_follow_the_interval() {
        assert_eq!(ratio(&comparison(0.8712, 0.84, 0.91)).unwrap(), "0.87x");
        assert_eq!(interval(&comparison(1.0, 0.998, 1.0039)).unwrap(), "0.998–1.004");
    }

    #[test]
    fn lists_end_with_and() {
        assert_eq!(list(&["h1", "h2", "h3"]), "h1, h2 and h3");
        assert_eq!(list(&["h1"]), "h1");
    }
}
