use std::fmt::Write as _;

use analysis::{Answer, Condition, PlannedLink, RESOLUTION, Summary, words};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use measure::{Trial, units};

use crate::figures::{self, ABSENT};
use crate::{palette, plots, table};

/// Writes the result of a race as one HTML page that needs no network, no script and no other file.
///
/// Top to bottom: the question, the answer for each link, all ratios in one plot, tables and dots of all trials, what
/// to beware of, the conditions, and how to repeat it.
pub fn html(summary: &Summary, trials: &[Trial]) -> String {
    let plan = &summary.plan;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (plan.question) }
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { (plan.question) }
                    p.faint { (figures::facts(summary)) }
                }
                main {
                    (answers(summary))
                    @for link in &plan.links { (evidence(summary, link, trials)) }
                    (warnings(summary))
                    (conditions(summary))
                    (repeat(summary, trials))
                    (environment(summary))
                }
            }
        }
    };
    page.into_string()
}

fn style() -> String {
    let mut style = include_str!("style.css").to_owned();
    let dark = "--ink: #e6edf3; --faint: #9da7b3; --line: #30363d; --band: #161b22; --paper: #0d1117; --good: #3fc89b; \
                --bad: #ff8f85; --unsure: #e3b341;";
    // Paper is white, whatever the screen.
    let _ =
        write!(style, "@media screen and (prefers-color-scheme: dark) {{:root {{ {dark} }}{}}}", palette::dark_rules());
    style
}

fn answers(summary: &Summary) -> Markup {
    let baseline = summary.baseline_label();
    html! {
        section {
            h2 { "Answer" }
            @for verdict in &summary.verdicts {
                div.verdict {
                    h3 { (verdict.title) }
                    p { (verdict.sentence) }
                }
            }
            @if let Some(plot) = plots::forest(summary) {
                figure {
                    div.scroll { (PreEscaped(plot)) }
                    figcaption {
                        "Left of 1: less time than " (baseline) ". Lines are 95 % intervals; the grey band holds differences too "
                        "small to matter (" (units::format_share(summary.plan.practical)) ")."
                    }
                }
            }
        }
    }
}

fn evidence(summary: &Summary, link: &PlannedLink, trials: &[Trial]) -> Markup {
    html! {
        section {
            h2 { (link.title) }
            @if !link.detail.is_empty() { p.faint { (link.detail) } }
            (results(summary, link))
            @if let Some(plot) = plots::dots(summary, &link.name, trials) {
                figure {
                    div.scroll { (PreEscaped(plot)) }
                    figcaption {
                        "Every trial, the first round on top; upright line: median; shaded: its 95 % interval (from 6 "
                        "trials); cross: invalid. The axis does not begin at zero."
                    }
                }
            }
        }
    }
}

fn results(summary: &Summary, link: &PlannedLink) -> Markup {
    let fastest = summary.verdicts.iter().find(|verdict| verdict.link == link.name).and_then(|verdict| verdict.fastest);
    let baseline = summary.baseline_label();
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" { "protocol" }
                        th scope="col" { "median" }
                        th scope="col" { "95 % interval" }
                        th scope="col" { "vs " (baseline) }
                        th scope="col" { "95 % interval" }
                        th scope="col" { "answer" }
                        th scope="col" { "connec-" br; "tions" }
                        th scope="col" { "hand-" br; "shakes" }
                        th scope="col" { "retrans-" br; "missions" }
                        th scope="col" { "CPU client/" br; "origin" }
                        th scope="col" { "trials" br; "(invalid)" }
                    }
                }
                tbody {
                    @for condition in summary.conditions_on(&link.name) {
                        (result(summary, condition, fastest == Some(condition.entrant)))
                    }
                }
            }
        }
    }
}

fn result(summary: &Summary, condition: &Condition, is_fastest: bool) -> Markup {
    let comparison = summary.comparison_of(condition);
    let class = comparison.map(|comparison| class(comparison.answer));
    html! {
        tr {
            th.fastest[is_fastest] scope="row" { (condition.label) }
            td { (or_absent(condition.median_ms.map(figures::time))) }
            td { (or_absent(figures::time_interval(condition))) }
            td class=[class] { (or_absent(comparison.and_then(words::ratio))) }
            td { (or_absent(comparison.and_then(words::interval))) }
            td class=[class] { (or_absent(comparison.map(|comparison| comparison.answer.to_string()))) }
            td { (figures::count(condition.connections)) }
            td { (figures::count(condition.handshakes)) }
            td { (figures::count(condition.retransmissions)) }
            td { (figures::cpu(condition)) }
            td { (condition.trials) " (" (condition.invalid) ")" }
        }
    }
}

fn class(answer: Answer) -> &'static str {
    match answer {
        Answer::Faster => "faster",
        Answer::Slower => "slower",
        Answer::NoDifference => "no-difference",
        Answer::CannotTell => "cannot-tell",
    }
}

fn warnings(summary: &Summary) -> Markup {
    html! {
        section {
            h2 { "Warnings" }
            @if summary.warnings.is_empty() {
                p { "None." }
            } @else {
                ul.warnings { @for warning in &summary.warnings { li { (warning) } } }
            }
        }
    }
}

fn conditions(summary: &Summary) -> Markup {
    let plan = &summary.plan;
    html! {
        section {
            h2 { "Conditions" }
            div.scroll {
                table.text {
                    caption { "Links" }
                    thead { tr { th scope="col" { "link" } th scope="col" { "as asked for" } th scope="col" { "parameters" } } }
                    tbody {
                        @for link in &plan.links {
                            tr { th scope="row" { (link.title) } td { (link.name) } td { (link.detail) } }
                        }
                    }
                }
            }
            div.scroll {
                table.text {
                    caption { "Transport, client / origin where they differ" }
                    thead {
                        tr {
                            th scope="col" { "link" }
                            th scope="col" { "protocol" }
                            th scope="col" { "congestion control" }
                            th scope="col" { "initial window, packets" }
                            th scope="col" { "out of CPU" }
                        }
                    }
                    tbody {
                        @for condition in &summary.conditions {
                            tr {
                                td { (condition.link) }
                                td { (condition.label) }
                                td { (figures::ends(&condition.congestion_control)) }
                                td { (figures::ends(&condition.initial_window)) }
                                td { (if condition.bound.is_empty() { "nobody".to_owned() } else { condition.bound.join(", ") }) }
                            }
                        }
                    }
                }
            }
            h3 { "How the answers come about" }
            p {
                "Trials of a round run close together, in random order and with the same seed, and are compared with each "
                "other only: a ratio is the centre of the rounds' ratios of " (plan.metric) ". Faster and slower mean a "
                "difference of " (units::format_share(plan.practical)) " or more that is significant at 5 % for all "
                "comparisons of this page together. No difference means that none of that size was found, and that one "
                "beyond " (units::format_share(RESOLUTION)) ", often far less, is ruled out: the verdict says how much."
            }
        }
    }
}

fn repeat(summary: &Summary, trials: &[Trial]) -> Markup {
    let plan = &summary.plan;
    let example = |condition: &Condition| {
        let mut own = trials.iter().filter(|trial| trial.link == condition.link && trial.entrant == condition.entrant);
        own.clone().find(|trial| trial.is_valid()).or_else(|| own.next())
    };
    html! {
        section {
            h2 { "Repeat it" }
            p { "The whole race:" }
            pre { (plan.repeat) }
            details {
                summary { "One trial of each condition" }
                @for condition in &summary.conditions {
                    @if let Some(trial) = example(condition) {
                        h3 { (condition.label) " on " (condition.link) ", round " (trial.round) }
                        @if let Some(origin) = &trial.origin_command { pre { (table::command_line(origin)) } }
                        pre { (table::command_line(&trial.command)) }
                    }
                }
            }
        }
    }
}

fn environment(summary: &Summary) -> Markup {
    let environment = &summary.environment;
    let rows = [
        ("fairlane", environment.fairlane.clone()),
        ("TLS", environment.tls.clone()),
        ("kernel", environment.kernel.clone()),
        ("CPU", environment.cpu.clone()),
        ("processors", environment.processors.to_string()),
        ("memory", units::format_size(environment.memory_bytes)),
        ("congestion control outside the lab", environment.kernel_congestion_control.clone()),
    ];
    html! {
        section {
            h2 { "Environment" }
            table.text {
                tbody { @for (name, value) in rows { tr { th scope="row" { (name) } td { (value) } } } }
            }
        }
    }
}

fn or_absent(text: Option<String>) -> String {
    text.unwrap_or_else(|| ABSENT.to_owned())
}
