use std::time::Duration;

use analysis::{Condition, Summary};
use measure::units;

/// What stands where nothing is known.
pub(crate) const ABSENT: &str = "-";

/// What was raced and how often, in one line.
pub(crate) fn facts(summary: &Summary) -> String {
    let plan = &summary.plan;
    let rounds = match summary.rounds_done {
        done if done < plan.rounds => format!("{done} of {} rounds", plan.rounds),
        1 => "1 round".to_owned(),
        done => format!("{done} rounds"),
    };
    let transport = transport(summary);
    format!("{} · {} · {} · {transport} · {rounds} · seed {}", plan.metric, plan.workload, plan.origin, plan.seed)
}

/// Congestion control and initial window, where they are the same everywhere.
fn transport(summary: &Summary) -> String {
    // A condition without a valid trial has none and says nothing.
    let measured = || summary.conditions.iter().filter(|condition| condition.trials > 0);
    let same = |texts: Vec<String>| texts.first().filter(|first| texts.iter().all(|text| text == *first)).cloned();
    let control = same(measured().map(|condition| ends(&condition.congestion_control)).collect());
    let window = same(measured().map(|condition| ends(&condition.initial_window)).collect());
    match (control, window) {
        (Some(control), Some(window)) => format!("{}, initial window {window}", control.to_uppercase()),
        _ if measured().next().is_none() => "congestion control unknown".to_owned(),
        _ => "congestion control differs".to_owned(),
    }
}

/// A time in milliseconds with three significant digits: `3.41 s`.
pub(crate) fn time(ms: f64) -> String {
    units::format_duration(Duration::from_secs_f64(ms / 1000.0))
}

/// The interval of a median in the unit and with the digits of the median: `3.30–3.62`.
pub(crate) fn time_interval(condition: &Condition) -> Option<String> {
    let (low, high) = condition.low_ms.zip(condition.high_ms)?;
    let median = time(condition.median_ms?);
    let (number, unit) = median.split_once(' ')?;
    let unit_ms = match unit {
        "s" => 1000.0,
        "ms" => 1.0,
        "us" => 0.001,
        _ => return Some(format!("{}–{}", time(low), time(high))),
    };
    let decimals = number.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    Some(format!("{:.decimals$}–{:.decimals$}", low / unit_ms, high / unit_ms))
}

/// A median of counts, which may lie half-way between two: `6`, `13.5`.
pub(crate) fn count(value: Option<f64>) -> String {
    value.map_or(ABSENT.to_owned(), |value| value.to_string())
}

/// CPU time of client and origin: `31/22 ms`.
pub(crate) fn cpu(condition: &Condition) -> String {
    let part = |ms: Option<f64>| ms.map_or(ABSENT.to_owned(), |ms| format!("{ms:.0}"));
    match (condition.client_cpu_ms, condition.origin_cpu_ms) {
        (None, None) => ABSENT.to_owned(),
        (client, origin) => format!("{}/{} ms", part(client), part(origin)),
    }
}

/// What one end or both use: `cubic`, or `cubic / bbr` where client and origin differ.
pub(crate) fn ends<T: ToString + PartialEq>(ends: &analysis::Ends<T>) -> String {
    let text = |value: &Option<T>| value.as_ref().map_or("unknown".to_owned(), T::to_string);
    if ends.client == ends.origin {
        text(&ends.client)
    } else {
        format!("{} / {}", text(&ends.client), text(&ends.origin))
    }
}
