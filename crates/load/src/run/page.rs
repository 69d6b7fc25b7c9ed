use measure::PageLoad;

use crate::page::Page;
use crate::tally::{Tally, micros};

/// What one page load measured, or why it failed.
pub(super) fn page_load(tally: &Tally, page: &Page<'_>) -> Result<PageLoad, String> {
    let (first_byte, last_byte) = page.outcome()?;
    let Some(started) = tally.first else { return Err("it was not started".to_owned()) };
    if tally.requests.failed > 0 {
        return Err(format!("{} requests failed", tally.requests.failed));
    }
    Ok(PageLoad {
        duration_us: micros(last_byte.saturating_duration_since(started)),
        first_byte_us: micros(first_byte.saturating_duration_since(started)),
        objects: page.requests() as u32 - 1,
        data_bytes: tally.traffic.data_bytes,
        connections: tally.connections.used as u32,
    })
}
