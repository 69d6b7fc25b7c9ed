use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{LoadError, Plan};

/// What is open besides sockets and event queues: the standard streams, what the resolver needs, what was inherited.
const OTHERS: u64 = 32;

/// Makes sure that the process may open a socket for every connection: raises the soft limit as far as is needed.
///
/// # Errors
/// The hard limit is too low.
pub(crate) fn provide(plan: &Plan) -> Result<(), LoadError> {
    let needed = u64::from(plan.connections) + u64::from(plan.threads) + OTHERS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    if needed <= soft {
        return Ok(());
    }
    if needed > hard {
        return Err(LoadError::Descriptors { connections: plan.connections, needed, limit: hard });
    }
    Ok(setrlimit(Resource::RLIMIT_NOFILE, needed, hard).map_err(io::Error::from)?)
}
