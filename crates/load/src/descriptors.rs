use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{LoadError, Plan};

/// What is open besides sockets and event queues: the standard streams, what the resolver needs, what was inherited.
const OTHERS: u64 = 32;

/// Makes sure that the process may open a socket for every connection, and a log where one is asked for: raises the soft
/// limit as far as is needed.
///
/// # Errors
/// The hard limit is too low.
pub(crate) fn provide(plan: &Plan) -> Result<(), LoadError> {
    // Each worker has a poll, a waker's worth of room and an alarm.
    let per_connection = 1 + u64::from(plan.transport.qlog.is_some());
    let per_client = per_connection * u64::from(plan.connections) + 3 * u64::from(plan.threads);
    let needed = u64::from(plan.clients) * per_client + OTHERS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    if needed <= soft {
        return Ok(());
    }
    if needed > hard {
        return Err(LoadError::Descriptors { connections: plan.connections * plan.clients, needed, limit: hard });
    }
    Ok(setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(io::Error::from)?)
}
