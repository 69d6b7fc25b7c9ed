//! What TLS can be told to offer, by the names that the registry of IANA gives it.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

use crate::LoadError;

/// A version of TLS. Older ones than these are not spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446), the only one in QUIC.
    Tls13,
}

impl TlsVersion {
    pub(crate) const ALL: [TlsVersion; 2] = [TlsVersion::Tls12, TlsVersion::Tls13];

    pub(crate) fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            TlsVersion::Tls12 => &rustls::version::TLS12,
            TlsVersion::Tls13 => &rustls::version::TLS13,
        }
    }

    fn code(self) -> ProtocolVersion {
        self.supported().version
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        })
    }
}

impl FromStr for TlsVersion {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<TlsVersion, LoadError> {
        TlsVersion::ALL.into_iter().find(|version| version.to_string() == text).ok_or_else(|| {
            LoadError::Plan(format!("'{text}' is not a version of TLS that can be offered; expected 1.2 or 1.3"))
        })
    }
}

/// A cipher suite.
#[derive(Clone, Copy, PartialEq)]
pub struct Cipher(SupportedCipherSuite);

impl Cipher {
    /// Every suite that can be offered, in the order in which browsers offer them: by version, then AES with 128 bits,
    /// AES with 256, ChaCha20.
    pub fn all() -> impl Iterator<Item = Cipher> {
        let mut all: Vec<Cipher> = ALL_CIPHER_SUITES.iter().copied().map(Cipher).collect();
        let preference = |cipher: &Cipher| {
            let name = cipher.to_string();
            let rank = ["AES_128", "AES_256"].iter().position(|part| name.contains(part)).unwrap_or(2);
            (cipher.version() != TlsVersion::Tls13, rank)
        };
        all.sort_by_key(preference);
        all.into_iter()
    }

    /// The version of TLS that it belongs to.
    pub fn version(self) -> TlsVersion {
        if self.0.tls13().is_some() { TlsVersion::Tls13 } else { TlsVersion::Tls12 }
    }

    pub(super) fn suite(self) -> SupportedCipherSuite {
        self.0
    }
}

impl Eq for Cipher {}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cipher_name(self.0.suite()))
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Cipher {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Cipher, LoadError> {
        find(text, "cipher suite", Cipher::all())
    }
}

/// A group for the key exchange.
#[derive(Clone, Copy)]
pub struct Group(&'static dyn SupportedKxGroup);

impl Group {
    /// Every group that can be offered, in the order in which browsers offer them: the post-quantum hybrid first.
    pub fn all() -> impl Iterator<Item = Group> {
        [kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1].into_iter().map(Group)
    }

    /// Whether a version of TLS has it; the hybrid needs TLS 1.3.
    pub fn fits(self, version: TlsVersion) -> bool {
        self.0.usable_for_version(version.code())
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.0.name() == other.0.name()
    }
}

impl Eq for Group {}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&group_name(self.0.name()))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Group {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Group, LoadError> {
        find(text, "key exchange group", Group::all())
    }
}

/// What has this name, in whatever case.
fn find<T: fmt::Display>(text: &str, kind: &str, all: impl Iterator<Item = T>) -> Result<T, LoadError> {
    let mut known = Vec::new();
    for candidate in all {
        let name = candidate.to_string();
        if name.eq_ignore_ascii_case(text) {
            return Ok(candidate);
        }
        known.push(name);
    }
    Err(LoadError::Plan(format!("'{text}' is not a {kind} that can be offered; known are {}", known.join(", "))))
}

/// AWS-LC with so many ciphers and groups; empty lists stand for all of them in the order of browsers, which prefer the
/// faster AES with 128 bits.
pub(super) fn provider(ciphers: &[Cipher], groups: &[Group]) -> CryptoProvider {
    let default = aws_lc_rs::default_provider();
    let groups: Vec<Group> = if groups.is_empty() { Group::all().collect() } else { groups.to_vec() };
    CryptoProvider {
        cipher_suites: match ciphers {
            [] => Cipher::all().map(Cipher::suite).collect(),
            ciphers => ciphers.iter().map(|cipher| cipher.suite()).collect(),
        },
        kx_groups: groups.into_iter().map(|group| group.0).collect(),
        ..default
    }
}

/// The IANA name of a key exchange group, in the spelling of the registry and of browsers.
pub(crate) fn group_name(group: NamedGroup) -> String {
    match group {
        NamedGroup::X25519 => "x25519".to_owned(),
        other => other.as_str().map_or_else(|| format!("{other:?}"), str::to_owned),
    }
}

/// The IANA name of a cipher suite; the TLS library writes `TLS13_` where the registry writes `TLS_`.
pub(crate) fn cipher_name(suite: CipherSuite) -> String {
    suite.as_str().map_or_else(|| format!("{suite:?}"), |name| name.replacen("TLS13_", "TLS_", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for cipher in Cipher::all() {
            assert_eq!(cipher.to_string().parse::<Cipher>().unwrap(), cipher);
        }
        for group in Group::all() {
            assert_eq!(group.to_string().to_uppercase().parse::<Group>().unwrap(), group);
        }
        for version in TlsVersion::ALL {
            assert_eq!(version.to_string().parse::<TlsVersion>().unwrap(), version);
        }
        let names: Vec<String> = Group::all().map(|group| group.to_string()).collect();
        assert_eq!(names, ["X25519MLKEM768", "x25519", "secp256r1", "secp384r1"]);
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let message = "TLS_RSA_WITH_RC4_128_MD5".parse::<Cipher>().unwrap_err().to_string();
        assert!(message.contains("TLS_AES_128_GCM_SHA256, "), "{message}");
        assert!(message.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"), "{message}");
        let message = "P-521".parse::<Group>().unwrap_err().to_string();
        assert!(message.ends_with("known are X25519MLKEM768, x25519, secp256r1, secp384r1"), "{message}");
        assert!("1.1".parse::<TlsVersion>().unwrap_err().to_string().contains("1.2 or 1.3"));
    }
}
