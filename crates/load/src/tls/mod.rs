//! TLS as all connections of a client have it, over TCP and within QUIC.
//!
//! ```text
//!  TlsPlan ──> names, verify, identity, key_log, sessions ──> TlsSetup ──┬──> rustls over a byte stream
//!                                                                        └──> quic: rustls within quinn-proto
//! ```

mod identity;
mod key_log;
mod names;
mod quic;
mod sessions;
mod verify;

use std::sync::Arc;

use measure::{Protocol, TlsFacts};
use quinn_proto::crypto;
use rustls::client::Resumption;
use rustls::{ClientConfig, CommonState};
use rustls_pki_types::ServerName;

pub use self::names::{Cipher, Group, TlsVersion};
use self::names::{cipher_name, group_name};
pub(crate) use self::quic::Agreement;
use self::quic::QuicTls;
use self::sessions::Sessions;
use self::verify::Verifier;
use crate::channel::Broken;
use crate::{LoadError, Plan, Verification};

/// Everything that the connections of a client share about TLS: one configuration, one store of sessions.
///
/// Sessions are kept for the run only, so each run begins with full handshakes; connections that it opens later may
/// resume, as a browser's would.
#[derive(Clone, Debug)]
pub(crate) struct TlsSetup {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
    protocol: Protocol,
    resume: bool,
    verification: &'static str,
}

impl TlsSetup {
    /// Reads the files that the plan names and builds the configuration.
    pub(crate) fn new(plan: &Plan) -> Result<TlsSetup, LoadError> {
        let setup_error = |error: &dyn std::fmt::Display| LoadError::TlsSetup(error.to_string());
        let options = &plan.tls;
        let provider = Arc::new(names::provider(&options.ciphers, &options.groups));
        // The first random number costs AWS-LC some 20 ms of CPU; better here than in the first handshake.
        provider.secure_random.fill(&mut [0; 1]).map_err(|_| LoadError::TlsSetup("no random numbers".to_owned()))?;
        let verifier = Verifier::new(&options.verification, Arc::clone(&provider))?;
        let versions: Vec<_> = options.offered_versions(plan.protocol).map(TlsVersion::supported).collect();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| setup_error(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some(files) => builder.with_client_cert_resolver(Arc::new(identity::read(files, &provider)?)),
        };
        config.alpn_protocols = options.offered_alpn(plan.protocol);
        config.enable_early_data = options.early_data;
        if let Some(path) = options.key_log.clone().or_else(key_log::named_by_environment) {
            config.key_log = key_log::open(path)?;
        }
        config.resumption = resumption(options.resume);
        let name = options.server_name.clone().unwrap_or_else(|| plan.target.server_name());
        let verification = match options.verification {
            Verification::Roots => "roots",
            Verification::CaFile(_) => "cacert",
            Verification::Insecure => "insecure",
        };
        Ok(TlsSetup {
            config: Arc::new(config),
            name: ServerName::try_from(name).map_err(|error| setup_error(&error))?,
            protocol: plan.protocol,
            resume: options.resume,
            verification,
        })
    }

    /// The same setup without any session to resume: what a browser with an empty cache has.
    pub(crate) fn cold(&self) -> TlsSetup {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = resumption(self.resume);
        TlsSetup { config: Arc::new(config), ..self.clone() }
    }

    /// The TLS side of QUIC connections.
    pub(crate) fn quic(&self) -> Arc<dyn crypto::ClientConfig> {
        Arc::new(QuicTls(self.clone()))
    }

    /// Whether the server chose the one protocol that is wanted. HTTP/1.1 is also what a server without ALPN speaks
    /// (RFC 9110 section 4.3); the others must be chosen.
    pub(crate) fn check_alpn(&self, chosen: Option<&[u8]>) -> Result<(), Broken> {
        let wanted = self.protocol.alpn();
        if chosen == wanted || (chosen.is_none() && self.protocol == Protocol::H1) {
            return Ok(());
        }
        Err(self.wrong_protocol(chosen))
    }

    /// The server chose something else, or an alert.
    pub(crate) fn wrong_protocol(&self, chosen: Option<&[u8]>) -> Broken {
        Broken::WrongProtocol { offered: self.offered(), chosen: chosen.map(<[u8]>::to_vec) }
    }

    /// The ALPN identifiers offered, with commas between them.
    pub(crate) fn offered(&self) -> String {
        let offered: Vec<_> = self.config.alpn_protocols.iter().map(|name| String::from_utf8_lossy(name)).collect();
        offered.join(",")
    }

    /// How the certificate was checked: `roots`, `cacert` or `insecure`.
    pub(crate) fn verification(&self) -> String {
        self.verification.to_owned()
    }

    /// What a handshake over a byte stream agreed on, for people.
    pub(crate) fn facts(&self, tls: &CommonState) -> TlsFacts {
        let version = tls.protocol_version().and_then(|version| version.as_str().map(str::to_owned));
        TlsFacts {
            version: version.unwrap_or_default().replace("v1_", "v1."),
            cipher: tls.negotiated_cipher_suite().map_or_else(String::new, |suite| cipher_name(suite.suite())),
            group: tls.negotiated_key_exchange_group().map_or_else(String::new, |group| group_name(group.name())),
            alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
            verification: self.verification(),
        }
    }

    /// What a handshake of QUIC agreed on, for people.
    pub(crate) fn quic_facts(&self, agreed: Option<&Agreement>) -> TlsFacts {
        TlsFacts {
            version: "TLSv1.3".to_owned(),
            cipher: agreed.and_then(|agreed| agreed.cipher).map_or_else(String::new, cipher_name),
            group: agreed.and_then(|agreed| agreed.group).map_or_else(String::new, group_name),
            alpn: agreed
                .and_then(|agreed| agreed.alpn.as_deref())
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            verification: self.verification(),
        }
    }
}

/// An empty store of sessions, or one that stays empty.
fn resumption(enabled: bool) -> Resumption {
    if enabled { Resumption::store(Arc::new(Sessions::default())) } else { Resumption::disabled() }
}

#[cfg(test)]
impl TlsSetup {
    fn for_tests() -> TlsSetup {
        use crate::{Amount, Model, Target};
        let target = Target::parse("https://localhost/", None).unwrap();
        let mut plan = Plan::new(target, Protocol::H3, Model::ClosedLoop, Amount::Requests(1));
        plan.tls.verification = Verification::Insecure;
        TlsSetup::new(&plan).unwrap()
    }
}
