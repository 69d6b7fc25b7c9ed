//! What a race looks like: a [`Summary`](analysis::Summary) and its trials as text for a terminal, as a self-contained
//! HTML page, and as CSV. Pure: data in, text out; nothing here decides what a number means.
//!
//! ```text
//!            ┌─ terminal() ─> tables, verdicts, warnings in 80 columns
//!  Summary ──┤
//!            └─ html() ─────> one page: verdicts, forest plot, dots of all trials, conditions; works offline
//!  Trial … ──┬───┘
//!            └─ csv() ──────> one row per trial
//! ```

mod figures;
mod html;
mod palette;
mod plots;
mod table;
mod terminal;

pub use html::html;
pub use table::csv;
pub use terminal::{Style, terminal};
