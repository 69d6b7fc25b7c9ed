//! How the server's certificate is checked.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::{LoadError, Verification};

/// Checks the server's certificate as the plan wants it. That the server holds the certificate's key is checked always.
#[derive(Debug)]
pub(super) struct Verifier {
    /// Checks the chain; `None` to take any certificate.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// Certificates that the user named. One of them shown as the server's own is trusted for its names, even if it
    /// says that it is an authority's (as `openssl req -x509` makes them) or out of date.
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// Reads the certificates to trust.
    pub(super) fn new(verification: &Verification, provider: Arc<CryptoProvider>) -> Result<Verifier, LoadError> {
        let (roots, named) = match verification {
            Verification::Insecure => (None, Vec::new()),
            Verification::CaFile(path) => {
                let (roots, named) = certificates(path)?;
                (Some(roots), named)
            }
            Verification::Roots => (Some(native_roots()?), Vec::new()),
        };
        let chain = roots
            .map(|roots| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build())
            .transpose()
            .map_err(|error| LoadError::TlsSetup(error.to_string()))?;
        Ok(Verifier { chain, named, provider })
    }
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

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
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
