use analysis::{Answer, Comparison, Condition, PlannedLink, Summary, words};
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

use crate::figures::{self, ABSENT};

/// How terminal text is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use colours and bold (ANSI escapes).
    pub colour: bool,
    /// Columns of the terminal; 80 is enough for every table.
    pub width: usize,
}

const BOLD: &str = "1";
const FAINT: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !code.is_empty() && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Breaks text into lines; the first begins with `first`, the others with as many spaces.
    fn wrap(self, first: &str, text: &str) -> String {
        let indent = " ".repeat(display_width(first));
        let options = Options::new(self.width)
            .initial_indent(first)
            .subsequent_indent(&indent)
            .word_splitter(WordSplitter::NoHyphenation);
        textwrap::fill(text, options)
    }
}

/// Writes the result of a race for a terminal: one table and one verdict per link, then warnings and the command that
/// repeats it.
///
/// ```text
/// Slow 4G + 2 % loss   (1.6/0.75 Mbit/s, 150 ms, queue 64 kB)
///       median  95 %       vs h1  95 %       conns  shakes  retrans  CPU c/o
///   h1  3.41 s  3.30–3.62  -      -          6      6       14       31/22 ms
///   h3  2.98 s  2.90–3.11  0.87x  0.84–0.91  1      1       15       40/38 ms
///   > HTTP/3 is fastest: 13 % less time than HTTP/1.1 (9–16 %).
/// ```
pub fn terminal(summary: &Summary, style: Style) -> String {
    let plan = &summary.plan;
    let mut lines = vec![
        style.paint(BOLD, &style.wrap("", &plan.question)),
        style.paint(FAINT, &style.wrap("", &figures::facts(summary))),
    ];
    for link in &plan.links {
        lines.push(String::new());
        lines.extend(table(summary, link, style));
        for verdict in summary.verdicts.iter().filter(|verdict| verdict.link == link.name) {
            lines.push(style.wrap("  > ", &verdict.sentence));
        }
    }
    lines.push(String::new());
    for warning in &summary.warnings {
        lines.push(style.paint(YELLOW, &style.wrap("! ", warning)));
    }
    lines.push(format!("  again   {}", plan.repeat));
    lines.join("\n") + "\n"
}

/// Text in a cell, and the ANSI code to set it in.
struct Cell {
    text: String,
    code: &'static str,
}

impl Cell {
    fn plain(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), code: "" }
    }
}

fn table(summary: &Summary, link: &PlannedLink, style: Style) -> Vec<String> {
    let baseline = format!("vs {}", summary.baseline_label());
    let header = ["", "median", "95 %", &baseline, "95 %", "conns", "shakes", "retrans", "CPU c/o"];
    let fastest = summary.verdicts.iter().find(|verdict| verdict.link == link.name).and_then(|verdict| verdict.fastest);
    let mut rows: Vec<Vec<Cell>> =
        vec![header.iter().map(|text| Cell { text: (*text).to_owned(), code: FAINT }).collect()];
    for condition in summary.conditions_on(&link.name) {
        rows.push(row(condition, summary.comparison_of(condition), fastest));
    }

    let column_width = |column: usize| rows.iter().map(|row| display_width(&row[column].text)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(column_width).collect();
    let gaps = widths.len() * 2;
    let gap = if widths.iter().sum::<usize>() + gaps > style.width { 1 } else { 2 };
    let detail = if link.detail.is_empty() { String::new() } else { format!("   ({})", link.detail) };
    let title = style.wrap("", &(style.paint(BOLD, &link.title) + &detail));
    let set = |row: &Vec<Cell>| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &" ".repeat(gap);
            line += &style.paint(cell.code, &cell.text);
            line += &" ".repeat(width - display_width(&cell.text));
        }
        line.trim_end().to_owned()
    };
    std::iter::once(title).chain(rows.iter().map(set)).collect()
}

fn row(condition: &Condition, comparison: Option<&Comparison>, fastest: Option<usize>) -> Vec<Cell> {
    let or_absent = |text: Option<String>| Cell::plain(text.unwrap_or(ABSENT.to_owned()));
    let answer = match comparison.map(|comparison| comparison.answer) {
        Some(Answer::Faster) => GREEN,
        Some(Answer::Slower) => RED,
        Some(Answer::CannotTell) => YELLOW,
        Some(Answer::NoDifference) | None => "",
    };
    let name = if fastest == Some(condition.entrant) { BOLD } else { "" };
    vec![
        Cell { text: condition.label.clone(), code: name },
        or_absent(condition.median_ms.map(figures::time)),
        or_absent(figures::time_interval(condition)),
        Cell { code: answer, ..or_absent(comparison.and_then(words::ratio)) },
        or_absent(comparison.and_then(words::interval)),
        Cell::plain(figures::count(condition.connections)),
        Cell::plain(figures::count(condition.handshakes)),
        Cell::plain(figures::count(condition.retransmissions)),
        Cell::plain(figures::cpu(condition)),
    ]
}
