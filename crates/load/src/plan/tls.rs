use std::path::PathBuf;

use measure::Protocol;
use rustls_pki_types::ServerName;

use super::{Plan, Planned, bad};
use crate::LoadError;
use crate::tls::{Cipher, Group, TlsVersion};

/// What TLS offers, and what it accepts. An empty list is the engine's own choice.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// How the server's certificate is checked.
    pub verification: Verification,
    /// The client's own certificate.
    pub identity: Option<Identity>,
    /// The name to ask for (SNI, unless it is an address) and to check the certificate against, instead of the URL's
    /// host.
    pub server_name: Option<String>,
    /// ALPN identifiers to offer, in order of preference; that of the plan's protocol must be among them, and be
    /// chosen. Empty offers it alone.
    pub alpn: Vec<String>,
    /// Versions; empty offers all, over QUIC TLS 1.3.
    pub versions: Vec<TlsVersion>,
    /// Cipher suites, in order of preference. A version for which there is none is not offered.
    pub ciphers: Vec<Cipher>,
    /// Key exchange groups, in order of preference. A share of the first one goes out with the first flight.
    pub groups: Vec<Group>,
    /// Whether connections resume the sessions of earlier ones of the same client.
    pub resume: bool,
    /// Whether requests go out with the first flight of a resumed session (0-RTT, RFC 8446 section 2.3, RFC 8470). What
    /// the server rejects is sent again after the handshake.
    pub early_data: bool,
    /// Where to append the keys of every connection, in the NSS format that Wireshark reads. Without it the environment
    /// variable SSLKEYLOGFILE is obeyed.
    pub key_log: Option<PathBuf>,
}

impl Default for TlsPlan {
    fn default() -> Self {
        TlsPlan {
            verification: Verification::Roots,
            identity: None,
            server_name: None,
            alpn: Vec::new(),
            versions: Vec::new(),
            ciphers: Vec::new(),
            groups: Vec::new(),
            resume: true,
            early_data: false,
            key_log: None,
        }
    }
}

/// How the server's certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// Against the root certificates of this machine.
    Roots,
    /// Against the certificates of a PEM file.
    CaFile(PathBuf),
    /// Not at all.
    Insecure,
}

/// The client's own certificate, for servers that ask for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate, and those of its issuers after it.
    pub certificate: PathBuf,
    /// PEM file with the certificate's key, not encrypted; it may be the same file.
    pub key: PathBuf,
}

impl TlsPlan {
    /// Versions that are offered: those asked for, as far as the protocol and the ciphers allow.
    pub(crate) fn offered_versions(&self, protocol: Protocol) -> impl Iterator<Item = TlsVersion> {
        TlsVersion::ALL.into_iter().filter(move |version| {
            (self.versions.is_empty() || self.versions.contains(version))
                && (self.ciphers.is_empty() || self.ciphers.iter().any(|cipher| cipher.version() == *version))
                && (protocol != Protocol::H3 || *version == TlsVersion::Tls13)
        })
    }

    /// ALPN identifiers that are offered.
    pub(crate) fn offered_alpn(&self, protocol: Protocol) -> Vec<Vec<u8>> {
        match self.alpn.as_slice() {
            [] => protocol.alpn().map(<[u8]>::to_vec).into_iter().collect(),
            names => names.iter().map(|name| name.as_bytes().to_vec()).collect(),
        }
    }

    pub(super) fn check(&self, plan: &Plan) -> Result<(), LoadError> {
        let protocol = plan.protocol;
        let Some(alpn) = protocol.alpn() else { return self.check_absent(protocol) };
        if let Some(name) = &self.server_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            return bad(format!("--sni '{name}' is neither a host name nor an address"));
        }
        if let Some(name) = self.alpn.iter().find(|name| name.is_empty() || name.len() > 255) {
            return bad(format!("--alpn-list holds '{name}', but an identifier has 1 to 255 bytes"));
        }
        if !self.alpn.is_empty() && !self.alpn.iter().any(|name| name.as_bytes() == alpn) {
            let (name, list) = (String::from_utf8_lossy(alpn), self.alpn.join(","));
            return bad(format!("{protocol} is chosen as '{name}', which --alpn-list {list} does not offer; add it"));
        }
        self.check_versions(protocol)?;
        if self.early_data { self.check_early_data(plan) } else { Ok(()) }
    }

    /// Refuses what cleartext has no use for.
    fn check_absent(&self, protocol: Protocol) -> Result<(), LoadError> {
        let given = [
            ("--cert", self.identity.is_some()),
            ("--sni", self.server_name.is_some()),
            ("--alpn-list", !self.alpn.is_empty()),
            ("--tls-versions", !self.versions.is_empty()),
            ("--ciphers", !self.ciphers.is_empty()),
            ("--groups", !self.groups.is_empty()),
            ("--no-resume", !self.resume),
            ("--early-data", self.early_data),
            ("--key-log", self.key_log.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => bad(format!(
                "{flag} is about TLS and {protocol} is cleartext; leave it out, or use h1, h2 or h3 and https://"
            )),
            None => Ok(()),
        }
    }

    fn check_versions(&self, protocol: Protocol) -> Result<(), LoadError> {
        let asked = if self.versions.is_empty() { &TlsVersion::ALL[..] } else { &self.versions };
        if protocol == Protocol::H3 && !asked.contains(&TlsVersion::Tls13) {
            return bad("h3 is always TLS 1.3 (RFC 9001); leave --tls-versions out, or use h1 or h2".to_owned());
        }
        if let Some(cipher) = self.ciphers.iter().find(|cipher| !asked.contains(&cipher.version())) {
            let version = cipher.version();
            return bad(format!("{cipher} belongs to TLS {version}, which --tls-versions leaves out; add {version}"));
        }
        if let Some(version) = self.versions.iter().find(|version| {
            !self.ciphers.is_empty() && !self.ciphers.iter().any(|cipher| cipher.version() == **version)
        }) {
            return bad(format!("--ciphers has none for TLS {version}; add one, or leave {version} out"));
        }
        let mut offered = self.offered_versions(protocol).peekable();
        if offered.peek().is_none() {
            return bad(format!("--ciphers has none for TLS 1.3, which is all that {protocol} speaks; add one"));
        }
        if let Some(version) =
            offered.find(|version| !self.groups.is_empty() && !self.groups.iter().any(|group| group.fits(*version)))
        {
            return bad(format!(
                "--groups has none for TLS {version}; add one such as x25519, or offer another version alone with \
                 --tls-versions"
            ));
        }
        Ok(())
    }

    fn check_early_data(&self, plan: &Plan) -> Result<(), LoadError> {
        if !self.resume {
            return bad("--early-data belongs to resumed sessions; leave --no-resume out".to_owned());
        }
        if !self.offered_versions(plan.protocol).any(|version| version == TlsVersion::Tls13) {
            return bad("--early-data needs TLS 1.3; offer it, and a cipher for it".to_owned());
        }
        match plan.requests.iter().find(|request| !request.is_repeatable()) {
            Some(Planned { method, path, .. }) => bad(format!(
                "--early-data may be replayed by anyone on the way (RFC 8470), so it carries GET, HEAD and OPTIONS \
                 without a body only; leave it out, or leave out {method} {path}"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, Model, Target};

    fn refused(protocol: Protocol, change: impl FnOnce(&mut Plan)) -> Option<String> {
        let target = Target::parse(&format!("{}://host/", protocol.scheme()), None).unwrap();
        let mut plan = Plan::new(target, protocol, Model::ClosedLoop, Amount::Requests(1));
        change(&mut plan);
        plan.check().err().map(|error| error.to_string())
    }

    fn assert_refused(protocol: Protocol, part: &str, change: impl FnOnce(&mut Plan)) {
        let message = refused(protocol, change).unwrap_or_else(|| panic!("accepted: {part}"));
        assert!(message.contains(part), "{message}");
    }

    const TLS13: &str = "TLS_AES_128_GCM_SHA256";
    const TLS12: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";

    fn ciphers(names: &[&str]) -> Vec<Cipher> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn groups(names: &[&str]) -> Vec<Group> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn cleartext_takes_no_options_of_tls() {
        for protocol in [Protocol::H1c, Protocol::H2c] {
            assert_refused(protocol, "--early-data is about TLS", |plan| plan.tls.early_data = true);
            assert_refused(protocol, "--no-resume is about TLS", |plan| plan.tls.resume = false);
            assert_refused(protocol, "--key-log is about TLS", |plan| plan.tls.key_log = Some("keys".into()));
            assert_refused(protocol, "use h1, h2 or h3", |plan| plan.tls.groups = groups(&["x25519"]));
        }
    }

    #[test]
    fn versions_ciphers_and_groups_fit_each_other() {
        use TlsVersion::{Tls12, Tls13};
        assert_refused(Protocol::H3, "always TLS 1.3", |plan| plan.tls.versions = vec![Tls12]);
        assert_refused(Protocol::H3, "all that h3 speaks", |plan| plan.tls.ciphers = ciphers(&[TLS12]));
        assert_refused(Protocol::H2, "belongs to TLS 1.2", |plan| {
            plan.tls.versions = vec![Tls13];
            plan.tls.ciphers = ciphers(&[TLS13, TLS12]);
        });
        assert_refused(Protocol::H2, "none for TLS 1.2; add one", |plan| {
            plan.tls.versions = vec![Tls12, Tls13];
            plan.tls.ciphers = ciphers(&[TLS13]);
        });
        assert_refused(Protocol::H2, "--groups has none for TLS 1.2", |plan| {
            plan.tls.groups = groups(&["X25519MLKEM768"]);
        });
        assert_eq!(
            refused(Protocol::H2, |plan| {
                plan.tls.ciphers = ciphers(&[TLS13]);
                plan.tls.groups = groups(&["X25519MLKEM768"]);
            }),
            None
        );
        assert_eq!(refused(Protocol::H3, |plan| plan.tls.groups = groups(&["X25519MLKEM768"])), None);
        let only = TlsPlan { ciphers: ciphers(&[TLS12]), ..TlsPlan::default() };
        assert_eq!(only.offered_versions(Protocol::H2).collect::<Vec<_>>(), [Tls12]);
    }

    #[test]
    fn alpn_offers_the_protocol_that_is_demanded() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_refused(Protocol::H2, "is chosen as 'h2'", |plan| plan.tls.alpn = list(&["http/1.1"]));
        assert_refused(Protocol::H2, "1 to 255 bytes", |plan| plan.tls.alpn = list(&["h2", ""]));
        assert_eq!(refused(Protocol::H1, |plan| plan.tls.alpn = list(&["h2", "http/1.1"])), None);
        assert_refused(Protocol::H1, "neither a host name nor", |plan| plan.tls.server_name = Some("a b".to_owned()));
    }

    #[test]
    fn early_data_carries_what_may_be_repeated() {
        assert_eq!(refused(Protocol::H3, |plan| plan.tls.early_data = true), None);
        assert_refused(Protocol::H2, "leave --no-resume out", |plan| {
            plan.tls.early_data = true;
            plan.tls.resume = false;
        });
        assert_refused(Protocol::H2, "--early-data needs TLS 1.3", |plan| {
            plan.tls.early_data = true;
            plan.tls.versions = vec![TlsVersion::Tls12];
        });
        assert_refused(Protocol::H2, "leave out POST /", |plan| {
            plan.tls.early_data = true;
            plan.requests[0].method = "POST".to_owned();
        });
        assert_refused(Protocol::H2, "leave out GET /", |plan| {
            plan.tls.early_data = true;
            plan.requests[0].body = "body".into();
        });
    }
}
