//! Summaries of a small race with fixed figures, and of the same race with one thing changed.

mod race;

use analysis::{Answer, Comparison, Plan, Summary, summarize};
use measure::{Bottleneck, Protocol, Trial};

const LOSSY: &str = "slow-4g loss=2%";

/// The race after a change to its plan or trials.
fn changed(change: impl FnOnce(&mut Plan, &mut Vec<Trial>)) -> Summary {
    let (mut plan, mut trials) = (race::plan(), race::trials());
    change(&mut plan, &mut trials);
    summarize(&plan, &trials, &race::environment())
}

fn comparison<'a>(summary: &'a Summary, link: &str, label: &str) -> &'a Comparison {
    summary.comparisons.iter().find(|c| c.link == link && c.label == label).unwrap()
}

#[track_caller]
fn assert_warns(summary: &Summary, parts: &[&str]) {
    let found = summary.warnings.iter().any(|warning| parts.iter().all(|part| warning.contains(part)));
    assert!(found, "no warning with {parts:?} among {:#?}", summary.warnings);
}

#[test]
fn answers_and_verdicts() {
    let summary = race::summary();
    let answers: Vec<Answer> = summary.comparisons.iter().map(|comparison| comparison.answer).collect();
    assert_eq!(answers, [Answer::NoDifference, Answer::Faster, Answer::Slower, Answer::NoDifference]);
    let fastest: Vec<Option<usize>> = summary.verdicts.iter().map(|verdict| verdict.fastest).collect();
    assert_eq!(fastest, [Some(2), None]);
    assert_eq!(
        summary.verdicts[0].sentence,
        "HTTP/3 is fastest: 7.3 % less time than HTTP/1.1 (7.0–7.7 %). HTTP/2: no difference that matters, 0.7 % less \
         time than HTTP/1.1 (0.4–1.0 %)."
    );
    assert_eq!(
        summary.verdicts[1].sentence,
        "HTTP/2: 14 % more time than HTTP/1.1 (8–20 %). HTTP/3: no difference from HTTP/1.1 (beyond 8 % is ruled out)."
    );
    assert!(summary.finished);
    assert_eq!(summary.rounds_done, 7);
}

/// The ratio is the geometric mean of the rounds' ratios; computed here from the fixture's times.
#[test]
fn ratios_are_paired_by_round() {
    let summary = race::summary();
    let ratio = comparison(&summary, LOSSY, "h2").ratio.unwrap();
    let ratios = [3920.0 / 3410.0, 4198.0 / 3622.0, 3710.0 / 3301.0, 3871.0 / 3480.0, 3999.0 / 3390.0, 3650.0 / 3555.0];
    let product: f64 = ratios.iter().product::<f64>() * (4120.0 / 3370.0);
    assert!((ratio - product.powf(1.0 / 7.0)).abs() < 1e-12, "{ratio}");

    let without_round_2 = changed(|_, trials| trials.retain(|t| t.round != 2 || t.protocol != Protocol::H2));
    assert_eq!(comparison(&without_round_2, LOSSY, "h2").rounds, 6);
    assert_eq!(comparison(&without_round_2, LOSSY, "h3").rounds, 7);
}

#[test]
fn conditions_hold_medians_of_valid_trials() {
    let summary = race::summary();
    let h3 = summary.conditions_on(LOSSY).last().unwrap();
    assert_eq!((h3.label.as_str(), h3.trials, h3.invalid), ("h3", 7, 1));
    assert_eq!((h3.median_ms, h3.low_ms, h3.high_ms), (Some(3380.0), Some(3105.0), Some(3720.0)));
    assert_eq!((h3.connections, h3.handshakes), (Some(1.0), Some(1.0)));
    assert_eq!(h3.retransmissions, Some(2.0), "both ends lost 0, 1 or 2 packets");
    let h1 = summary.conditions_on(LOSSY).next().unwrap();
    assert_eq!((h1.connections, h1.retransmissions), (Some(6.0), Some(12.0)));
    assert_eq!((h1.client_cpu_ms, h1.origin_cpu_ms), (Some(31.2), Some(21.6)));
}

#[test]
fn summaries_read_back_and_have_the_documented_keys() {
    let summary = race::summary();
    let json = serde_json::to_value(&summary).unwrap();
    for (pointer, expected) in [
        ("/schema", "1"),
        ("/rounds_planned", "7"),
        ("/links/0/name", "\"slow-4g\""),
        ("/comparisons/1/link", "\"slow-4g\""),
        ("/comparisons/1/protocol", "\"h3\""),
        ("/comparisons/1/baseline", "\"h1\""),
        ("/comparisons/1/metric", "\"page load time\""),
        ("/comparisons/1/answer", "\"faster\""),
        ("/comparisons/1/rounds", "7"),
        ("/conditions/0/trials", "7"),
        ("/conditions/0/median_ms", "2214.0"),
        ("/environment/fairlane", "\"0.1.0\""),
    ] {
        assert_eq!(json.pointer(pointer).map(ToString::to_string).as_deref(), Some(expected), "{pointer}");
    }
    assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
}

#[test]
fn a_protocol_against_itself() {
    let summary = changed(|plan, trials| {
        plan.entrants = vec![Protocol::H2, Protocol::H2];
        trials.retain(|trial| trial.entrant < 2);
        for trial in trials {
            trial.protocol = Protocol::H2;
            trial.time_ms = Some(1000.0 + f64::from(trial.round * 7 % 5) + trial.entrant as f64);
        }
    });
    let labels: Vec<&str> = summary.conditions.iter().map(|condition| condition.label.as_str()).collect();
    assert_eq!(labels, ["h2", "h2 (2)", "h2", "h2 (2)"]);
    assert!(summary.verdicts[0].sentence.starts_with("HTTP/2 (2): no difference"), "{}", summary.verdicts[0].sentence);
}

#[test]
fn what_the_rounds_cannot_settle_is_said_with_the_rounds_that_could() {
    let summary = changed(|_, trials| trials.retain(|trial| trial.round <= 2));
    let short = comparison(&summary, LOSSY, "h3");
    assert_eq!((short.answer, short.rounds_needed, short.low), (Answer::CannotTell, Some(3), None));
    assert!(short.ratio.is_some());
    let sentence = &summary.verdicts[1].sentence;
    assert!(sentence.contains("only 2 rounds have a valid trial of both; 3 are needed"), "{sentence}");

    let noisy = changed(|_, trials| {
        for trial in trials.iter_mut().filter(|trial| trial.protocol == Protocol::H3) {
            trial.time_ms = trial.time_ms.map(|time| if trial.round % 2 == 0 { time * 1.4 } else { time / 1.3 });
        }
    });
    let wide = comparison(&noisy, LOSSY, "h3");
    assert_eq!(wide.answer, Answer::CannotTell);
    assert!(wide.rounds_needed.is_some_and(|rounds| rounds > 7), "{wide:?}");
    let sentence = &noisy.verdicts[1].sentence;
    assert!(sentence.contains("HTTP/3 against HTTP/1.1: cannot tell from 7 rounds"), "{sentence}");
    assert!(sentence.contains("rounds would settle it"), "{sentence}");
}

#[test]
fn two_that_beat_the_baseline_alike_do_not_make_a_winner() {
    let summary = changed(|_, trials| {
        for trial in trials.iter_mut().filter(|trial| trial.protocol == Protocol::H2) {
            trial.time_ms = Some(2050.0 + f64::from(trial.round * 5 % 7));
        }
    });
    assert_eq!(summary.verdicts[0].fastest, None);
    let sentence = &summary.verdicts[0].sentence;
    assert!(sentence.contains("Whether HTTP/3 beats HTTP/2 is not settled."), "{sentence}");
}

#[test]
fn the_baseline_can_win() {
    let summary = changed(|_, trials| {
        for trial in trials.iter_mut().filter(|trial| trial.entrant > 0) {
            trial.time_ms = trial.time_ms.map(|time| time * 2.5);
        }
    });
    assert_eq!(summary.verdicts[0].fastest, Some(0));
    let sentence = &summary.verdicts[0].sentence;
    assert!(sentence.starts_with("HTTP/1.1 is fastest. HTTP/2: 2.5 times the time of HTTP/1.1"), "{sentence}");
}

#[test]
fn who_ran_out_of_cpu_is_part_of_the_verdict() {
    let summary = changed(|_, trials| {
        for trial in trials.iter_mut().filter(|trial| trial.protocol == Protocol::H3) {
            trial.load.as_mut().unwrap().bottleneck = Bottleneck::Client;
            let duration_us = trial.load.as_ref().unwrap().wall_us();
            trial.origin.as_mut().unwrap().cpu.user_us = duration_us * 95 / 100;
        }
    });
    assert_eq!(summary.conditions_on(LOSSY).last().unwrap().bound, ["client", "origin"]);
    let sentence = &summary.verdicts[0].sentence;
    assert!(
        sentence.ends_with(
            "This compares implementations, not protocols: the client ran out of CPU with HTTP/3, the origin ran out \
             of CPU with HTTP/3."
        ),
        "{sentence}"
    );
}

#[test]
fn a_sound_race_warns_of_its_invalid_trial_only() {
    let summary = race::summary();
    assert_eq!(
        summary.warnings,
        ["1 of 43 trials was invalid and does not count: link lateness p99 is 4 ms, more than 1 ms (1)."]
    );
}

#[test]
fn every_weakness_has_its_warning() {
    let interrupted = changed(|_, trials| trials.retain(|trial| trial.round <= 5));
    assert!(!interrupted.finished);
    assert_warns(&interrupted, &["ended after 5 of 7 rounds"]);

    assert_warns(&changed(|plan, _| plan.has_link = false), &["no emulated link", "CPU"]);
    assert_warns(&changed(|plan, _| plan.entrants[0] = Protocol::H1c), &["h2 and h3 carried TLS and h1c did not"]);
    assert_warns(
        &changed(|_, trials| trials.retain(|trial| trial.round != 4 || trial.entrant != 1)),
        &["lack valid trials", "h2 on slow-4g (6 of 7)"],
    );
    let unlike = changed(|_, trials| {
        for origin in trials.iter_mut().filter_map(|trial| trial.origin.as_mut()) {
            origin.quic_congestion_control = "bbr".to_owned();
            origin.quic_initial_window_bytes = 32 * 1448;
        }
    });
    assert_warns(&unlike, &["congestion control of the origin differs", "bbr for h3", "cubic for h1 and h2"]);
    assert_warns(&unlike, &["initial congestion window of the origin differs", "32 packets for h3"]);
    let foreign = changed(|_, trials| trials.iter_mut().for_each(|trial| trial.origin = None));
    assert_warns(&foreign, &["congestion control of the origin is unknown for h3"]);
    let miscounted = changed(|_, trials| trials[0].origin.as_mut().unwrap().protocols.clear());
    assert_warns(&miscounted, &["h1 on slow-4g", "connections in 1 of 7 trials", "6, 6, 0"]);
}

#[test]
fn nothing_to_judge_is_no_error() {
    let summary = changed(|_, trials| trials.clear());
    assert!(!summary.finished);
    assert!(summary.comparisons.iter().all(|c| c.answer == Answer::CannotTell && c.ratio.is_none()));
    assert!(summary.verdicts[0].sentence.contains("no round has a valid trial of both"));
}
