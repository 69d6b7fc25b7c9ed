//! Certificates and the TLS configuration that every encrypted protocol shares.
//!
//! TLS 1.3 and 1.2 by rustls on aws-lc-rs. Its TLS 1.2 suites are all ephemeral and authenticated (ECDHE with AES-GCM or
//! ChaCha20-Poly1305), so HTTP/2 can never meet a suite that RFC 9113 appendix A forbids. Session tickets and everything
//! else are rustls's defaults; the protocols differ in their ALPN identifiers and in nothing else.

mod issue;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::files::{self, Access};
use crate::{Error, tls::issue::Issued};

/// Names that every certificate made here covers: the local ones and the origin's inside a lab.
pub const NAMES: [&str; 7] = ["localhost", "origin", "gallery.test", "127.0.0.1", "::1", "10.77.0.2", "fd77::2"];

/// A kept certificate is replaced when less than this is left of its life.
const SPARE: Duration = Duration::from_secs(24 * 3600);

/// A certificate with its key, and the CA that a client can trust to check it.
#[derive(Clone, Debug)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// Made here, kept nowhere.
    Memory,
    /// Given by the user.
    Files,
    /// Made here, under the CA in this file.
    Kept(PathBuf),
}

impl Identity {
    /// Makes a CA and a leaf for [`NAMES`] and `names`, in memory only: no client can check it.
    pub fn generate(names: &[String]) -> Result<Identity, Error> {
        let issued = issue::issue(&all_names(names)?)?;
        let key = PrivateKeyDer::try_from(issued.key.serialize_der()).expect("rcgen writes PKCS#8");
        Ok(Identity {
            key: Arc::new(CertifiedKey::from_der(vec![issued.leaf.into()], key, &provider())?),
            source: Source::Memory,
        })
    }

    /// Reads a certificate chain and its key, both in PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Identity, Error> {
        let chain = read_certificates(certificate)?;
        let key_pem = files::read(key)?;
        let key_der = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|error| Error::Pem {
            path: key.to_owned(),
            expected: "private key",
            reason: error.to_string(),
        })?;
        let certified = CertifiedKey::from_der(chain, key_der, &provider()).map_err(|source| Error::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            source,
        })?;
        Ok(Identity { key: Arc::new(certified), source: Source::Files })
    }

    /// The PEM file of the CA that a client must trust; `None` for a certificate in memory or one of the user's.
    pub fn ca(&self) -> Option<&Path> {
        match &self.source {
            Source::Kept(ca) => Some(ca),
            Source::Memory | Source::Files => None,
        }
    }

    /// Whether the certificate ends with this process, so that no client can have been told to trust it.
    pub fn is_temporary(&self) -> bool {
        matches!(self.source, Source::Memory)
    }

    /// Whether a client that trusts `ca` alone accepts this certificate for every one of `names` at `time`.
    fn satisfies(&self, ca: &Path, names: &[ServerName<'static>], time: UnixTime) -> bool {
        let mut roots = RootCertStore::empty();
        let Ok(certificates) = read_certificates(ca) else { return false };
        roots.add_parsable_certificates(certificates);
        let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build() else {
            return false;
        };
        let Some((leaf, intermediates)) = self.key.cert.split_first() else { return false };
        names.iter().all(|name| verifier.verify_server_cert(leaf, intermediates, name, &[], time).is_ok())
    }
}

/// The identity kept in `directory`, made there when there is none that is valid and covers [`NAMES`] and `names`.
///
/// The files are `ca.pem`, `cert.pem` and `key.pem` (mode 0600). The CA's own key is never written: nothing else can be
/// signed with it, so trusting `ca.pem` trusts this one certificate. A new certificate therefore has a new CA.
pub fn ensure(directory: &Path, names: &[String]) -> Result<Identity, Error> {
    let names = all_names(names)?;
    let [ca, certificate, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| directory.join(name));
    let tomorrow = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + SPARE;
    let usable = |identity: &Identity| identity.satisfies(&ca, &names, UnixTime::since_unix_epoch(tomorrow));
    if let Ok(identity) = Identity::load(&certificate, &key)
        && usable(&identity)
    {
        return Ok(Identity { source: Source::Kept(ca), ..identity });
    }
    files::create_directory(directory)?;
    let Issued { ca: issuer, leaf, key: leaf_key } = issue::issue(&names)?;
    files::write_atomically(&key, leaf_key.serialize_pem().as_bytes(), Access::Owner)?;
    files::write_atomically(&certificate, leaf.pem().as_bytes(), Access::Everyone)?;
    files::write_atomically(&ca, issuer.pem().as_bytes(), Access::Everyone)?;
    Ok(Identity { source: Source::Kept(ca), ..Identity::load(&certificate, &key)? })
}

/// The TLS configuration for the given ALPN identifiers, in order of preference.
pub(crate) fn server_config(identity: &Identity, alpn: Vec<Vec<u8>>) -> Result<ServerConfig, Error> {
    let resolver = SingleCertAndKey::from(Arc::clone(&identity.key));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = alpn;
    Ok(config)
}

/// Seeds the library's random generator, which takes about 20 ms of CPU: it must not fall into the first handshake.
pub(crate) fn warm_up() {
    // A generator that cannot be seeded will fail the handshakes, with the reason.
    let _ = provider().secure_random.fill(&mut [0]);
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = files::read(path)?;
    let unusable = |reason| Error::Pem { path: path.to_owned(), expected: "certificate", reason };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|error| unusable(error.to_string()))?;
    if chain.is_empty() { Err(unusable("no such section".to_owned())) } else { Ok(chain) }
}

fn all_names(extra: &[String]) -> Result<Vec<ServerName<'static>>, Error> {
    let mut names = Vec::new();
    for text in NAMES.into_iter().chain(extra.iter().map(String::as_str)) {
        // An IPv6 address may come as it stands in a URL.
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        let name = match bare.parse::<IpAddr>() {
            Ok(address) => ServerName::IpAddress(address.into()),
            Err(_) => ServerName::try_from(bare.to_owned()).map_err(|_| Error::Name(text.to_owned()))?,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_kept_identity_is_reused_until_it_no_longer_serves() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("tls");
        let certificate = || fs::read(kept.join("cert.pem")).unwrap();

        let identity = ensure(&kept, &[]).unwrap();
        assert_eq!(identity.ca(), Some(kept.join("ca.pem").as_path()));
        let first = certificate();
        ensure(&kept, &["LOCALHOST".to_owned(), "[::1]".to_owned()]).unwrap();
        assert_eq!(certificate(), first, "the names are covered already");

        ensure(&kept, &["shop.example".to_owned()]).unwrap();
        let second = certificate();
        assert_ne!(second, first, "a name was missing");

        fs::write(kept.join("key.pem"), "no key").unwrap();
        ensure(&kept, &["shop.example".to_owned()]).unwrap();
        assert_ne!(certificate(), second, "the key was lost");
    }

    #[test]
    fn the_key_is_for_its_owner_and_the_ca_key_for_nobody() {
        let directory = tempfile::tempdir().unwrap();
        ensure(directory.path(), &[]).unwrap();
        let mode = fs::metadata(directory.path().join("key.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut files: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, ["ca.pem", "cert.pem", "key.pem"]);
    }

    #[test]
    fn it_does_not_outlive_its_date() {
        let directory = tempfile::tempdir().unwrap();
        let identity = ensure(directory.path(), &[]).unwrap();
        let names = all_names(&[]).unwrap();
        let ca = directory.path().join("ca.pem");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let after = |days: u32| UnixTime::since_unix_epoch(now + days * Duration::from_secs(24 * 3600));
        assert!(identity.satisfies(&ca, &names, after(390)));
        assert!(!identity.satisfies(&ca, &names, after(398)));
    }

    #[test]
    fn bad_files_and_names_are_named() {
        let directory = tempfile::tempdir().unwrap();
        ensure(directory.path(), &[]).unwrap();
        let [certificate, key, other] = ["cert.pem", "key.pem", "other.pem"].map(|name| directory.path().join(name));

        let missing = Identity::load(&other, &key).unwrap_err().to_string();
        assert!(missing.contains("cannot read") && missing.contains("other.pem"), "{missing}");
        let swapped = Identity::load(&key, &certificate).unwrap_err().to_string();
        assert!(swapped.contains("key.pem holds no usable certificate"), "{swapped}");
        fs::write(&other, issue::issue(&all_names(&[]).unwrap()).unwrap().key.serialize_pem()).unwrap();
        let foreign = Identity::load(&certificate, &other).unwrap_err().to_string();
        assert!(foreign.contains("cannot be used together"), "{foreign}");
        let name = ensure(directory.path(), &["not a name".to_owned()]).unwrap_err().to_string();
        assert!(name.contains("'not a name'"), "{name}");
    }
}
