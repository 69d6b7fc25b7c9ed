//! What the tap reads from the handshakes of a real TLS library, cut into segments in several ways.

use std::sync::Arc;

use etherparse::PacketBuilder;
use link::model::Direction;
use link::tap::Tap;
use measure::TapSummary;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

const ISN: u32 = u32::MAX - 700;

/// A client that offers `h2` and `http/1.1`, and a server it trusts; the first key share is post-quantum.
fn configs() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let certified = rcgen::generate_simple_self_signed(vec!["origin".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519MLKEM768, aws_lc_rs::kx_group::X25519];
    let provider = Arc::new(provider);
    let mut client = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    server.alpn_protocols = client.alpn_protocols.clone();
    (Arc::new(client), Arc::new(server))
}

/// A handshake in memory; gives the first flight of the client.
fn handshake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Vec<u8> {
    let mut client = ClientConnection::new(client.clone(), "origin".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(server.clone()).unwrap();
    let mut first_flight = Vec::new();
    while client.wants_write() || server.wants_write() {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        while client.wants_write() {
            client.write_tls(&mut up).unwrap();
        }
        server.read_tls(&mut up.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        while server.wants_write() {
            server.write_tls(&mut down).unwrap();
        }
        client.read_tls(&mut down.as_slice()).unwrap();
        client.process_new_packets().unwrap();
        if first_flight.is_empty() {
            first_flight = up;
        }
    }
    first_flight
}

struct Client {
    tap: Tap,
}

impl Client {
    fn new() -> Client {
        let mut client = Client { tap: Tap::new() };
        let mut syn = Vec::new();
        builder(ISN).syn().write(&mut syn, &[]).unwrap();
        client.tap.observe(Direction::Up, &syn);
        client
    }

    fn send(&mut self, offset: usize, bytes: &[u8]) -> TapSummary {
        let mut packet = Vec::new();
        builder(ISN.wrapping_add(1 + offset as u32)).ack(1).write(&mut packet, bytes).unwrap();
        self.tap.observe(Direction::Up, &packet);
        self.tap.summary()
    }
}

fn builder(sequence: u32) -> etherparse::PacketBuilderStep<etherparse::TcpHeader> {
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(40_000, 443, sequence, 65_535)
}

#[test]
fn a_client_hello_is_read_however_it_is_cut() {
    let (client, server) = configs();
    let flight = handshake(&client, &server);
    assert!(flight.len() > 1460, "a post-quantum ClientHello of {} bytes should not fit one segment", flight.len());
    for size in [1, 7, 100, 536, 1448, flight.len()] {
        let mut sender = Client::new();
        let mut seen = Vec::new();
        for (nth, chunk) in flight.chunks(size).enumerate() {
            seen.push(sender.send(nth * size, chunk).client_hellos);
        }
        assert_eq!(seen.iter().position(|hellos| *hellos == 1), Some(seen.len() - 1), "in segments of {size}");
        let summary = sender.send(flight.len(), &flight);
        assert_eq!((summary.client_hellos, summary.handshakes()), (1, 1), "one connection makes one handshake");
        assert_eq!(summary.flows[0].alpn, ["h2", "http/1.1"]);
        assert!(!summary.flows[0].resumption_offered);
    }
}

#[test]
fn repeated_and_overlapping_segments_do_no_harm() {
    let (client, server) = configs();
    let flight = handshake(&client, &server);
    let mut sender = Client::new();
    sender.send(0, &flight[..1000]);
    sender.send(0, &flight[..1000]);
    sender.send(1200, &flight[1200..]);
    assert_eq!(sender.send(1100, &flight[1100..1200]).client_hellos, 0, "a hole remains");
    let summary = sender.send(900, &flight[900..]);
    assert_eq!((summary.client_hellos, summary.tcp_retransmissions), (1, 3));
}

#[test]
fn a_message_may_span_records() {
    let (client, server) = configs();
    let flight = handshake(&client, &server);
    let cut: Vec<u8> = flight[5..]
        .chunks(400)
        .flat_map(|part| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat())
        .collect();
    assert_eq!(Client::new().send(0, &cut).flows[0].alpn, ["h2", "http/1.1"]);
}

#[test]
fn an_offer_to_resume_is_seen() {
    let (client, server) = configs();
    handshake(&client, &server);
    let summary = Client::new().send(0, &handshake(&client, &server));
    assert_eq!(summary.client_hellos, 1);
    assert!(summary.flows[0].resumption_offered);
}

#[test]
fn cleartext_http_is_not_tls() {
    let mut client = Client::new();
    let (client_config, server) = configs();
    let request = b"GET / HTTP/1.1\r\nhost: origin\r\n\r\n";
    client.send(0, request);
    let summary = client.send(request.len(), &handshake(&client_config, &server));
    assert_eq!(summary.client_hellos, 0, "only the start of the stream counts");
}

#[test]
fn no_damage_makes_it_panic() {
    let (client, server) = configs();
    let flight = handshake(&client, &server);
    for place in 0..flight.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = flight.clone();
            damaged[place] = value;
            Client::new().send(0, &damaged);
        }
        Client::new().send(0, &flight[..place]);
    }
}
