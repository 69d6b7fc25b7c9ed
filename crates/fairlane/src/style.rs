use std::io::{IsTerminal as _, stdout};

use report::Style;

/// How to draw on standard output: colour only on a terminal that knows it and without NO_COLOR, as wide as the terminal is.
pub fn of_stdout() -> Style {
    let is_terminal = stdout().is_terminal();
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    let wanted = !is_dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    Style { colour: is_terminal && wanted, width: if is_terminal { width } else { 80 } }
}
