use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the origin could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another program listens on the address.
    #[error(
        "{transport} port {} on {} is taken by another program: choose another --port, or leave it out for a free one",
        address.port(),
        address.ip()
    )]
    PortTaken {
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address asked for.
        address: SocketAddr,
    },
    /// The port is privileged and this process has no right to it.
    #[error(
        "{transport} port {} on {} is below 1024 and this process may not use it: choose a --port from 1024 up, or run \
         with CAP_NET_BIND_SERVICE",
        address.port(),
        address.ip()
    )]
    PortForbidden {
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address asked for.
        address: SocketAddr,
    },
    /// The address cannot be listened on, for another reason.
    #[error("cannot listen on {transport} {address}: {source}")]
    Listen {
        /// `TCP` or `UDP`.
        transport: &'static str,
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// No port was free for TCP and UDP on every address.
    #[error("found no port that is free for TCP and UDP on every address: name one with --port")]
    NoFreePort,
    /// No protocol was asked for.
    #[error("no protocol to serve: name at least one of h1c, h1, h2c, h2, h3")]
    NoProtocol,
    /// A file or directory could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write` or `create`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold the PEM that it should hold.
    #[error("{} holds no usable {expected} in PEM: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        expected: &'static str,
        /// What the parser said.
        reason: String,
    },
    /// The certificate and the key cannot be used together.
    #[error("the certificate {} and the key {} cannot be used together: {source}", certificate.display(), key.display())]
    Pair {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What the TLS library said.
        source: rustls::Error,
    },
    /// A name cannot stand in a certificate.
    #[error("'{0}' is neither a DNS name nor an IP address, so no certificate can be made for it")]
    Name(String),
    /// The certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Issue(#[from] rcgen::Error),
    /// The TLS library refused the configuration.
    #[error("the TLS library refuses the configuration: {0}")]
    Tls(#[from] rustls::Error),
    /// An open socket could not be handed to the runtime.
    #[error("cannot serve an open socket: {0}")]
    Runtime(io::Error),
    /// The database of employees could not be opened.
    #[error("cannot open the database of employees {place}: {source}")]
    Store {
        /// `in memory` or the path of the file.
        place: String,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}
