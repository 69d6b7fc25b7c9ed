//! The client's own certificate.

use std::fs;
use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::pem::{Error, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Identity, LoadError};

/// Reads a certificate with its chain, and its key.
pub(super) fn read(identity: &Identity, provider: &CryptoProvider) -> Result<SingleCertAndKey, LoadError> {
    let chain = certificates(&identity.certificate)?;
    let failed = |reason| LoadError::Key { path: identity.key.clone(), reason };
    let key = provider.key_provider.load_private_key(key(&identity.key)?);
    let key = key.map_err(|error| failed(error.to_string()))?;
    // The library's own comparison cannot read certificates of version 1, which openssl makes.
    if let (Some(public), Some(certificate)) = (key.public_key(), chain.first())
        && !certificate.windows(public.len()).any(|part| part == &*public)
    {
        return Err(failed(format!("it is not the key of the certificate in {}", identity.certificate.display())));
    }
    Ok(CertifiedKey::new(chain, key).into())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let failed = |reason: String| LoadError::Certificates { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_slice_iter(&contents(path)?).collect::<Result<Vec<_>, _>>();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(failed("it holds no certificate".to_owned())),
        result => result.map_err(|error| failed(error.to_string())),
    }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, LoadError> {
    let failed = |reason: &str| LoadError::Key { path: path.to_owned(), reason: reason.to_owned() };
    let text = contents(path)?;
    // PKCS #8 says so in the label, older formats in a header (RFC 1421).
    let has = |mark: &[u8]| text.windows(mark.len()).any(|window| window == mark);
    if has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(failed("the key is encrypted; decrypt it first: openssl pkey -in FILE -out DECRYPTED"));
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        Error::NoItemsFound => failed("it holds no private key; expected PEM with BEGIN PRIVATE KEY"),
        error => failed(&error.to_string()),
    })
}

fn contents(path: &Path) -> Result<Vec<u8>, LoadError> {
    fs::read(path).map_err(|source| LoadError::File { path: path.to_owned(), source })
}
