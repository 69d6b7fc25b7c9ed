use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Sets `stop` at the first SIGINT, SIGTERM or SIGHUP, so that what was measured can be shown; the second ends the
/// process at once.
pub fn watch(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stop))
            .and_then(|_| flag::register(signal, Arc::clone(stop)))
            .map_err(|error| Failure::Machine(format!("cannot watch for signal {signal}: {error}")))?;
    }
    Ok(())
}
