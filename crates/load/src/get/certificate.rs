use std::net::IpAddr;

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{ASN1Time, FromDer as _, GeneralName, X509Certificate};

use super::report::Certificate;

/// What a chain of certificates says; those that cannot be read are left out.
pub(super) fn read(chain: &[CertificateDer<'_>]) -> Vec<Certificate> {
    chain.iter().filter_map(|der| X509Certificate::from_der(der).ok()).map(|(_, parsed)| describe(&parsed)).collect()
}

fn describe(certificate: &X509Certificate<'_>) -> Certificate {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |extension| &extension.value.general_names);
    Certificate {
        subject: certificate.subject().to_string(),
        issuer: certificate.issuer().to_string(),
        names: names.iter().filter_map(name).collect(),
        not_before: time(certificate.validity().not_before),
        not_after: time(certificate.validity().not_after),
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
        },
        _ => None,
    }
}

fn time(time: ASN1Time) -> String {
    Timestamp::from_second(time.timestamp()).map_or_else(|_| time.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn says_whose_it_is_for_what_and_until_when() {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let mut parameters = CertificateParams::new(names.clone()).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "a test");
        parameters.not_before = date_time_ymd(2026, 1, 2);
        parameters.not_after = date_time_ymd(2027, 3, 4);
        let certificate = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let garbage = CertificateDer::from(vec![1, 2, 3]);
        let read = read(&[certificate.der().clone(), garbage]);
        assert_eq!(read.len(), 1);
        assert!(read[0].subject.contains("CN=a test"), "{}", read[0].subject);
        assert_eq!(read[0].issuer, read[0].subject);
        assert_eq!(read[0].names, names);
        assert_eq!(read[0].not_before, "2026-01-02T00:00:00Z");
        assert_eq!(read[0].not_after, "2027-03-04T00:00:00Z");
    }
}
