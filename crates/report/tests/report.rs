//! The three outputs of a small race with fixed figures.

#[path = "../../analysis/tests/race/mod.rs"]
mod race;

use report::{Style, csv, html, terminal};
use scraper::{Html, Selector};

const PLAIN: Style = Style { colour: false, width: 80 };

/// `FAIRLANE_WRITE_EXPECTED=1 cargo test -p report` writes the expected text anew; read the change before you keep it.
#[test]
fn terminal_text_is_as_expected() {
    let text = terminal(&race::summary(), PLAIN);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/terminal.txt");
    if std::env::var_os("FAIRLANE_WRITE_EXPECTED").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn colours_change_nothing_but_colour() {
    let summary = race::summary();
    let coloured = terminal(&summary, Style { colour: true, ..PLAIN });
    let mut plain = String::new();
    for part in coloured.split("\x1b[") {
        plain += part.split_once('m').filter(|(code, _)| code.parse::<u8>().is_ok()).map_or(part, |(_, text)| text);
    }
    let without_trailing_spaces = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(without_trailing_spaces(&plain), without_trailing_spaces(&terminal(&summary, PLAIN)));
    assert!(coloured.contains("\x1b[1mh3\x1b[0m"), "the winner is bold");
    assert!(coloured.contains("\x1b[31m1.14x\x1b[0m"), "slower is red");
}

#[test]
fn a_race_without_trials_can_be_shown() {
    let summary = analysis::summarize(&race::plan(), &[], &race::environment());
    assert!(terminal(&summary, PLAIN).contains("0 of 7 rounds"));
    assert!(!html(&summary, &[]).contains("<svg"));
    assert_eq!(csv(&[]), "");
}

fn texts(page: &Html, selector: &str) -> Vec<String> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).map(|element| element.text().collect()).collect()
}

#[test]
fn html_is_sound_and_complete() {
    let summary = race::summary();
    let page = Html::parse_document(&html(&summary, &race::trials()));
    assert!(page.errors.is_empty(), "{:?}", page.errors);

    assert_eq!(texts(&page, "h1").concat(), summary.plan.question, "<30> is text, not an element");
    let verdicts: Vec<String> = summary.verdicts.iter().map(|verdict| verdict.sentence.clone()).collect();
    assert_eq!(texts(&page, ".verdict p"), verdicts);
    assert_eq!(texts(&page, ".warnings li"), summary.warnings);
    assert_eq!(texts(&page, "td.faster"), ["0.927x", "faster"]);
    assert!(texts(&page, "pre").contains(&summary.plan.repeat));
    let example =
        "fairlane link 'slow-4g loss=2%' -- fairlane load --page https://origin:8443/page/30/10000".to_owned();
    assert_eq!(texts(&page, "details pre").iter().filter(|text| **text == example).count(), 3);
}

#[test]
fn html_needs_no_other_file() {
    let text = html(&race::summary(), &race::trials());
    let page = Html::parse_document(&text);
    for outside in ["[src]", "[href]", "script", "link", "iframe", "img"] {
        assert!(page.select(&Selector::parse(outside).unwrap()).next().is_none(), "{outside}");
    }
    assert!(!text.contains("url(") && !text.contains("@import"));
}

#[test]
fn plots_show_every_trial_and_name_themselves() {
    let page = Html::parse_document(&html(&race::summary(), &race::trials()));
    let count = |selector: &str| page.select(&Selector::parse(selector).unwrap()).count();
    assert_eq!(count("svg"), 3, "a forest plot and one of dots for each link");
    assert_eq!(count("svg[role=img][aria-label]"), 3);
    assert_eq!(count("svg circle"), 14, "seven rounds of h1 on two links");
    let triangles = count("svg[aria-label*='every trial'] polygon");
    assert_eq!(triangles, 14, "seven valid rounds of h3 on two links; the invalid one is a cross");
}

#[test]
fn absurd_times_can_be_drawn() {
    let mut trials = race::trials();
    for trial in trials.iter_mut().filter(|trial| trial.entrant == 2) {
        trial.time_ms = Some([0.0, 1e-300, 1e300][trial.round as usize % 3]);
    }
    let summary = analysis::summarize(&race::plan(), &trials, &race::environment());
    let page = html(&summary, &trials);
    assert!(Html::parse_document(&page).errors.is_empty());
    assert!(!page.contains("NaN"), "every coordinate is a number");
}

#[test]
fn csv_reads_back() {
    let trials = race::trials();
    let text = csv(&trials);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|header| header == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), trials.len());
    for (row, trial) in rows.iter().zip(&trials) {
        assert_eq!(row[column("round")].parse(), Ok(trial.round));
        assert_eq!(&row[column("protocol")], trial.protocol.name());
        assert_eq!(&row[column("link")], trial.link);
        assert_eq!(row[column("time_ms")].parse().ok(), trial.time_ms);
        assert_eq!(row[column("valid")].parse(), Ok(trial.is_valid()));
        let command: Vec<String> = shlex::split(&row[column("command")]).unwrap();
        assert_eq!(command, trial.command);
    }
    let invalid: Vec<&str> = rows.iter().map(|row| &row[column("invalid")]).filter(|text| !text.is_empty()).collect();
    assert_eq!(invalid, ["link lateness p99 is 4 ms, more than 1 ms"]);
}

/// docs/formats.md describes every column.
#[test]
fn every_column_is_documented() {
    let documentation = include_str!("../../../docs/formats.md");
    let text = csv(&race::trials());
    for column in text.lines().next().unwrap().split(',') {
        assert!(documentation.contains(&format!("`{column}`")), "docs/formats.md does not describe {column}");
    }
}
