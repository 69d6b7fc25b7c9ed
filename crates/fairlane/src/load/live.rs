use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use load::{Amount, Model, Plan, Progress};
use measure::Interval;
use measure::units::format_duration;

use crate::output::say;

/// How a run is going, on standard error: on a terminal one line that changes, elsewhere a line every ten seconds.
pub struct Live {
    view: View,
    goal: Goal,
    latest: Option<Interval>,
}

enum View {
    Hidden,
    Bar(ProgressBar),
    /// When the next line is due.
    Lines(Duration),
}

/// What the bar is full at.
enum Goal {
    Time(Duration),
    Requests(u64),
    /// The objects of a page are not known beforehand.
    Unknown,
}

/// Length of the bar in its own units.
const STEPS: u64 = 1000;
/// Between the lines where standard error is no terminal.
const PERIOD: Duration = Duration::from_secs(10);

impl Live {
    pub fn new(plan: &Plan, is_terminal: bool) -> Live {
        let goal = match plan.amount {
            _ if plan.model == Model::Pages => Goal::Unknown,
            Amount::Requests(requests) => Goal::Requests(requests),
            Amount::Duration(length) => Goal::Time(plan.warm_up + length),
        };
        if !is_terminal {
            return Live { view: View::Lines(PERIOD), goal, latest: None };
        }
        let template = if matches!(goal, Goal::Unknown) { "{wide_msg}" } else { "{bar:12} {wide_msg}" };
        let style = ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("█▉░");
        Live { view: View::Bar(ProgressBar::new(STEPS).with_style(style)), goal, latest: None }
    }

    /// Shows nothing.
    pub fn hidden() -> Live {
        Live { view: View::Hidden, goal: Goal::Unknown, latest: None }
    }

    pub fn show(&mut self, progress: &Progress<'_>) {
        // What is left of a second at the end is too short to tell a rate.
        if let Some((interval, _)) = progress.second.filter(|(interval, _)| interval.length_s > 0.5) {
            self.latest = Some(interval.clone());
        }
        let told = tell(progress, self.latest.as_ref());
        match &mut self.view {
            View::Hidden => {}
            View::Bar(bar) => {
                let share = self.goal.share(progress);
                bar.set_position((share * STEPS as f64) as u64);
                let left = self.goal.left(progress).map_or_else(String::new, |left| format!("{left} left, "));
                bar.set_message(format!("{left}{told}"));
            }
            View::Lines(due) => {
                // What has begun is told when its second is complete, so that its figures stand in the line.
                if progress.second.is_some() && progress.elapsed >= *due {
                    *due += PERIOD;
                    say(&format!("{}: {told}\n", format_duration(progress.elapsed)));
                }
            }
        }
    }

    /// Takes the view away, so that the result can stand in its place.
    pub fn finish(&self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }
}

impl Goal {
    /// How much of it is done, 0 to 1.
    fn share(&self, progress: &Progress<'_>) -> f64 {
        let share = match self {
            Goal::Time(length) => progress.elapsed.as_secs_f64() / length.as_secs_f64(),
            Goal::Requests(requests) => progress.done as f64 / *requests as f64,
            Goal::Unknown => 0.0,
        };
        share.min(1.0)
    }

    /// The time left, where it can be said.
    fn left(&self, progress: &Progress<'_>) -> Option<String> {
        let share = self.share(progress);
        let left = match self {
            Goal::Time(length) => length.saturating_sub(progress.elapsed),
            Goal::Requests(_) if share > 0.02 => progress.elapsed.mul_f64((1.0 - share) / share),
            _ => return None,
        };
        Some(format!("{} s", left.as_secs()))
    }
}

/// The last second in figures; before there is one, what was done since the start.
fn tell(progress: &Progress<'_>, latest: Option<&Interval>) -> String {
    let time =
        |figure: Option<u64>| figure.map_or_else(|| "-".to_owned(), |us| format_duration(Duration::from_micros(us)));
    let figures = match latest {
        Some(second) => {
            let rate = second.done as f64 / second.length_s.max(1e-3);
            format!("{rate:.0} req/s, p50 {}, p99 {}", time(second.p50_us), time(second.p99_us))
        }
        None => format!("{} done", progress.done),
    };
    format!("{figures}, {} failed, {} in flight", progress.failed, progress.in_flight)
}
