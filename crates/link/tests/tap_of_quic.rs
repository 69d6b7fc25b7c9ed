//! What the tap counts when a real QUIC stack opens connections, all of them from one socket.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use etherparse::PacketBuilder;
use link::model::Direction;
use link::tap::Tap;
use measure::Transport;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Incoming,
    RandomConnectionIdGenerator, ServerConfig,
};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);
const ORIGIN: ([u8; 4], u16) = ([10, 0, 0, 2], 443);

/// A client and a server with a tap between them, and a clock of their own.
struct Lab {
    tap: Tap,
    now: Instant,
    client: Peer,
    server: Peer,
    config: ClientConfig,
    /// Whether the server makes clients prove their address (RFC 9000 section 8.1.2).
    retry: bool,
}

struct Peer {
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Connection>,
    outbox: Vec<Vec<u8>>,
}

impl Lab {
    fn new(client_id_bytes: usize, retry: bool) -> Lab {
        let certified = rcgen::generate_simple_self_signed(vec!["origin".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certified.cert.der().clone()).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let server = ServerConfig::with_single_cert(vec![certified.cert.der().clone()], key.into()).unwrap();
        let mut client = EndpointConfig::default();
        client.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(client_id_bytes)));
        Lab {
            tap: Tap::new(),
            now: Instant::now(),
            client: Peer::new(client, None),
            server: Peer::new(EndpointConfig::default(), Some(Arc::new(server))),
            config: ClientConfig::with_root_certificates(Arc::new(roots)).unwrap(),
            retry,
        }
    }

    fn connect(&mut self) {
        let remote = SocketAddr::from(ORIGIN);
        let (handle, connection) =
            self.client.endpoint.connect(self.now, self.config.clone(), remote, "origin").unwrap();
        self.client.connections.insert(handle, connection);
    }

    /// Lets seconds pass in steps of a millisecond; `lossy` loses everything that the server sends.
    fn run(&mut self, seconds: u32, lossy: bool) {
        for _ in 0..1000 * seconds {
            self.now += Duration::from_millis(1);
            for datagram in self.client.flush(self.now) {
                self.tap.observe(Direction::Up, &packet(CLIENT, ORIGIN, &datagram));
                if let Some(incoming) = self.server.receive(self.now, CLIENT, &datagram) {
                    self.server.answer(self.now, incoming, self.retry);
                }
            }
            for datagram in self.server.flush(self.now) {
                self.tap.observe(Direction::Down, &packet(ORIGIN, CLIENT, &datagram));
                if !lossy {
                    self.client.receive(self.now, ORIGIN, &datagram);
                }
            }
        }
    }

    fn established(&self) -> usize {
        self.client.connections.values().filter(|connection| !connection.is_handshaking()).count()
    }
}

impl Peer {
    fn new(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Peer {
        Peer {
            endpoint: Endpoint::new(Arc::new(config), server, false, Some([7; 32])),
            connections: HashMap::new(),
            outbox: Vec::new(),
        }
    }

    fn receive(&mut self, now: Instant, from: ([u8; 4], u16), datagram: &[u8]) -> Option<Incoming> {
        let mut buffer = Vec::new();
        match self.endpoint.handle(now, from.into(), None, None, BytesMut::from(datagram), &mut buffer)? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                self.connections.get_mut(&handle)?.handle_event(event);
                None
            }
            DatagramEvent::NewConnection(incoming) => Some(incoming),
            DatagramEvent::Response(transmit) => {
                self.outbox.push(buffer[..transmit.size].to_vec());
                None
            }
        }
    }

    fn answer(&mut self, now: Instant, incoming: Incoming, retry: bool) {
        let mut buffer = Vec::new();
        if retry && !incoming.remote_address_validated() {
            let transmit = self.endpoint.retry(incoming, &mut buffer).unwrap();
            self.outbox.push(buffer[..transmit.size].to_vec());
        } else {
            let accepted = self.endpoint.accept(incoming, now, &mut buffer, None);
            let (handle, connection) = accepted.map_err(|error| error.cause).unwrap();
            self.connections.insert(handle, connection);
        }
    }

    fn flush(&mut self, now: Instant) -> Vec<Vec<u8>> {
        for (handle, connection) in &mut self.connections {
            if connection.poll_timeout().is_some_and(|due| due <= now) {
                connection.handle_timeout(now);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while connection.poll().is_some() {}
            let mut buffer = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
                self.outbox.push(buffer[..transmit.size].to_vec());
                buffer.clear();
            }
        }
        std::mem::take(&mut self.outbox)
    }
}

fn packet(from: ([u8; 4], u16), to: ([u8; 4], u16), datagram: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4(from.0, to.0, 64).udp(from.1, to.1).write(&mut packet, datagram).unwrap();
    packet
}

#[test]
fn connections_on_one_socket_are_counted_apart() {
    let mut lab = Lab::new(8, false);
    for _ in 0..3 {
        lab.connect();
    }
    lab.run(1, false);
    lab.connect();
    lab.run(1, false);
    let summary = lab.tap.summary();
    assert_eq!((lab.established(), summary.quic_opened, summary.handshakes()), (4, 4, 4));
    assert_eq!(summary.flows.len(), 1);
    assert_eq!(summary.flows[0].transport, Transport::Quic);
    assert!(summary.flows[0].down_bytes > 1200 && summary.flows[0].retransmissions == 0);
}

#[test]
fn repeated_initials_open_nothing() {
    for client_id_bytes in [0, 8] {
        let mut lab = Lab::new(client_id_bytes, false);
        lab.connect();
        lab.run(4, true);
        assert!(lab.tap.summary().flows[0].up_bytes >= 2 * 1200, "the client should have tried again");
        lab.run(20, false);
        assert_eq!((lab.established(), lab.tap.summary().quic_opened), (1, 1), "client IDs of {client_id_bytes}");
    }
}

#[test]
fn a_retry_opens_nothing() {
    for client_id_bytes in [0, 8] {
        let mut lab = Lab::new(client_id_bytes, true);
        lab.connect();
        lab.run(1, false);
        assert_eq!((lab.established(), lab.tap.summary().quic_opened), (1, 1), "client IDs of {client_id_bytes}");
    }
}

#[test]
fn version_2_counts_and_other_udp_does_not() {
    let long = |first: u8, version: u32, length: usize| {
        let mut datagram = vec![first];
        datagram.extend(version.to_be_bytes());
        datagram.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
        datagram.resize(length, 0);
        datagram
    };
    for (datagram, transport) in [
        (long(0xc0, 1, 1200), Transport::Quic),
        (long(0xd0, 0x6b33_43cf, 1200), Transport::Quic),
        (long(0xc0, 0x6b33_43cf, 1200), Transport::Udp),
        (long(0xe0, 1, 1200), Transport::Udp),
        (long(0x40, 1, 1200), Transport::Udp),
        (long(0xc0, 0xff00_001d, 1200), Transport::Udp),
        (long(0xc0, 1, 1199), Transport::Udp),
        (vec![], Transport::Udp),
    ] {
        let mut tap = Tap::new();
        tap.observe(Direction::Up, &packet(CLIENT, ORIGIN, &datagram));
        let summary = tap.summary();
        assert_eq!(summary.flows[0].transport, transport, "{:x?}", datagram.get(..5));
        assert_eq!(summary.quic_opened, u64::from(transport == Transport::Quic));
    }
}
