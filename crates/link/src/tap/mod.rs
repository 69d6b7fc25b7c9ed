//! The tap: what really crosses the link, counted from its packets alone, for any program at either end.
//!
//! A [`Tap`] sees each packet as it enters the link, before the model judges it. Out come two things: for the model,
//! what it has to know about the packet ([`PacketMeta`]), and at the end a record of every flow.
//!
//! ```text
//!  IP packet ─> observe ─┬─> PacketMeta ─> model ─> Verdict ─> verdict ─┐
//!                        └─> flow table <───────────── drops ───────────┴─> summary
//!                            TCP: handshake, retransmissions, ClientHello
//!                            UDP: QUIC connections
//! ```
//!
//! The tap also draws up each packet's [`LossKey`], which has to be the same whenever the workload is repeated:
//!
//! | packet | key |
//! |---|---|
//! | any | ordinal of its flow: how many of the origin's ports were used before, and how many flows to this port |
//! | TCP data or FIN | where it starts in the stream, to within a cell of 1448 bytes; number within the cell |
//! | the same, repeated | likewise, in a class of its own, so that a retransmission does not renumber new data |
//! | TCP SYN, SYN-ACK | number of the attempt |
//! | other TCP | how far it acknowledges, to within a cell; number within the cell |
//! | UDP | number within flow, direction and size class: at most 100 bytes (mostly acknowledgements), and larger |
//!
//! Nothing in it depends on time, on other flows' packets, on ephemeral ports or on initial sequence numbers. Packets
//! of other transports, later fragments and TCP segments outside any connection have no key and are never lost at
//! random.

mod hello;
mod packet;
mod quic;
mod tcp;
mod udp;

use std::collections::HashMap;
use std::net::SocketAddr;

use measure::{DirectionSummary, FlowRecord, TapSummary, Transport};

use crate::model::{Direction, DropReason, FlowId, LossKey, PacketMeta, Verdict};
use crate::profile::DirectionProfile;
use packet::{Packet, Segment};
use tcp::TcpFlow;
use udp::UdpFlow;

/// Books of everything that crossed one link.
#[derive(Debug, Default)]
pub struct Tap {
    totals: [Totals; 2],
    flows: Vec<Flow>,
    /// The flow that now has these addresses; earlier ones may have had them too.
    current: HashMap<Addresses, FlowId>,
    /// Flows by port of the origin, for their ordinals.
    tcp_ports: HashMap<u16, PortUse>,
    udp_ports: HashMap<u16, PortUse>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    packets: u64,
    bytes: u64,
    drops: [u64; DropReason::ALL.len()],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Addresses {
    is_tcp: bool,
    client: SocketAddr,
    origin: SocketAddr,
}

#[derive(Clone, Copy, Debug)]
struct PortUse {
    /// How many ports were used before this one.
    rank: u64,
    flows: u64,
}

#[derive(Debug)]
struct Flow {
    client_port: u16,
    origin_port: u16,
    ordinal: u64,
    payload_bytes: [u64; 2],
    drops: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Tcp(Box<TcpFlow>),
    Udp(UdpFlow),
}

impl Tap {
    /// Empty books.
    pub fn new() -> Tap {
        Tap::default()
    }

    /// Takes note of an IPv4 or IPv6 packet, without any link-layer header or padding, that enters the link.
    ///
    /// Any bytes will do: what cannot be read is counted as a packet and belongs to no flow.
    pub fn observe(&mut self, direction: Direction, ip_packet: &[u8]) -> PacketMeta {
        let totals = &mut self.totals[direction.index()];
        totals.packets += 1;
        totals.bytes += ip_packet.len() as u64;
        let mut meta = PacketMeta { ip_bytes: ip_packet.len() as u32, key: None, flow: None };
        let Some(packet) = Packet::parse(ip_packet) else { return meta };
        let Some(id) = self.flow_of(direction, &packet) else { return meta };

        let flow = &mut self.flows[id.0];
        let (payload, (kind, cell, nth)) = match (&mut flow.state, packet.segment) {
            (State::Tcp(state), Segment::Tcp(segment)) => (segment.payload(), state.observe(direction, &segment)),
            (State::Udp(state), Segment::Udp(datagram)) => {
                let (kind, nth) = state.observe(direction, datagram.payload());
                (datagram.payload(), (kind, 0, nth))
            }
            _ => unreachable!("flows are looked up by transport"),
        };
        flow.payload_bytes[direction.index()] += payload.len() as u64;
        meta.key = Some(LossKey { flow: flow.ordinal, kind, cell, nth });
        meta.flow = Some(id);
        meta
    }

    /// Takes note of what the model decided about a packet that [`Tap::observe`] has seen.
    pub fn verdict(&mut self, direction: Direction, packet: &PacketMeta, verdict: &Verdict) {
        if let Verdict::Drop(reason) = verdict {
            self.totals[direction.index()].drops[*reason as usize] += 1;
            if let Some(flow) = packet.flow {
                self.flows[flow.0].drops += 1;
            }
        }
    }

    /// The flows so far and their sums.
    pub fn summary(&self) -> TapSummary {
        let mut summary = TapSummary::default();
        for flow in &self.flows {
            let record = flow.record();
            summary.tcp_retransmissions += record.retransmissions;
            match &flow.state {
                State::Tcp(tcp) => {
                    summary.tcp_opened += u64::from(tcp.is_from_client());
                    summary.tcp_completed += u64::from(tcp.is_from_client() && tcp.completed());
                    summary.client_hellos += u64::from(tcp.hello().found().is_some());
                }
                State::Udp(udp) => summary.quic_opened += udp.quic_opened(),
            }
            summary.flows.push(record);
        }
        summary
    }

    /// One direction so far, beside the parameters that it had.
    pub fn direction(&self, direction: Direction, profile: &DirectionProfile) -> DirectionSummary {
        let totals = &self.totals[direction.index()];
        DirectionSummary {
            rate_bits_per_second: profile.rate,
            delay_us: profile.delay_ns / 1000,
            queue_bytes: profile.queue_bytes,
            loss: profile.loss,
            packets: totals.packets,
            bytes: totals.bytes,
            drops: DropReason::ALL.map(|reason| (reason.to_string(), totals.drops[reason as usize])).into(),
        }
    }

    /// The flow of a packet; a new one for a TCP connection's SYN and for a UDP flow's first datagram.
    fn flow_of(&mut self, direction: Direction, packet: &Packet) -> Option<FlowId> {
        let (client, origin) = match direction {
            Direction::Up => (packet.source, packet.destination),
            Direction::Down => (packet.destination, packet.source),
        };
        let is_tcp = matches!(packet.segment, Segment::Tcp(_));
        let addresses = Addresses { is_tcp, client, origin };
        let current = self.current.get(&addresses).copied();
        let state = match (&packet.segment, current.map(|id| &self.flows[id.0].state)) {
            (Segment::Tcp(segment), Some(State::Tcp(tcp))) if !tcp.is_succeeded_by(direction, segment) => {
                return current;
            }
            (Segment::Tcp(segment), _) if tcp::is_opening(segment) => State::Tcp(Box::new(TcpFlow::new(direction))),
            (Segment::Udp(_), None) => State::Udp(UdpFlow::default()),
            _ => return current,
        };
        let id = FlowId(self.flows.len());
        let ordinal = self.next_ordinal(is_tcp, origin.port());
        let (client_port, origin_port) = (client.port(), origin.port());
        self.flows.push(Flow { client_port, origin_port, ordinal, payload_bytes: [0; 2], drops: 0, state });
        self.current.insert(addresses, id);
        Some(id)
    }

    /// The port's rank in the upper half, the flow's place among those of the port in the lower half.
    fn next_ordinal(&mut self, is_tcp: bool, origin_port: u16) -> u64 {
        let ports = if is_tcp { &mut self.tcp_ports } else { &mut self.udp_ports };
        let rank = ports.len() as u64;
        let port = ports.entry(origin_port).or_insert(PortUse { rank, flows: 0 });
        port.flows += 1;
        port.rank << 32 | (port.flows - 1)
    }
}

impl Flow {
    fn record(&self) -> FlowRecord {
        let (transport, retransmissions, hello) = match &self.state {
            State::Tcp(tcp) => (Transport::Tcp, tcp.retransmissions(), tcp.hello().found()),
            State::Udp(udp) => (udp.transport(), 0, None),
        };
        FlowRecord {
            transport,
            client_port: self.client_port,
            origin_port: self.origin_port,
            up_bytes: self.payload_bytes[Direction::Up.index()],
            down_bytes: self.payload_bytes[Direction::Down.index()],
            drops: self.drops,
            retransmissions,
            alpn: hello.map(|hello| hello.alpn.clone()).unwrap_or_default(),
            resumption_offered: hello.is_some_and(|hello| hello.resumption_offered),
        }
    }
}

#[cfg(test)]
mod tests;
