use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::quic::{Algorithm, HeaderProtectionKey, PacketKey};
use rustls::{CipherSuite, CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

/// The cipher suite that QUIC connections agreed on.
///
/// quinn-proto does not tell. But the TLS library asks the agreed suite, and only that, to make the keys of a
/// connection, so the suites offered are wrapped in ones that write down that they were asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgreedCipher(Arc<AtomicU16>);

impl AgreedCipher {
    /// The suite of the latest handshake; `None` before the first.
    pub(crate) fn get(&self) -> Option<CipherSuite> {
        let code = self.0.load(Ordering::Relaxed);
        (code != 0).then(|| CipherSuite::from(code))
    }

    /// The suites that QUIC can use among `suites`, wrapped. The library wants them to live for ever: each call leaks a
    /// few hundred bytes, once per run.
    pub(crate) fn observe(&self, suites: &[SupportedCipherSuite]) -> Vec<SupportedCipherSuite> {
        let suites = suites.iter().filter_map(SupportedCipherSuite::tls13);
        suites.filter_map(|suite| Some(self.wrap(suite, suite.quic?))).collect()
    }

    fn wrap(&self, suite: &Tls13CipherSuite, inner: &'static dyn Algorithm) -> SupportedCipherSuite {
        let CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit } = suite.common;
        let witness = Witness { inner, name, agreed: self.clone() };
        let wrapped = Tls13CipherSuite {
            common: CipherSuiteCommon { suite: name, hash_provider, confidentiality_limit },
            hkdf_provider: suite.hkdf_provider,
            aead_alg: suite.aead_alg,
            quic: Some(Box::leak(Box::new(witness))),
        };
        SupportedCipherSuite::Tls13(Box::leak(Box::new(wrapped)))
    }
}

/// Makes the keys of one suite, and writes down that it did.
struct Witness {
    inner: &'static dyn Algorithm,
    name: CipherSuite,
    agreed: AgreedCipher,
}

impl Algorithm for Witness {
    fn packet_key(&self, key: AeadKey, iv: Iv) -> Box<dyn PacketKey> {
        self.agreed.0.store(self.name.into(), Ordering::Relaxed);
        self.inner.packet_key(key, iv)
    }

    fn header_protection_key(&self, key: AeadKey) -> Box<dyn HeaderProtectionKey> {
        self.inner.header_protection_key(key)
    }

    fn aead_key_len(&self) -> usize {
        self.inner.aead_key_len()
    }

    fn fips(&self) -> bool {
        self.inner.fips()
    }
}
