use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::{Protocol, TlsFacts};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, WebPkiServerVerifier, verify_server_name,
};
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CipherSuite, ClientConfig, DigitallySignedStruct, NamedGroup, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::cipher::AgreedCipher;
use crate::{LoadError, Plan, Verification};

/// Everything that the connections of a run share about TLS: one configuration, one store of sessions.
///
/// Sessions are kept for the run only, so each run begins with full handshakes; connections that it opens later may
/// resume, as a browser's would.
#[derive(Clone, Debug)]
pub(crate) struct TlsSetup {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
    sessions: Arc<ClientSessionMemoryCache>,
    quic_cipher: AgreedCipher,
    verifier: Verifier,
}

impl TlsSetup {
    /// Reads certificates and builds the configuration for the plan's protocol, which is the only one offered.
    pub(crate) fn new(plan: &Plan) -> Result<TlsSetup, LoadError> {
        let setup_error = |error: &dyn std::fmt::Display| LoadError::TlsSetup(error.to_string());
        let mut provider = provider();
        let quic_cipher = AgreedCipher::default();
        if plan.protocol == Protocol::H3 {
            provider.cipher_suites = quic_cipher.observe(&provider.cipher_suites);
        }
        let provider = Arc::new(provider);
        // The first random number costs AWS-LC some 20 ms of CPU; better here than in the first handshake.
        provider.secure_random.fill(&mut [0; 1]).map_err(|_| LoadError::TlsSetup("no random numbers".to_owned()))?;
        let verifier = verifier(&plan.verification, Arc::clone(&provider))?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| setup_error(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier.clone()))
            .with_no_client_auth();
        config.alpn_protocols = plan.protocol.alpn().map(<[u8]>::to_vec).into_iter().collect();
        let sessions = remember_sessions(&mut config);
        let name = plan.target.server_name();
        let name = ServerName::try_from(name).map_err(|error| setup_error(&error))?;
        Ok(TlsSetup { config: Arc::new(config), name, sessions, quic_cipher, verifier })
    }

    /// The same setup without any session to resume: what a browser with an empty cache has.
    pub(crate) fn cold(&self) -> TlsSetup {
        let mut config = ClientConfig::clone(&self.config);
        let sessions = remember_sessions(&mut config);
        TlsSetup { config: Arc::new(config), sessions, ..self.clone() }
    }

    /// The ALPN identifier offered.
    pub(crate) fn offered(&self) -> &[u8] {
        self.config.alpn_protocols.first().map_or(&[], Vec::as_slice)
    }

    /// How the certificate was checked: `roots`, `cacert` or `insecure`.
    pub(crate) fn verification(&self) -> String {
        self.verifier.name.to_owned()
    }

    /// A configuration for one connection, and a flag that tells whether the server showed its certificate: a
    /// handshake without that is a resumed one. QUIC needs this, because quinn-proto does not say.
    pub(crate) fn observed(&self) -> (Arc<ClientConfig>, Arc<AtomicBool>) {
        let shown = Arc::new(AtomicBool::new(false));
        let mut config = ClientConfig::clone(&self.config);
        let verifier = Verifier { shown: Arc::clone(&shown), ..self.verifier.clone() };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        (Arc::new(config), shown)
    }

    /// What TLS agreed on in the latest QUIC handshake. quinn-proto tells no more than ALPN; the key exchange is what
    /// the store of sessions remembers to offer next time.
    pub(crate) fn quic_facts(&self, alpn: Option<Vec<u8>>) -> TlsFacts {
        TlsFacts {
            version: "TLSv1.3".to_owned(),
            cipher: self.quic_cipher.get().map_or_else(String::new, cipher_name),
            key_exchange: self.sessions.kx_hint(&self.name).map_or_else(String::new, group_name),
            alpn: alpn.map(|name| String::from_utf8_lossy(&name).into_owned()),
            verification: self.verification(),
        }
    }
}

/// Gives a configuration an empty store of sessions.
fn remember_sessions(config: &mut ClientConfig) -> Arc<ClientSessionMemoryCache> {
    let sessions = Arc::new(ClientSessionMemoryCache::new(32));
    config.resumption = Resumption::store(Arc::clone(&sessions) as Arc<dyn ClientSessionStore>);
    sessions
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

/// AWS-LC with the key exchanges that browsers offer, in their order: the post-quantum hybrid first.
fn provider() -> CryptoProvider {
    CryptoProvider {
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        ..aws_lc_rs::default_provider()
    }
}

fn verifier(verification: &Verification, provider: Arc<CryptoProvider>) -> Result<Verifier, LoadError> {
    let (roots, named, name) = match verification {
        Verification::Insecure => (None, Vec::new(), "insecure"),
        Verification::CaFile(path) => {
            let (roots, named) = certificates(path)?;
            (Some(roots), named, "cacert")
        }
        Verification::Roots => (Some(native_roots()?), Vec::new(), "roots"),
    };
    let chain = roots
        .map(|roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build())
        .transpose()
        .map_err(|error| LoadError::TlsSetup(error.to_string()))?;
    Ok(Verifier { chain, named: named.into(), provider, name, shown: Arc::default() })
}

/// The certificates of a PEM file, to check chains with and to be shown as they are.
fn certificates(path: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), LoadError> {
    let failed = |reason: String| LoadError::Certificates { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    let mut named = Vec::new();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))? {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots.add(certificate.clone()).map_err(|error| failed(error.to_string()))?;
        named.push(certificate);
    }
    if named.is_empty() { Err(failed("it holds no certificate".to_owned())) } else { Ok((roots, named)) }
}

fn native_roots() -> Result<RootCertStore, LoadError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(LoadError::NoRoots(if reasons.is_empty() { "none found".to_owned() } else { reasons.join("; ") }));
    }
    Ok(roots)
}

/// Checks the server's certificate as the plan wants it, and notes that one was shown. That the server holds the
/// certificate's key is checked always.
#[derive(Clone, Debug)]
struct Verifier {
    /// Checks the chain; `None` to take any certificate.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that the user named. One of them shown as the server's own is trusted for its names, even if it
    /// says that it is an authority's (as `openssl req -x509` makes them) or out of date.
    named: Arc<[CertificateDer<'static>]>,
    provider: Arc<CryptoProvider>,
    name: &'static str,
    shown: Arc<AtomicBool>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.shown.store(true, Ordering::Relaxed);
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let result = chain.verify_server_cert(end_entity, intermediates, server_name, ocsp, now);
        if result.is_err() && self.named.iter().any(|named| named == end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
