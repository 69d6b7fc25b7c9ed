use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, date_time_ymd,
};
use rustls_pki_types::ServerName;

use crate::Error;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Life of a certificate: what browsers accept at most (398 days), less a day for clocks that disagree.
const LIFE: Duration = Duration::from_secs(397 * 24 * 3600);

/// A CA and the one certificate that it signed.
pub struct Issued {
    /// The CA's certificate; its key is dropped.
    pub ca: Certificate,
    /// The certificate of the origin.
    pub leaf: Certificate,
    /// The key of `leaf`, ECDSA on P-256.
    pub key: KeyPair,
}

/// Makes a CA and a leaf for `names`, valid from yesterday on.
pub fn issue(names: &[ServerName<'static>]) -> Result<Issued, Error> {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "fairlane CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = CertifiedIssuer::self_signed(dated(ca), new_key()?)?;

    let mut leaf = CertificateParams::default();
    leaf.distinguished_name.push(DnType::CommonName, "fairlane origin");
    leaf.subject_alt_names = names.iter().map(alternative_name).collect::<Result<_, Error>>()?;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let key = new_key()?;
    let leaf = dated(leaf).signed_by(&key, &ca)?;
    Ok(Issued { ca: ca.as_ref().clone(), leaf, key })
}

fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    params.not_before = now - DAY;
    params.not_after = params.not_before + LIFE;
    params
}

fn alternative_name(name: &ServerName<'static>) -> Result<SanType, Error> {
    match name {
        ServerName::IpAddress(address) => Ok(SanType::IpAddress(IpAddr::from(*address))),
        name => Ok(SanType::DnsName(name.to_str().into_owned().try_into()?)),
    }
}
