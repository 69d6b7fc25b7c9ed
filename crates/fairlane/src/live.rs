use std::io::{IsTerminal as _, stderr};

use analysis::Plan;
use experiment::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use measure::{Environment, units};

use crate::output::say;

/// The view of a race while it runs, on standard error: a bar, the time left, what runs now, and the ratios so far.
/// Where standard error is no terminal, a line per round.
pub struct Live {
    bar: ProgressBar,
    ratios: Vec<ProgressBar>,
    is_terminal: bool,
    rounds_told: u32,
}

const STEPS: u64 = 1000;

impl Live {
    /// Begins the view with the conditions of the race.
    pub fn new(plan: &Plan) -> Live {
        let version = env!("CARGO_PKG_VERSION");
        say(&format!("fairlane {version} · {} · {} · seed {}\n", plan.workload, plan.origin, plan.seed));
        let is_terminal = stderr().is_terminal();
        if !is_terminal {
            return Live { bar: ProgressBar::hidden(), ratios: Vec::new(), is_terminal, rounds_told: 0 };
        }
        let view = MultiProgress::new();
        let bar = view.add(ProgressBar::new(STEPS));
        let template = "  {prefix}  {bar:20}  {msg}";
        bar.set_style(
            ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("█▉░"),
        );
        let line = || {
            let line = view.add(ProgressBar::new(1));
            line.set_style(ProgressStyle::with_template("  {msg}").expect("the template is a constant"));
            line
        };
        Live { bar, ratios: plan.links.iter().map(|_| line()).collect(), is_terminal, rounds_told: 0 }
    }

    /// Shows the latest progress.
    pub fn show(&mut self, plan: &Plan, progress: &Progress, environment: &Environment) {
        if !self.is_terminal {
            return self.tell(progress);
        }
        self.bar.set_position((progress.share * STEPS as f64) as u64);
        self.bar.set_prefix(format!("round {}", progress.round));
        let left = match progress.share {
            share if share > 0.02 => units::format_duration(progress.elapsed.mul_f64((1.0 - share) / share)),
            _ => "…".to_owned(),
        };
        if let Some((protocol, link)) = progress.begun {
            self.bar.set_message(format!("{left} left     now: {protocol} on {link}"));
            return;
        }
        let summary = analysis::summarize(plan, progress.trials, environment);
        for (link, line) in plan.links.iter().zip(&self.ratios) {
            let ratios: Vec<String> = summary
                .comparisons
                .iter()
                .filter(|comparison| comparison.link == link.name)
                .filter_map(|comparison| {
                    let ratio = format!("{} {:.2}x", comparison.label, comparison.ratio?);
                    let interval = comparison.low.zip(comparison.high);
                    Some(interval.map_or(ratio.clone(), |(low, high)| format!("{ratio} ({low:.2}–{high:.2})")))
                })
                .collect();
            line.set_message(format!("{:26} {}", link.title, ratios.join("   ")));
        }
    }

    fn tell(&mut self, progress: &Progress) {
        if progress.round > self.rounds_told {
            self.rounds_told = progress.round;
            let elapsed = units::format_duration(progress.elapsed);
            match progress.trials.len() {
                0 => say(&format!("  round {} begins\n", progress.round)),
                done => say(&format!("  round {} begins after {elapsed}; {done} trials done\n", progress.round)),
            }
        }
    }

    /// Takes the view away, so that the result can stand in its place.
    pub fn finish(&self) {
        for line in self.ratios.iter().chain([&self.bar]) {
            line.finish_and_clear();
        }
    }
}
