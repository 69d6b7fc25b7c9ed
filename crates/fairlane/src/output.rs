//! The two streams of the terminal: results on standard output, chatter on standard error.

use std::io::{self, IsTerminal as _, Write as _, stderr, stdout};

use report::Style;

use crate::failure::Failure;

/// Prints what a command was asked for. A reader that has had enough, as in `| head -1`, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Machine(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says something beside the result. That nobody can read it changes nothing.
pub fn say(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}

/// How to draw on standard output: colour only on a terminal that knows it and without NO_COLOR, as wide as it is.
pub fn style() -> Style {
    let is_terminal = stdout().is_terminal();
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    let wanted = !is_dumb && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
    Style { colour: is_terminal && wanted, width: if is_terminal { width } else { 80 } }
}
