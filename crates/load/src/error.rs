use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use measure::Protocol;

/// Why a run could not be made. A run in which requests failed is not an error: its summary says so.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan contradicts itself or cannot be read.
    #[error("{0}")]
    Plan(String),
    /// The host name has no address.
    #[error("cannot resolve '{host}': {source}")]
    Resolve {
        /// Host and port as asked for.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The certificates to trust cannot be read.
    #[error("cannot use the certificates of {path}: {reason}; give a PEM file with at least one certificate")]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The key of the client's certificate cannot be used.
    #[error("cannot use the key of {path}: {reason}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An address that connections should come from cannot be used.
    #[error("cannot connect from {address}: {source}; --source takes addresses of this machine (ip address)")]
    Source {
        /// The address.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A file that the plan names cannot be used.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No root certificate was found on this machine.
    #[error("this machine has no root certificates ({0}); give --cacert FILE, or --insecure to check nothing")]
    NoRoots(String),
    /// The TLS library refused its configuration.
    #[error("cannot set TLS up: {0}")]
    TlsSetup(String),
    /// Not one connection could be made.
    #[error("cannot connect to {host} with {protocol}: {reason}{hint}", hint = hint(reason))]
    Connect {
        /// Host and port.
        host: String,
        /// The wanted protocol.
        protocol: Protocol,
        /// What the last attempt said.
        reason: String,
    },
    /// The server speaks TLS but not the wanted protocol.
    #[error("{host} does not speak {protocol}: '{offered}' was offered by ALPN and the server chose {chosen}")]
    WrongProtocol {
        /// Host and port.
        host: String,
        /// The wanted protocol.
        protocol: Protocol,
        /// ALPN identifier offered.
        offered: String,
        /// What the server chose instead.
        chosen: String,
    },
    /// More connections than the process may have files open.
    #[error(
        "{connections} connections need {needed} open files and this process may have {limit}: use fewer (-c), or raise \
         the limit with ulimit -n {needed}"
    )]
    Descriptors {
        /// Connections asked for.
        connections: u32,
        /// Descriptors that these and the engine need.
        needed: u64,
        /// The hard limit (RLIMIT_NOFILE).
        limit: u64,
    },
    /// The machine refused a socket, a thread or an event queue.
    #[error("cannot run the load engine: {0}")]
    Machine(#[from] io::Error),
}

/// What to do about an unverifiable certificate.
fn hint(reason: &str) -> &'static str {
    if reason.contains("certificate") {
        "; trust it with --cacert FILE, or use --insecure to check nothing"
    } else {
        ""
    }
}
