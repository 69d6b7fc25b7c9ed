use std::net::SocketAddr;

use etherparse::{IpNumber, IpSlice, Ipv6ExtensionSlice, TcpSlice, UdpSlice};

/// An IP packet with a TCP or UDP header.
pub struct Packet<'a> {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub segment: Segment<'a>,
}

pub enum Segment<'a> {
    Tcp(TcpSlice<'a>),
    /// A UDP datagram; of a fragmented one, what its first fragment holds.
    Udp(UdpSlice<'a>),
}

impl<'a> Packet<'a> {
    /// Reads a packet; `None` for other transports, for fragments after the first, and for anything ill-formed.
    pub fn parse(ip_packet: &'a [u8]) -> Option<Packet<'a>> {
        let ip = IpSlice::from_slice(ip_packet).ok()?;
        let payload = ip.payload();
        if payload.fragmented && !is_first_fragment(&ip) {
            return None;
        }
        let (ports, segment) = match payload.ip_number {
            IpNumber::TCP => {
                let tcp = TcpSlice::from_slice(payload.payload).ok()?;
                ((tcp.source_port(), tcp.destination_port()), Segment::Tcp(tcp))
            }
            IpNumber::UDP => {
                let udp = UdpSlice::from_slice_lax(payload.payload).ok()?;
                ((udp.source_port(), udp.destination_port()), Segment::Udp(udp))
            }
            _ => return None,
        };
        Some(Packet {
            source: SocketAddr::new(ip.source_addr(), ports.0),
            destination: SocketAddr::new(ip.destination_addr(), ports.1),
            segment,
        })
    }
}

fn is_first_fragment(ip: &IpSlice) -> bool {
    match ip {
        IpSlice::Ipv4(ipv4) => ipv4.header().fragments_offset().value() == 0,
        IpSlice::Ipv6(ipv6) => ipv6.extensions().clone().into_iter().all(|extension| match extension {
            Ipv6ExtensionSlice::Fragment(fragment) => fragment.fragment_offset().value() == 0,
            _ => true,
        }),
    }
}
