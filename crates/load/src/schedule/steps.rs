use std::time::Duration;

use crate::plan::Stage;

/// A level that goes in straight lines from stage to stage, starting at 0, as the times at which its rounded value
/// changes: after each offset the level is as given.
pub(crate) fn steps(stages: &[Stage]) -> Vec<(Duration, u32)> {
    let mut steps = Vec::new();
    let (mut start_s, mut from) = (0.0, 0.0_f64);
    for stage in stages {
        let length_s = stage.length.as_secs_f64();
        let (low, high) = (from.round() as u32, stage.level.round() as u32);
        let slope = (stage.level - from) / length_s;
        // Half-way between two whole numbers the rounded level changes.
        let mut change = |level: u32, edge: f64| {
            let offset = if length_s > 0.0 { ((edge - from) / slope).clamp(0.0, length_s) } else { 0.0 };
            steps.push((Duration::from_secs_f64(start_s + offset), level));
        };
        if high > low {
            (low + 1..=high).for_each(|level| change(level, f64::from(level) - 0.5));
        } else {
            (high..low).rev().for_each(|level| change(level, f64::from(level) + 0.5));
        }
        start_s += length_s;
        from = stage.level;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_changes_by_one_at_a_time() {
        let stage = |length_ms, level| Stage { length: Duration::from_millis(length_ms), level };
        let steps = steps(&[stage(0, 2.0), stage(1000, 2.0), stage(2000, 4.0), stage(1000, 3.0)]);
        let in_ms: Vec<(u128, u32)> = steps.iter().map(|(at, level)| (at.as_millis(), *level)).collect();
        assert_eq!(in_ms, [(0, 1), (0, 2), (1500, 3), (2500, 4), (3500, 3)]);
    }
}
