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

/// Writes the result of a race for a terminal: one table and one verdict per link, then the warnings. The columns of all
/// tables are aligned.
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
    let tables: Vec<Vec<Row>> = plan.links.iter().map(|link| table(summary, link)).collect();
    let layout = Layout::of(&tables, style);
    for (link, table) in plan.links.iter().zip(&tables) {
        let detail = if link.detail.is_empty() { String::new() } else { format!("   ({})", link.detail) };
        lines.push(String::new());
        lines.push(style.wrap("", &(style.paint(BOLD, &link.title) + &detail)));
        lines.extend(table.iter().map(|row| layout.set(row)));
        for verdict in summary.verdicts.iter().filter(|verdict| verdict.link == link.name) {
            lines.push(style.wrap("  > ", &verdict.sentence));
        }
    }
    lines.push(String::new());
    for warning in &summary.warnings {
        lines.push(style.paint(YELLOW, &style.wrap("! ", warning)));
    }
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

/// The cells of a line of a table, one per column.
type Row = [Cell; 9];

/// The widths that all tables share.
struct Layout {
    widths: [usize; 9],
    gap: &'static str,
    style: Style,
}

impl Layout {
    fn of(tables: &[Vec<Row>], style: Style) -> Layout {
        let rows = || tables.iter().flatten();
        let widths =
            std::array::from_fn(|column| rows().map(|row| display_width(&row[column].text)).max().unwrap_or_default());
        let full = widths.iter().map(|width| width + 2).sum::<usize>();
        Layout { widths, gap: if full > style.width { " " } else { "  " }, style }
    }

    fn set(&self, row: &Row) -> String {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(self.widths) {
            line += if line == " " { " " } else { self.gap };
            line += &self.style.paint(cell.code, &cell.text);
            line += &" ".repeat(width - display_width(&cell.text));
        }
        line.trim_end().to_owned()
    }
}

fn table(summary: &Summary, link: &PlannedLink) -> Vec<Row> {
    let baseline = format!("vs {}", summary.baseline_label());
    let header = ["", "median", "95 %", &baseline, "95 %", "conns", "shakes", "retrans", "CPU c/o"];
    let fastest = summary.verdicts.iter().find(|verdict| verdict.link == link.name).and_then(|verdict| verdict.fastest);
    let header = header.map(|text| Cell { text: text.to_owned(), code: FAINT });
    let conditions = summary.conditions_on(&link.name);
    let rows = conditions.map(|condition| row(condition, summary.comparison_of(condition), fastest));
    std::iter::once(header).chain(rows).collect()
}

fn row(condition: &Condition, comparison: Option<&Comparison>, fastest: Option<usize>) -> Row {
    let or_absent = |text: Option<String>| Cell::plain(text.unwrap_or(ABSENT.to_owned()));
    let answer = match comparison.map(|comparison| comparison.answer) {
        Some(Answer::Faster) => GREEN,
        Some(Answer::Slower) => RED,
        Some(Answer::CannotTell) => YELLOW,
        Some(Answer::NoDifference) | None => "",
    };
    let name = if fastest == Some(condition.entrant) { BOLD } else { "" };
    [
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
