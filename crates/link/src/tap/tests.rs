use etherparse::PacketBuilder;

use super::*;
use crate::model::LossKind;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const ORIGIN: [u8; 4] = [10, 0, 0, 2];

/// A TCP connection of which packets are made by hand; positions count from the initial sequence numbers.
#[derive(Clone, Copy)]
struct Connection {
    client_port: u16,
    origin_port: u16,
    initial: [u32; 2],
}

const CONNECTION: Connection = Connection { client_port: 40_000, origin_port: 443, initial: [1000, 77_000] };

#[derive(Clone, Copy, PartialEq)]
enum Flag {
    Syn,
    SynAck,
    Ack,
    Fin,
    Rst,
}

impl Connection {
    /// A segment at position `start` that acknowledges all before position `ack`.
    fn segment(&self, direction: Direction, flag: Flag, start: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
        let (from, to) = (direction.index(), direction.reverse().index());
        let ports = [self.client_port, self.origin_port];
        let addresses = [CLIENT, ORIGIN];
        let sequence = self.initial[from].wrapping_add(start);
        let mut builder =
            PacketBuilder::ipv4(addresses[from], addresses[to], 64).tcp(ports[from], ports[to], sequence, 65_535);
        if flag != Flag::Syn {
            builder = builder.ack(self.initial[to].wrapping_add(ack));
        }
        builder = match flag {
            Flag::Syn | Flag::SynAck => builder.syn(),
            Flag::Ack => builder,
            Flag::Fin => builder.fin(),
            Flag::Rst => builder.rst(),
        };
        let mut packet = Vec::new();
        builder.write(&mut packet, payload).unwrap();
        packet
    }

    fn open(&self, tap: &mut Tap) {
        tap.observe(Direction::Up, &self.segment(Direction::Up, Flag::Syn, 0, 0, b""));
        tap.observe(Direction::Down, &self.segment(Direction::Down, Flag::SynAck, 0, 1, b""));
        tap.observe(Direction::Up, &self.segment(Direction::Up, Flag::Ack, 1, 1, b""));
    }

    /// Sends a segment; gives its key.
    fn send(&self, tap: &mut Tap, direction: Direction, start: u32, length: usize) -> LossKey {
        self.observe(tap, direction, Flag::Ack, start, 1, length)
    }

    fn observe(&self, tap: &mut Tap, direction: Direction, flag: Flag, start: u32, ack: u32, length: usize) -> LossKey {
        tap.observe(direction, &self.segment(direction, flag, start, ack, &vec![0; length])).key.unwrap()
    }
}

fn udp(direction: Direction, client_port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = match direction {
        Direction::Up => PacketBuilder::ipv4(CLIENT, ORIGIN, 64).udp(client_port, 443),
        Direction::Down => PacketBuilder::ipv4(ORIGIN, CLIENT, 64).udp(443, client_port),
    };
    let mut packet = Vec::new();
    builder.write(&mut packet, payload).unwrap();
    packet
}

#[test]
fn a_connection_leaves_one_record() {
    let mut tap = Tap::new();
    CONNECTION.open(&mut tap);
    CONNECTION.send(&mut tap, Direction::Up, 1, 300);
    CONNECTION.send(&mut tap, Direction::Down, 1, 1448);
    CONNECTION.send(&mut tap, Direction::Down, 1449, 52);
    CONNECTION.observe(&mut tap, Direction::Up, Flag::Fin, 301, 1501, 0);
    let summary = tap.summary();
    assert_eq!((summary.tcp_opened, summary.tcp_completed, summary.tcp_retransmissions), (1, 1, 0));
    let record = FlowRecord {
        transport: Transport::Tcp,
        client_port: 40_000,
        origin_port: 443,
        up_bytes: 300,
        down_bytes: 1500,
        drops: 0,
        retransmissions: 0,
        alpn: vec![],
        resumption_offered: false,
    };
    assert_eq!(summary.flows, [record]);
}

#[test]
fn directions_count_all_packets_and_the_drops_of_the_model() {
    let mut tap = Tap::new();
    CONNECTION.open(&mut tap);
    let lost = tap.observe(Direction::Up, &CONNECTION.segment(Direction::Up, Flag::Ack, 1, 1, &[0; 100]));
    assert_eq!(lost.ip_bytes, 140);
    tap.verdict(Direction::Up, &lost, &Verdict::Drop(DropReason::Loss));
    tap.verdict(Direction::Up, &lost, &Verdict::Drop(DropReason::Queue));
    tap.verdict(Direction::Up, &lost, &Verdict::Deliver { due_ns: 0 });
    let profile = crate::profile::Profile::parse("rate=8mbit delay=15ms loss=1%").unwrap();
    let up = tap.direction(Direction::Up, &profile.up);
    let expected = DirectionSummary {
        rate_bits_per_second: Some(8_000_000),
        delay_us: 15_000,
        queue_bytes: 64_000,
        loss: 0.01,
        packets: 3,
        bytes: 40 + 40 + 140,
        drops: [("loss".to_owned(), 1), ("queue".to_owned(), 1)].into(),
    };
    assert_eq!(up, expected);
    assert_eq!(tap.direction(Direction::Down, &profile.down).drops["loss"], 0);
    assert_eq!(tap.summary().flows[0].drops, 2);
}

#[test]
fn a_handshake_counts_once_it_is_complete() {
    let mut tap = Tap::new();
    let syn = CONNECTION.segment(Direction::Up, Flag::Syn, 0, 0, b"");
    for nth in 0..3 {
        assert_eq!(tap.observe(Direction::Up, &syn).key.unwrap().nth, nth);
    }
    let counts = |tap: &Tap| {
        let summary = tap.summary();
        (summary.tcp_opened, summary.tcp_completed, summary.tcp_retransmissions)
    };
    assert_eq!(counts(&tap), (1, 0, 2), "a repeated SYN is a retransmission, not a connection");
    CONNECTION.observe(&mut tap, Direction::Down, Flag::SynAck, 0, 1, 0);
    CONNECTION.observe(&mut tap, Direction::Down, Flag::SynAck, 0, 1, 0);
    assert_eq!(counts(&tap), (1, 0, 3));
    CONNECTION.observe(&mut tap, Direction::Up, Flag::Ack, 1, 1, 0);
    assert_eq!(counts(&tap), (1, 1, 3));
}

#[test]
fn a_refused_or_aborted_connection_is_not_complete() {
    let mut tap = Tap::new();
    CONNECTION.observe(&mut tap, Direction::Up, Flag::Syn, 0, 0, 0);
    CONNECTION.observe(&mut tap, Direction::Down, Flag::Rst, 0, 1, 0);
    let other = Connection { client_port: 40_001, ..CONNECTION };
    other.observe(&mut tap, Direction::Up, Flag::Syn, 0, 0, 0);
    other.observe(&mut tap, Direction::Down, Flag::SynAck, 0, 1, 0);
    other.observe(&mut tap, Direction::Up, Flag::Rst, 1, 1, 0);
    assert_eq!((tap.summary().tcp_opened, tap.summary().tcp_completed), (2, 0));
}

#[test]
fn the_same_ports_can_serve_a_second_connection() {
    let mut tap = Tap::new();
    CONNECTION.open(&mut tap);
    CONNECTION.send(&mut tap, Direction::Up, 1, 10);
    let second = Connection { initial: [5_000_000, 9], ..CONNECTION };
    second.open(&mut tap);
    assert_eq!(second.send(&mut tap, Direction::Up, 1, 20).flow, 1);
    let summary = tap.summary();
    assert_eq!((summary.tcp_opened, summary.tcp_completed, summary.tcp_retransmissions), (2, 2, 0));
    assert_eq!(summary.flows.iter().map(|flow| flow.up_bytes).collect::<Vec<_>>(), [10, 20]);
}

#[test]
fn a_connection_that_the_origin_opens_is_not_the_clients() {
    let mut tap = Tap::new();
    CONNECTION.observe(&mut tap, Direction::Down, Flag::Syn, 0, 0, 0);
    CONNECTION.observe(&mut tap, Direction::Up, Flag::SynAck, 0, 1, 0);
    CONNECTION.observe(&mut tap, Direction::Down, Flag::Ack, 1, 1, 0);
    let summary = tap.summary();
    assert_eq!((summary.flows.len(), summary.tcp_opened, summary.tcp_completed), (1, 0, 0));
}

#[test]
fn segments_outside_any_connection_have_no_key() {
    let mut tap = Tap::new();
    let meta = tap.observe(Direction::Down, &CONNECTION.segment(Direction::Down, Flag::Rst, 5, 5, b""));
    assert_eq!(meta, PacketMeta { ip_bytes: 40, key: None, flow: None });
    assert_eq!(tap.summary().flows, []);
}

#[test]
fn whatever_repeats_data_is_a_retransmission() {
    let mut tap = Tap::new();
    // The sequence numbers wrap after 1000 bytes.
    let connection = Connection { initial: [u32::MAX - 999, u32::MAX], ..CONNECTION };
    connection.open(&mut tap);
    let mut count = |start, length, flag| {
        let before = tap.summary().tcp_retransmissions;
        connection.observe(&mut tap, Direction::Up, flag, start, 1, length);
        tap.summary().tcp_retransmissions - before
    };
    assert_eq!(count(1, 900, Flag::Ack), 0);
    assert_eq!(count(901, 900, Flag::Ack), 0, "across the wrap");
    assert_eq!(count(1801, 100, Flag::Ack), 0);
    assert_eq!(count(901, 900, Flag::Ack), 1, "the same again");
    assert_eq!(count(1, 100, Flag::Ack), 1, "from before the wrap");
    assert_eq!(count(1850, 100, Flag::Ack), 1, "partly new");
    assert_eq!(count(1950, 0, Flag::Fin), 0, "the first FIN");
    assert_eq!(count(1950, 0, Flag::Fin), 1, "the second");
    assert_eq!(count(1949, 0, Flag::Ack), 0, "a keep-alive holds no data");
    assert_eq!(tap.summary().flows[0].retransmissions, 4);
}

#[test]
fn data_is_named_by_its_place_in_the_stream() {
    let mut tap = Tap::new();
    CONNECTION.open(&mut tap);
    let key = |kind, cell, nth| LossKey { flow: 0, kind, cell, nth };
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1, 1448), key(LossKind::TcpNew, 0, 0));
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1449, 100), key(LossKind::TcpNew, 1, 0));
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1549, 100), key(LossKind::TcpNew, 1, 1));
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1649, 1448), key(LossKind::TcpNew, 1, 2));
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 3097, 1448), key(LossKind::TcpNew, 2, 0));
    assert_eq!(CONNECTION.send(&mut tap, Direction::Up, 1, 10), key(LossKind::TcpNew, 0, 0));
    // Repetitions are numbered apart, until the peer has acknowledged the cell.
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1449, 1448), key(LossKind::TcpAgain, 1, 0));
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1449, 1448), key(LossKind::TcpAgain, 1, 1));
    CONNECTION.observe(&mut tap, Direction::Up, Flag::Ack, 11, 2895, 0);
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1449, 1448), key(LossKind::TcpAgain, 1, 2));
    CONNECTION.observe(&mut tap, Direction::Up, Flag::Ack, 11, 2896, 0);
    assert_eq!(CONNECTION.send(&mut tap, Direction::Down, 1449, 1448), key(LossKind::TcpAgain, 1, 0));
}

#[test]
fn acknowledgements_are_named_by_what_they_acknowledge() {
    let mut tap = Tap::new();
    CONNECTION.open(&mut tap);
    for start in (1..100_000).step_by(1000) {
        CONNECTION.send(&mut tap, Direction::Down, start, 1000);
    }
    let mut ack = |position| CONNECTION.observe(&mut tap, Direction::Up, Flag::Ack, 1, position, 0);
    let key = |cell, nth| LossKey { flow: 0, kind: LossKind::TcpAck, cell, nth };
    // The handshake's own acknowledgement was the first in cell 0.
    assert_eq!(ack(1001), key(0, 1));
    assert_eq!(ack(2001), key(1, 0));
    assert_eq!(ack(2001), key(1, 1), "a duplicate");
    assert_eq!(ack(99_001), key(68, 0));
    assert_eq!(ack(3_000_000), key(69, 0), "what was never sent cannot be acknowledged");
}

#[test]
fn datagrams_are_numbered_by_flow_direction_and_size() {
    let mut tap = Tap::new();
    let mut key = |direction, port, length| {
        let key = tap.observe(direction, &udp(direction, port, &vec![0; length])).key.unwrap();
        (key.flow, key.kind, key.cell, key.nth)
    };
    assert_eq!(key(Direction::Up, 5000, 1200), (0, LossKind::UdpLarge, 0, 0));
    assert_eq!(key(Direction::Up, 5000, 101), (0, LossKind::UdpLarge, 0, 1));
    assert_eq!(key(Direction::Up, 5000, 100), (0, LossKind::UdpSmall, 0, 0));
    assert_eq!(key(Direction::Down, 5000, 1200), (0, LossKind::UdpLarge, 0, 0));
    assert_eq!(key(Direction::Up, 4000, 1200), (1, LossKind::UdpLarge, 0, 0));
    assert_eq!(key(Direction::Up, 5000, 0), (0, LossKind::UdpSmall, 0, 1));
    assert_eq!(key(Direction::Up, 5000, 1200), (0, LossKind::UdpLarge, 0, 2));
}

#[test]
fn keys_know_neither_ports_nor_initial_sequence_numbers_nor_interleaving() {
    let workload = |ports: [u16; 2], origin_port, initial, interleaved| {
        let mut tap = Tap::new();
        let [first, second] =
            ports.map(|client_port| Connection { client_port, origin_port, initial: [initial, !initial] });
        let mut keys = [vec![], vec![]];
        let mut run = |tap: &mut Tap, which: usize, nth: u32| {
            let connection = [first, second][which];
            keys[which].push(connection.send(tap, Direction::Down, 1 + nth * 1448, 1448));
            keys[which].push(connection.observe(tap, Direction::Up, Flag::Ack, 1, 1 + nth * 1448, 0));
        };
        first.open(&mut tap);
        second.open(&mut tap);
        if interleaved {
            (0..100).for_each(|nth| (0..2).for_each(|which| run(&mut tap, which, nth)));
        } else {
            (0..2).for_each(|which| (0..100).for_each(|nth| run(&mut tap, which, nth)));
        }
        keys
    };
    let keys = workload([40_000, 40_002], 443, 1, false);
    assert_eq!(keys, workload([60_000, 50_000], 8443, u32::MAX - 3, true));
    assert!(keys[0].iter().all(|key| !keys[1].contains(key)), "two flows share no key");
}

#[test]
fn another_segmentation_keeps_almost_all_keys() {
    use std::collections::HashSet;
    // A handshake, full segments, and each so often a short one where the sender had no more to send.
    let keys = |handshake: u32, full: u32, short_every: u32| {
        let mut tap = Tap::new();
        CONNECTION.open(&mut tap);
        let mut start = 1;
        let mut send = |length: u32| {
            let key = CONNECTION.send(&mut tap, Direction::Down, start, length as usize);
            start += length;
            key
        };
        let first = send(handshake);
        let rest = (1..1000).map(|nth| send(if nth % short_every == 0 { 300 } else { full }));
        std::iter::once(first).chain(rest).collect::<HashSet<_>>()
    };
    // Timestamps or not, IPv4 or IPv6.
    for full in [1460, 1448, 1428] {
        let one = keys(1210, full, 100);
        for other in [keys(1212, full, 100), keys(700, full, 100), keys(1210, full, 101)] {
            let kept = one.intersection(&other).count();
            assert!(kept >= 950, "{kept} of 1000 with full segments of {full}");
        }
    }
}

#[test]
fn flows_to_another_port_do_not_renumber_those_to_the_first() {
    let mut tap = Tap::new();
    let flow = |tap: &mut Tap, client_port, origin_port| {
        let connection = Connection { client_port, origin_port, ..CONNECTION };
        connection.observe(tap, Direction::Up, Flag::Syn, 0, 0, 0).flow
    };
    assert_eq!(flow(&mut tap, 1, 443), 0);
    assert_eq!(flow(&mut tap, 2, 8080), 1 << 32);
    assert_eq!(flow(&mut tap, 3, 443), 1);
    assert_eq!(flow(&mut tap, 4, 8080), 1 << 32 | 1);
    assert_eq!(tap.observe(Direction::Up, &udp(Direction::Up, 5, b"")).key.unwrap().flow, 0, "UDP counts apart");
}

#[test]
fn the_start_of_an_ipv6_datagram_is_found_behind_extension_headers() {
    let mut tap = Tap::new();
    let mut packet = Vec::new();
    PacketBuilder::ipv6([1; 16], [2; 16], 64).udp(5000, 443).write(&mut packet, &[0; 200]).unwrap();
    assert_eq!(tap.observe(Direction::Up, &packet).key.unwrap().kind, LossKind::UdpLarge);

    // Hop-by-hop options of 8 bytes between the header and UDP (RFC 8200 section 4.3).
    let mut extended = packet[..40].to_vec();
    extended.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    extended.extend(&packet[40..]);
    extended[6] = 0;
    extended[5] += 8;
    let meta = tap.observe(Direction::Up, &extended);
    assert_eq!((meta.flow, meta.key.unwrap().nth, meta.ip_bytes), (Some(FlowId(0)), 1, 256));
}

#[test]
fn only_the_first_fragment_has_a_key() {
    let mut tap = Tap::new();
    let mut packet = udp(Direction::Up, 5000, &[0; 1000]);
    for (flags, offset, has_key) in [(0x20, 0, true), (0x20, 125, false), (0, 250, false), (0, 0, true)] {
        (packet[6], packet[7]) = (flags, offset);
        assert_eq!(tap.observe(Direction::Up, &packet).key.is_some(), has_key, "flags {flags} offset {offset}");
    }
    assert_eq!(tap.summary().flows.len(), 1);
}

#[test]
fn ipv4_options_are_skipped() {
    let mut tap = Tap::new();
    let packet = udp(Direction::Up, 5000, &[0; 500]);
    let mut with_options = packet[..20].to_vec();
    with_options.extend([1, 1, 1, 0]);
    with_options.extend(&packet[20..]);
    with_options[0] = 0x46;
    with_options[2..4].copy_from_slice(&(packet.len() as u16 + 4).to_be_bytes());
    assert_eq!(tap.observe(Direction::Up, &with_options).key, Tap::new().observe(Direction::Up, &packet).key);
    assert_eq!(tap.summary().flows[0].up_bytes, 500);
}

#[test]
fn other_transports_have_no_key() {
    let mut tap = Tap::new();
    let mut ping = Vec::new();
    PacketBuilder::ipv4(CLIENT, ORIGIN, 64).icmpv4_echo_request(1, 1).write(&mut ping, &[0; 56]).unwrap();
    assert_eq!(tap.observe(Direction::Up, &ping), PacketMeta { ip_bytes: 84, key: None, flow: None });
}

#[test]
fn no_bytes_make_it_panic() {
    let templates = [
        CONNECTION.segment(Direction::Up, Flag::Syn, 0, 0, b""),
        CONNECTION.segment(Direction::Down, Flag::SynAck, 0, 1, b""),
        CONNECTION.segment(Direction::Up, Flag::Ack, 1, 1, &[22, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3, 0, 0, 0, 0, 0]),
        CONNECTION.segment(Direction::Down, Flag::Fin, 1, 17, &[0; 64]),
        udp(Direction::Up, 5000, &[0xc0; 1200]),
        udp(Direction::Down, 5000, &[0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]),
    ];
    // xorshift64 (Marsaglia 2003)
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    };
    let mut tap = Tap::new();
    for _ in 0..100_000 {
        let mut packet = match random(8) {
            0 => (0..random(100)).map(|_| random(256) as u8).collect(),
            which => templates[which % templates.len()].clone(),
        };
        for _ in 0..random(4) {
            let place = random(packet.len().clamp(1, 80));
            if let Some(byte) = packet.get_mut(place) {
                *byte = random(256) as u8;
            }
        }
        if random(4) == 0 {
            packet.truncate(random(packet.len() + 1));
        }
        tap.observe(Direction::BOTH[random(2)], &packet);
    }
    let summary = tap.summary();
    assert!(summary.tcp_opened > 0 && summary.tcp_retransmissions > 0 && !summary.flows.is_empty());
}
