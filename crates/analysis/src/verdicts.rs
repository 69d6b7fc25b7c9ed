use crate::rounds::Rounds;
use crate::statistics::{ERROR, Estimate, LEAST_VALUES, holm};
use crate::summary::{Answer, Comparison, Condition, Plan, PlannedLink, Verdict};
use crate::{entrants, words};

/// Puts the answer for every link into words.
pub(crate) fn verdicts(
    plan: &Plan,
    rounds: &Rounds,
    conditions: &[Condition],
    comparisons: &[Comparison],
) -> Vec<Verdict> {
    let on = |link: &PlannedLink| comparisons.iter().filter(|c| c.link == link.name).collect::<Vec<_>>();
    let leads: Vec<Option<Lead>> = plan.links.iter().map(|link| lead(plan, rounds, &link.name, &on(link))).collect();
    // Whether the leader beats all its rivals is a second family of tests, one for each link.
    let proven = holm(&leads.iter().map(|lead| lead.as_ref().map_or(1.0, |lead| lead.p)).collect::<Vec<_>>());
    let verdict = |((link, lead), p): ((&PlannedLink, &Option<Lead>), f64)| {
        let writer = Writer { plan, titles: entrants::titles(&plan.entrants), comparisons: on(link) };
        let fastest = lead.as_ref().filter(|_| p <= ERROR).map(|lead| lead.entrant);
        let mut sentences = writer.sentences(lead.as_ref(), fastest);
        sentences.extend(bottleneck(plan, conditions.iter().filter(|condition| condition.link == link.name)));
        Verdict { link: link.name.clone(), title: link.title.clone(), fastest, sentence: sentences.join(" ") }
    };
    plan.links.iter().zip(&leads).zip(proven).map(verdict).collect()
}

/// Who is ahead on a link, and which rival besides the baseline comes closest to it.
struct Lead {
    entrant: usize,
    rival: Option<usize>,
    /// P-value of the comparison with that rival; 0 without one.
    p: f64,
}

/// The entrant that is faster than the baseline by most; the baseline when every other is slower; else nobody.
fn lead(plan: &Plan, rounds: &Rounds, link: &str, comparisons: &[&Comparison]) -> Option<Lead> {
    if !comparisons.is_empty() && comparisons.iter().all(|c| c.answer == Answer::Slower) {
        return Some(Lead { entrant: entrants::baseline(&plan.entrants), rival: None, p: 0.0 });
    }
    let faster = comparisons.iter().filter(|c| c.answer == Answer::Faster);
    let leader = faster.min_by(|a, b| f64::total_cmp(&a.ratio.unwrap_or(1.0), &b.ratio.unwrap_or(1.0)))?.entrant;
    let against = |rival: usize| match Estimate::of(&rounds.log_ratios(link, leader, rival)) {
        Some(estimate) if estimate.centre <= -plan.practical.ln_1p() => estimate.p,
        _ => 1.0,
    };
    let rivals = comparisons.iter().map(|c| c.entrant).filter(|entrant| *entrant != leader);
    let closest = rivals.map(|rival| (rival, against(rival))).max_by(|a, b| a.1.total_cmp(&b.1));
    Some(Lead { entrant: leader, rival: closest.map(|(rival, _)| rival), p: closest.map_or(0.0, |(_, p)| p) })
}

struct Writer<'a> {
    plan: &'a Plan,
    titles: Vec<String>,
    comparisons: Vec<&'a Comparison>,
}

impl Writer<'_> {
    /// One sentence for each entrant that is compared; the leader's comes first.
    fn sentences(&self, lead: Option<&Lead>, fastest: Option<usize>) -> Vec<String> {
        let baseline = entrants::baseline(&self.plan.entrants);
        let leader = lead.map(|lead| lead.entrant);
        let mut ordered = self.comparisons.clone();
        ordered.sort_by_key(|comparison| Some(comparison.entrant) != leader);
        let intro = (fastest == Some(baseline)).then(|| format!("{} is fastest.", self.titles[baseline]));
        let compared = ordered.iter().map(|comparison| self.sentence(comparison, &self.titles[baseline], fastest));
        let rival = leader.zip(lead.and_then(|lead| lead.rival)).filter(|_| fastest.is_none());
        let undecided = rival.map(|(leader, rival)| {
            format!("Whether {} beats {} is not settled.", self.titles[leader], self.titles[rival])
        });
        intro.into_iter().chain(compared).chain(undecided).collect()
    }

    fn sentence(&self, comparison: &Comparison, baseline: &str, fastest: Option<usize>) -> String {
        let title = &self.titles[comparison.entrant];
        let difference = words::difference(comparison, baseline).unwrap_or_default();
        match comparison.answer {
            Answer::Faster if fastest == Some(comparison.entrant) => format!("{title} is fastest: {difference}."),
            Answer::Faster | Answer::Slower => format!("{title}: {difference}."),
            Answer::NoDifference => {
                let excludes_one =
                    comparison.low.is_some_and(|low| low > 1.0) || comparison.high.is_some_and(|h| h < 1.0);
                let ruled_out = words::ruled_out(comparison).unwrap_or_default();
                if excludes_one {
                    format!("{title}: no difference that matters, {difference}.")
                } else {
                    format!("{title}: no difference from {baseline} (beyond {ruled_out} is ruled out).")
                }
            }
            Answer::CannotTell => self.cannot_tell(comparison, title, baseline),
        }
    }

    fn cannot_tell(&self, comparison: &Comparison, title: &str, baseline: &str) -> String {
        if (comparison.rounds as usize) < LEAST_VALUES {
            let had = match comparison.rounds {
                0 => "no round has a valid trial of both".to_owned(),
                1 => "only one round has a valid trial of both".to_owned(),
                rounds => format!("only {rounds} rounds have a valid trial of both"),
            };
            return format!("{title} against {baseline}: cannot tell, {had}; {LEAST_VALUES} are needed at least.");
        }
        let ratio = words::ratio(comparison).unwrap_or_default();
        let interval = words::interval(comparison).unwrap_or_default();
        let remedy = match comparison.rounds_needed {
            Some(rounds) => format!("about {rounds} rounds would settle it"),
            None => "the trials differ too much for any sensible number of rounds to settle it".to_owned(),
        };
        let rounds = comparison.rounds;
        format!("{title} against {baseline}: cannot tell from {rounds} rounds ({ratio}, {interval}); {remedy}.")
    }
}

fn bottleneck<'a>(plan: &Plan, conditions: impl Iterator<Item = &'a Condition>) -> Option<String> {
    let titles = entrants::titles(&plan.entrants);
    let bound: Vec<(&str, &str)> = conditions
        .flat_map(|condition| condition.bound.iter().map(|part| (titles[condition.entrant].as_str(), part.as_str())))
        .collect();
    let parts = ["client", "origin", "machine"].into_iter().filter_map(|part| {
        let who: Vec<&str> = bound.iter().filter(|(_, name)| *name == part).map(|(title, _)| *title).collect();
        (!who.is_empty()).then(|| format!("the {part} ran out of CPU with {}", words::list(&who)))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("This compares implementations, not protocols: {}.", parts.join(", ")))
}
