use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of the five ways in which the same request can travel.
///
/// The suffix `c` means cleartext, as in the IETF identifier `h2c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 over cleartext TCP (RFC 9112).
    H1c,
    /// HTTP/1.1 over TLS.
    H1,
    /// HTTP/2 over cleartext TCP with prior knowledge (RFC 9113 section 3.3).
    H2c,
    /// HTTP/2 over TLS, chosen by ALPN (RFC 9113 section 3.2).
    H2,
    /// HTTP/3 over QUIC (RFC 9114).
    H3,
}

impl Protocol {
    /// Every protocol, in the order in which tables list them.
    pub const ALL: [Protocol; 5] = [Protocol::H1c, Protocol::H1, Protocol::H2c, Protocol::H2, Protocol::H3];

    /// The short name used in flags, files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::H1c => "h1c",
            Protocol::H1 => "h1",
            Protocol::H2c => "h2c",
            Protocol::H2 => "h2",
            Protocol::H3 => "h3",
        }
    }

    /// The name that a sentence uses.
    pub const fn title(self) -> &'static str {
        match self {
            Protocol::H1c => "HTTP/1.1 in cleartext",
            Protocol::H1 => "HTTP/1.1",
            Protocol::H2c => "HTTP/2 in cleartext",
            Protocol::H2 => "HTTP/2",
            Protocol::H3 => "HTTP/3",
        }
    }

    /// Whether the connection is encrypted.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Protocol::H1 | Protocol::H2 | Protocol::H3)
    }

    /// Whether one connection carries many requests at once.
    pub const fn multiplexes(self) -> bool {
        matches!(self, Protocol::H2c | Protocol::H2 | Protocol::H3)
    }

    /// The URL scheme under which this protocol is asked for.
    pub const fn scheme(self) -> &'static str {
        if self.is_encrypted() { "https" } else { "http" }
    }

    /// The ALPN identifier (RFC 7301) offered for this protocol; `None` in cleartext.
    pub const fn alpn(self) -> Option<&'static [u8]> {
        match self {
            Protocol::H1 => Some(b"http/1.1"),
            Protocol::H2 => Some(b"h2"),
            Protocol::H3 => Some(b"h3"),
            Protocol::H1c | Protocol::H2c => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name given is not one of the five protocols.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown protocol '{0}': expected one of h1c, h1, h2c, h2, h3")]
pub struct ParseProtocolError(String);

impl FromStr for Protocol {
    type Err = ParseProtocolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.name() == text)
            .ok_or_else(|| ParseProtocolError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.name().parse(), Ok(protocol));
            let json = serde_json::to_string(&protocol).unwrap();
            assert_eq!(json, format!("\"{protocol}\""));
        }
        let error = "http3".parse::<Protocol>().unwrap_err();
        assert!(error.to_string().contains("'http3'"), "{error}");
    }
}
