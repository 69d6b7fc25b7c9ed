use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// How TCP behaves on the routes of the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Congestion control.
    pub congestion_control: String,
    /// Initial congestion window, packets.
    pub initial_window: u32,
}

/// A routing-netlink socket (`rtnetlink(7)`); it acts on the network namespace in which it was opened.
pub struct Netlink(Socket);

impl Netlink {
    /// Opens a socket in the caller's network namespace.
    pub fn open() -> io::Result<Netlink> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink(socket))
    }

    /// Makes a pair of connected interfaces: `inner` here and `outer` in another namespace.
    pub fn create_pair(&self, inner: &Interface, outer: &Interface, namespace: BorrowedFd<'_>) -> io::Result<()> {
        let mut peer = outer.message();
        peer.attributes.push(LinkAttribute::NetNsFd(namespace.as_raw_fd()));
        let mut message = inner.message();
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.create(RouteNetlinkMessage::NewLink(message))
    }

    /// Switches an interface on.
    pub fn set_up(&self, interface: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(NLM_F_ACK, RouteNetlinkMessage::SetLink(message)).map(drop)
    }

    /// Gives an interface an address, without duplicate address detection and without a route.
    pub fn add_address(&self, interface: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = prefix;
        message.header.scope = AddressScope::Universe;
        message.header.index = interface;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
            AddressAttribute::Flags(AddressFlags::Nodad | AddressFlags::Noprefixroute),
        ];
        self.create(RouteNetlinkMessage::NewAddress(message))
    }

    /// Adds the route to a directly connected network, with what TCP shall do on it.
    pub fn add_route(&self, interface: u32, network: IpAddr, prefix: u8, transport: &Transport) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(network);
        message.header.destination_prefix_length = prefix;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Link;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Destination(network.into()),
            RouteAttribute::Oif(interface),
            RouteAttribute::Metrics(vec![
                RouteMetric::InitCwnd(transport.initial_window),
                RouteMetric::CcAlgo(transport.congestion_control.clone()),
            ]),
        ];
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// What TCP does on the way to `destination`, as the kernel tells it; `None` when its route does not say.
    pub fn transport_to(&self, destination: IpAddr) -> io::Result<Option<Transport>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        message.attributes = vec![RouteAttribute::Destination(destination.into())];
        let Some(RouteNetlinkMessage::NewRoute(route)) = self.request(0, RouteNetlinkMessage::GetRoute(message))?
        else {
            return Ok(None);
        };
        let (mut congestion_control, mut initial_window) = (None, None);
        for attribute in route.attributes {
            let RouteAttribute::Metrics(metrics) = attribute else { continue };
            for metric in metrics {
                match metric {
                    RouteMetric::CcAlgo(name) => congestion_control = Some(name),
                    RouteMetric::InitCwnd(packets) => initial_window = Some(packets),
                    _ => {}
                }
            }
        }
        let transport = congestion_control.zip(initial_window);
        Ok(transport.map(|(congestion_control, initial_window)| Transport { congestion_control, initial_window }))
    }

    /// Packets that an interface dropped instead of sending.
    pub fn dropped(&self, interface: u32) -> io::Result<u64> {
        let mut message = LinkMessage::default();
        message.header.index = interface;
        let Some(RouteNetlinkMessage::NewLink(link)) = self.request(0, RouteNetlinkMessage::GetLink(message))? else {
            return Ok(0);
        };
        let statistics = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(statistics) => Some(statistics.tx_dropped),
            _ => None,
        });
        Ok(statistics.unwrap_or(0))
    }

    fn create(&self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.request(NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, message).map(drop)
    }

    /// Sends one message and waits for the answer: what was asked for, or nothing for an acknowledgement.
    fn request(&self, flags: u16, message: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        match NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }
}

/// One end of a pair of interfaces.
pub struct Interface {
    /// Its name.
    pub name: &'static str,
    /// Its index, unique in its namespace.
    pub index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
}

impl Interface {
    /// The interface as it is created: silent (no ARP or neighbour discovery) and with packets of at most one
    /// segment, so that the link sees what a wire would carry. It is down, because the peer does not exist yet.
    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        message.header.flags = LinkFlags::Noarp;
        message.header.change_mask = LinkFlags::Noarp;
        message.attributes = vec![
            LinkAttribute::IfName(self.name.to_owned()),
            LinkAttribute::Address(self.mac.to_vec()),
            LinkAttribute::GsoMaxSegs(1),
        ];
        message
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
