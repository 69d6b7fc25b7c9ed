use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use load::{Amount, Identity, LoadError, Plan, TlsVersion, Verification};
use measure::Protocol;

use super::output;
use super::tap::{Tap, fields};
use crate::servers::{Server, run};

const ONE: Amount = Amount::Requests(1);

#[test]
fn what_is_offered_alone_is_what_the_server_gets_and_the_summary_tells() {
    use TlsVersion::{Tls12, Tls13};
    let Some(server) = Server::nginx_that_tells_of_tls("TLSv1.2 TLSv1.3", "ssl_ecdh_curve X25519:P-256:P-384;") else {
        return;
    };
    // OpenSSL has names of its own for what it speaks in TLS 1.2, and for groups.
    let cases = [
        (Tls13, "TLS_AES_128_GCM_SHA256", "x25519", "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519"),
        (Tls13, "TLS_AES_256_GCM_SHA384", "secp256r1", "TLSv1.3 TLS_AES_256_GCM_SHA384 prime256v1"),
        (Tls13, "TLS_CHACHA20_POLY1305_SHA256", "secp384r1", "TLSv1.3 TLS_CHACHA20_POLY1305_SHA256 secp384r1"),
        (
            Tls12,
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "x25519",
            "TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305 X25519",
        ),
        (
            Tls12,
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "secp256r1",
            "TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256 prime256v1",
        ),
    ];
    for (number, (version, cipher, group, logged)) in cases.into_iter().enumerate() {
        for (second, protocol) in [Protocol::H1, Protocol::H2].into_iter().enumerate() {
            let mut plan = server.plan(protocol, "/small", ONE);
            plan.tls.versions = vec![version];
            plan.tls.ciphers = vec![cipher.parse().unwrap()];
            plan.tls.groups = vec![group.parse().unwrap()];
            if version == Tls12 {
                // The certificate's own curve has to be among the groups there (RFC 8422 section 5.1).
                plan.tls.groups.push("secp256r1".parse().unwrap());
            }
            let tls = run(&plan).unwrap().tls.unwrap();
            assert_eq!((tls.version, tls.cipher, tls.group), (format!("TLSv{version}"), cipher.into(), group.into()));
            let lines = server.access_log((2 * number + second + 1) as u64);
            assert!(lines.last().unwrap().contains(logged), "{lines:?}");
        }
    }
}

#[test]
fn ciphers_and_groups_are_those_of_quic_too() {
    let Some(server) = Server::caddy() else { return };
    for (cipher, group) in [
        ("TLS_AES_128_GCM_SHA256", "secp256r1"),
        ("TLS_AES_256_GCM_SHA384", "x25519"),
        ("TLS_CHACHA20_POLY1305_SHA256", "x25519"),
    ] {
        let mut plan = server.plan(Protocol::H3, "/small", ONE);
        plan.tls.ciphers = vec![cipher.parse().unwrap()];
        plan.tls.groups = vec![group.parse().unwrap()];
        let tls = run(&plan).unwrap().tls.unwrap();
        assert_eq!((tls.version.as_str(), tls.cipher.as_str(), tls.group.as_str()), ("TLSv1.3", cipher, group));
        assert_eq!(tls.alpn.as_deref(), Some("h3"));
    }
}

#[test]
fn versions_without_common_ground_are_a_failure_with_a_reason() {
    let Some(server) = Server::nginx_with_old_tls() else { return };
    let mut plan = server.plan(Protocol::H2, "/small", ONE);
    plan.tls.versions = vec![TlsVersion::Tls13];
    let message = run(&plan).unwrap_err().to_string();
    assert!(message.contains("TLS: ") && message.to_lowercase().contains("version"), "{message}");
}

#[test]
fn the_name_to_ask_for_replaces_that_of_the_url() {
    let Some(server) = Server::nginx_that_tells_of_tls("TLSv1.3", "") else { return };
    let mut plan = server.plan(Protocol::H2, "/small", ONE);
    plan.tls.server_name = Some("other.example".to_owned());
    let message = run(&plan).unwrap_err().to_string();
    assert!(message.contains("not valid for name"), "{message}");
    plan.tls.verification = Verification::Insecure;
    run(&plan).unwrap();
    assert!(server.access_log(1)[0].contains(" other.example "));
}

#[test]
fn a_list_of_alpn_is_offered_and_the_wanted_protocol_demanded() {
    let Some(server) = Server::nginx("") else { return };
    let offering = |protocol, names: &[&str]| {
        let mut plan = server.plan(protocol, "/small", ONE);
        plan.tls.alpn = names.iter().map(|name| (*name).to_owned()).collect();
        run(&plan)
    };
    for (protocol, names) in [(Protocol::H1, ["http/1.1", "http/1.0"]), (Protocol::H2, ["http/1.1", "h2"])] {
        let tls = offering(protocol, &names).unwrap().tls.unwrap();
        assert_eq!(tls.alpn.as_deref().map(str::as_bytes), protocol.alpn());
    }
    match offering(Protocol::H1, &["h2", "http/1.1"]).unwrap_err() {
        LoadError::WrongProtocol { offered, chosen, .. } => {
            assert_eq!((offered.as_str(), chosen.as_str()), ("h2,http/1.1", "'h2'"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn sessions_are_resumed_as_the_plan_says() {
    for (versions, protocol) in
        [("TLSv1.3", Protocol::H1), ("TLSv1.3", Protocol::H2), ("TLSv1.2", Protocol::H1), ("TLSv1.2", Protocol::H2)]
    {
        for resume in [true, false] {
            let Some(server) = Server::nginx_that_tells_of_tls(versions, "keepalive_requests 5;") else { return };
            let mut plan = Plan { connections: 2, ..server.plan(protocol, "/small", Amount::Requests(100)) };
            plan.tls.resume = resume;
            let summary = run(&plan).unwrap();
            assert_eq!((summary.requests.succeeded, summary.requests.failed), (100, 0), "{:?}", summary.errors);
            let lines = server.access_log(100);
            let connections = |mark: &str| {
                let lines = lines.iter().filter(|line| line.split(' ').nth(6) == Some(mark));
                lines.map(|line| line.split(' ').next().unwrap()).collect::<BTreeSet<_>>().len() as u64
            };
            assert_eq!(summary.connections.resumed, connections("r"), "{versions} {protocol}");
            assert_eq!(summary.connections.used, connections("r") + connections("."));
            let expected = if resume { summary.connections.used - 2 } else { 0 };
            assert_eq!(summary.connections.resumed, expected, "all but the first two, {versions} {protocol}");
            let again = run(&plan).unwrap();
            assert_eq!(again.connections.resumed, expected, "each run begins with full handshakes");
        }
    }
}

/// A certificate authority made by openssl, a certificate for a client that it signed, and one of nobody.
fn client_certificates(folder: &Path) {
    let openssl = |arguments: &str| {
        output(Command::new("openssl").args(arguments.split(' ')).current_dir(folder));
    };
    let ec = "ec -pkeyopt ec_paramgen_curve:P-256";
    openssl(&format!("req -x509 -newkey {ec} -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2"));
    openssl(&format!("req -newkey {ec} -nodes -keyout client.key -out client.csr -subj /CN=client"));
    openssl("x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out client.pem -days 2");
    openssl("pkey -in client.key -aes128 -passout pass:secret -out encrypted.key");
    openssl("ec -in client.key -aes128 -passout pass:secret -out encrypted-old.key");
    openssl(&format!("req -x509 -newkey {ec} -nodes -keyout other.key -out other.pem -subj /CN=other -days 2"));
    std::fs::write(
        folder.join("both.pem"),
        ["client.pem", "client.key"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap()).concat(),
    )
    .unwrap();
}

#[test]
fn a_client_shows_its_certificate() {
    if !testbed::has(&["openssl"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    client_certificates(folder.path());
    let authority = folder.path().join("ca.pem").display().to_string();
    let extra = format!("ssl_client_certificate {authority}; ssl_verify_client on;");
    let Some(server) = Server::nginx_that_tells_of_tls("TLSv1.2 TLSv1.3", &extra) else { return };
    let identity = |certificate: &str, key: &str| {
        Some(Identity { certificate: folder.path().join(certificate), key: folder.path().join(key) })
    };
    let mut answers = 0;
    for protocol in [Protocol::H1, Protocol::H2] {
        for versions in [vec![], vec![TlsVersion::Tls12]] {
            let mut plan = server.plan(protocol, "/small", ONE);
            plan.tls.versions = versions;
            for (identity, status, judgement) in [
                (identity("client.pem", "client.key"), 200, "SUCCESS"),
                (identity("both.pem", "both.pem"), 200, "SUCCESS"),
                (identity("other.pem", "other.key"), 400, "FAILED:"),
                (None, 400, "NONE"),
            ] {
                plan.tls.identity = identity;
                let summary = run(&plan).unwrap();
                assert_eq!(summary.requests.succeeded, u64::from(status == 200), "{:?}", summary.errors);
                answers += 1;
                let lines = server.access_log(answers);
                assert!(lines.last().unwrap().contains(judgement), "{lines:?}");
            }
        }
    }
    let mut plan = server.plan(Protocol::H2, "/small", ONE);
    for (certificate, key, parts) in [
        ("client.pem", "encrypted.key", ["encrypted.key", "the key is encrypted"]),
        ("client.pem", "encrypted-old.key", ["encrypted-old.key", "the key is encrypted"]),
        ("client.pem", "other.key", ["other.key", "it is not the key of the certificate"]),
        ("client.pem", "client.pem", ["client.pem", "holds no private key"]),
        ("client.key", "client.key", ["client.key", "holds no certificate"]),
        ("missing.pem", "client.key", ["missing.pem", "No such file"]),
    ] {
        plan.tls.identity = identity(certificate, key);
        let message = run(&plan).unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

#[test]
fn the_key_log_lets_others_read_along() {
    if !testbed::has(&["tshark"]) {
        return;
    }
    for (versions, protocol, filter) in [
        ("TLSv1.3", Protocol::H1, "http.request.uri"),
        ("TLSv1.2", Protocol::H1, "http.request.uri"),
        ("TLSv1.3", Protocol::H2, "http2.headers.path"),
    ] {
        let Some(server) = Server::nginx_that_tells_of_tls(versions, "") else { return };
        let tap = Tap::tcp(server.tls_port);
        let mut plan = server.plan(protocol, "/small?secret", Amount::Requests(3));
        plan.target = load::Target::parse(plan.target.url().as_str(), Some(&tap.address())).unwrap();
        let keys = server.file("keys");
        plan.tls.key_log = Some(keys.clone());
        assert_eq!(run(&plan).unwrap().requests.succeeded, 3);
        assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
        let paths = fields(&tap.capture(), &keys, tap.port(), filter);
        assert_eq!(paths, ["/small?secret"; 3], "{versions} {protocol}");
        let nothing = fields(&tap.capture(), Path::new("/dev/null"), tap.port(), filter);
        assert!(nothing.is_empty(), "{nothing:?}");
    }
}
