use std::str::FromStr;
use std::time::Duration;

use measure::units::{format_duration, format_share, parse_duration};
use measure::{Histogram, LoadSummary};

/// A condition that a run has to meet, such as `p99<200ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// As it was given.
    text: String,
    metric: Metric,
    operator: Operator,
    /// In the unit of the metric.
    limit: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// A figure of a distribution of times, in microseconds.
    Time(Phase, Figure),
    /// Failed requests, in number.
    Errors,
    /// Failed requests of those that ended, a share.
    ErrorShare,
    /// Requests that were due and never sent, in number.
    Dropped,
    /// The same, a share of those that were due.
    DroppedShare,
    /// Answered requests per second.
    Rate,
}

/// Which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Of the whole request; in an open loop since it was due.
    Request,
    /// From sending to the first byte.
    FirstByte,
    /// For making a connection.
    Connect,
}

/// Which figure of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    Min,
    Mean,
    Max,
    /// 0 to 100.
    Percentile(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    AtMost,
    More,
    AtLeast,
}

/// How the thresholds fared, and whether the run is a success.
pub struct Verdict<'a> {
    pub judgements: Vec<Judgement<'a>>,
    /// Why requests failed, where that is a failure.
    pub failed_requests: Option<String>,
}

/// One threshold and what was measured.
pub struct Judgement<'a> {
    threshold: &'a Threshold,
    /// `None` when nothing was measured, which meets no threshold.
    value: Option<f64>,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let bad = |what: String| format!("'{text}' is not a threshold: {what}");
        let split = text.find(['<', '>']).ok_or_else(|| bad("expected a comparison such as 'p99<200ms'".to_owned()))?;
        let (name, rest) = text.split_at(split);
        let (operator, limit) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Operator::AtMost, &rest[2..]),
            [b'>', b'=', ..] => (Operator::AtLeast, &rest[2..]),
            [b'<', ..] => (Operator::Less, &rest[1..]),
            _ => (Operator::More, &rest[1..]),
        };
        let (metric, limit) = read(name.trim(), limit.trim()).map_err(bad)?;
        Ok(Threshold { text: text.to_owned(), metric, operator, limit })
    }
}

/// A metric and its limit, whose form depends on the metric.
fn read(name: &str, limit: &str) -> Result<(Metric, f64), String> {
    let share = limit.strip_suffix('%').map(str::trim_end);
    let number = |text: &str, expected: &str| match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("'{limit}' is not {expected}")),
    };
    const COUNT: &str = "a whole number or a share such as 1%";
    match (name, share) {
        ("errors" | "dropped", Some(share)) => {
            let metric = if name == "errors" { Metric::ErrorShare } else { Metric::DroppedShare };
            Ok((metric, number(share, COUNT)? / 100.0))
        }
        ("errors" | "dropped", None) => {
            let metric = if name == "errors" { Metric::Errors } else { Metric::Dropped };
            let count: u64 = limit.parse().map_err(|_| format!("'{limit}' is not {COUNT}"))?;
            Ok((metric, count as f64))
        }
        ("rate", _) => {
            let per_second = limit.strip_suffix("/s").unwrap_or(limit);
            Ok((Metric::Rate, number(per_second.trim_end(), "a number of requests per second")?))
        }
        _ => {
            let (phase, figure) = read_time(name)?;
            let bare = limit.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let limit = match parse_duration(limit) {
                Ok(limit) if !bare => limit,
                _ => return Err(format!("'{limit}' is not a time with its unit, such as 200ms or 1.5s")),
            };
            Ok((Metric::Time(phase, figure), limit.as_nanos() as f64 / 1e3))
        }
    }
}

fn read_time(name: &str) -> Result<(Phase, Figure), String> {
    let unknown = || {
        format!(
            "'{name}' is not known; metrics are p50 to p99.99, min, mean, max, each also after first_byte_ or connect_, and \
             errors, dropped, rate"
        )
    };
    let (phase, figure) = match (name.strip_prefix("first_byte_"), name.strip_prefix("connect_")) {
        (Some(figure), _) => (Phase::FirstByte, figure),
        (_, Some(figure)) => (Phase::Connect, figure),
        _ => (Phase::Request, name),
    };
    let figure = match figure {
        "min" => Figure::Min,
        "mean" | "avg" => Figure::Mean,
        "med" => Figure::Percentile(50.0),
        "max" => Figure::Max,
        _ => {
            let percentile = figure.strip_prefix('p').ok_or_else(unknown)?;
            let percentile = percentile.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(percentile);
            let percentile: f64 = percentile.parse().map_err(|_| unknown())?;
            if !(0.0..=100.0).contains(&percentile) {
                return Err(format!("percentiles go from p0 to p100, so '{figure}' is none; did you mean p99.9?"));
            }
            Figure::Percentile(percentile)
        }
    };
    Ok((phase, figure))
}

impl Metric {
    fn of(self, summary: &LoadSummary) -> Option<f64> {
        let requests = &summary.requests;
        let share = |part: u64, rest: u64| (part + rest > 0).then(|| part as f64 / (part + rest) as f64);
        match self {
            Metric::Time(phase, figure) => figure.of(match phase {
                Phase::Request => summary.experienced_latency(),
                Phase::FirstByte => &summary.first_byte_us,
                Phase::Connect => &summary.connect_us,
            }),
            Metric::Errors => Some(requests.failed as f64),
            Metric::ErrorShare => share(requests.failed, requests.succeeded),
            Metric::Dropped => Some(requests.dropped as f64),
            Metric::DroppedShare => share(requests.dropped, requests.started),
            Metric::Rate => Some(summary.requests_per_second),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Metric::Time(..) => format_duration(Duration::from_nanos((value * 1e3) as u64)),
            Metric::ErrorShare | Metric::DroppedShare => format_share(value),
            Metric::Errors | Metric::Dropped => format!("{value:.0}"),
            Metric::Rate => format!("{value:.1}/s"),
        }
    }

    fn is_about_errors(self) -> bool {
        matches!(self, Metric::Errors | Metric::ErrorShare)
    }
}

impl Figure {
    fn of(self, times: &Histogram) -> Option<f64> {
        match self {
            Figure::Percentile(percentile) => times.quantile_us(percentile / 100.0).map(|value| value as f64),
            Figure::Min => times.spread().map(|spread| spread.min as f64),
            Figure::Mean => times.spread().map(|spread| spread.mean),
            Figure::Max => times.spread().map(|spread| spread.max as f64),
        }
    }
}

impl Judgement<'_> {
    /// The threshold as it was given.
    pub fn text(&self) -> &str {
        &self.threshold.text
    }

    pub fn metric(&self) -> Metric {
        self.threshold.metric
    }

    pub fn holds(&self) -> bool {
        let limit = self.threshold.limit;
        self.value.is_some_and(|value| match self.threshold.operator {
            Operator::Less => value < limit,
            Operator::AtMost => value <= limit,
            Operator::More => value > limit,
            Operator::AtLeast => value >= limit,
        })
    }

    /// What was measured.
    pub fn measured(&self) -> String {
        self.value.map_or_else(|| "nothing was measured".to_owned(), |value| self.threshold.metric.show(value))
    }
}

impl<'a> Verdict<'a> {
    /// Holds a run against thresholds. One on errors decides instead of the rule that no request may fail.
    pub fn new(thresholds: &'a [Threshold], summary: &LoadSummary) -> Verdict<'a> {
        let judge = |threshold: &'a Threshold| Judgement { threshold, value: threshold.metric.of(summary) };
        let decided = thresholds.iter().any(|threshold| threshold.metric.is_about_errors());
        Verdict {
            judgements: thresholds.iter().map(judge).collect(),
            failed_requests: most_frequent_error(summary).filter(|_| !decided),
        }
    }

    /// Why the answer is no; `None` if it is yes.
    pub fn failure(&self) -> Option<String> {
        let missed = self.judgements.iter().filter(|judgement| !judgement.holds());
        let missed = missed.map(|judgement| format!("{} was missed: {}", judgement.text(), judgement.measured()));
        let reasons: Vec<String> = missed.chain(self.failed_requests.clone()).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// A line per threshold.
    pub fn lines(&self, colour: bool) -> String {
        let line = |judgement: &Judgement<'_>| {
            let (sign, code) = if judgement.holds() { ("✓", "32") } else { ("✗", "31") };
            let sign = if colour { format!("\x1b[{code}m{sign}\x1b[0m") } else { sign.to_owned() };
            format!("{sign} {}: {}\n", judgement.text(), judgement.measured())
        };
        self.judgements.iter().map(line).collect()
    }
}

/// On one line, why requests or page loads failed; `None` when none did. The summary has all the reasons.
fn most_frequent_error(summary: &LoadSummary) -> Option<String> {
    // Of equals the last wins, so the first in the order of the summary comes last here.
    let (reason, count) = summary.errors.iter().rev().max_by_key(|(_, count)| **count)?;
    let others = if summary.errors.len() > 1 { "; the summary has more reasons" } else { "" };
    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
    Some(format!("{reason}{times}{others}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Threshold {
        text.parse().unwrap_or_else(|message| panic!("{message}"))
    }

    fn judged(text: &str, value: Option<f64>) -> bool {
        let threshold = parsed(text);
        Judgement { threshold: &threshold, value }.holds()
    }

    #[test]
    fn reads_metrics_operators_and_limits() {
        let time = |phase, figure| Metric::Time(phase, figure);
        for (text, metric, operator, limit) in [
            ("p99<200ms", time(Phase::Request, Figure::Percentile(99.0)), Operator::Less, 200e3),
            ("p(95) <= 1.5s", time(Phase::Request, Figure::Percentile(95.0)), Operator::AtMost, 1.5e6),
            ("p99.99<500us", time(Phase::Request, Figure::Percentile(99.99)), Operator::Less, 500.0),
            ("med<1ms", time(Phase::Request, Figure::Percentile(50.0)), Operator::Less, 1e3),
            ("avg<1ms", time(Phase::Request, Figure::Mean), Operator::Less, 1e3),
            ("min>1ms", time(Phase::Request, Figure::Min), Operator::More, 1e3),
            ("first_byte_p90<1ms", time(Phase::FirstByte, Figure::Percentile(90.0)), Operator::Less, 1e3),
            ("connect_max<1m", time(Phase::Connect, Figure::Max), Operator::Less, 60e6),
            ("errors<1%", Metric::ErrorShare, Operator::Less, 0.01),
            ("errors<=0", Metric::Errors, Operator::AtMost, 0.0),
            ("dropped<0.5 %", Metric::DroppedShare, Operator::Less, 0.005),
            ("dropped<=0", Metric::Dropped, Operator::AtMost, 0.0),
            ("rate>1000", Metric::Rate, Operator::More, 1000.0),
            ("rate>=99.5/s", Metric::Rate, Operator::AtLeast, 99.5),
        ] {
            assert_eq!(parsed(text), Threshold { text: text.to_owned(), metric, operator, limit });
        }
    }

    #[test]
    fn says_what_it_cannot_read() {
        for (text, part) in [
            ("p99", "comparison"),
            ("<5ms", "p50 to p99.99"),
            ("p99<", "with its unit"),
            ("p99<5", "with its unit"),
            ("p101<5ms", "percentiles go"),
            ("pfoo<5ms", "p50 to p99.99"),
            ("queue_p99<5ms", "p50 to p99.99"),
            ("errors<0.01", "1%"),
            ("errors<-1%", "1%"),
            ("rate>fast", "requests per second"),
        ] {
            let message = text.parse::<Threshold>().unwrap_err();
            assert!(message.contains(part) && message.contains(text), "{message}");
        }
    }

    #[test]
    fn operators_differ_at_the_limit_and_nothing_measured_meets_none() {
        let at = Some(1000.0);
        assert_eq!([judged("max<1ms", at), judged("max<=1ms", at)], [false, true]);
        assert_eq!([judged("max>1ms", at), judged("max>=1ms", at)], [false, true]);
        assert_eq!([judged("max<1ms", Some(999.0)), judged("max>1ms", Some(1001.0))], [true, true]);
        assert_eq!([judged("max<1ms", None), judged("max>1ms", None)], [false, false]);
    }
}
