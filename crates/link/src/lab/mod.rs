//! The lab: three network namespaces and two cables, built through routing netlink and gone with the last process in it.
//!
//! ```text
//!   client namespace          middle namespace          origin namespace
//!  ┌─────────────────┐      ┌──────────────────┐      ┌─────────────────┐
//!  │ 10.77.0.1    c0 ├──────┤ m0  forwarder m1 ├──────┤ s0    10.77.0.2 │
//!  │ fd77::1         │ veth │ (packet sockets) │ veth │         fd77::2 │
//!  └─────────────────┘      └──────────────────┘      └─────────────────┘
//! ```
//!
//! c0 and s0 have the same hardware address and do not resolve addresses, so that a frame of one end is right for the
//! other as it is and nothing but the programs' own packets ever crosses the link.

mod enter;
mod hosts;
mod netlink;

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd as _;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::LabError;
use crate::sys::packet::PacketSocket;
pub use enter::availability;
pub(crate) use enter::{enter, forbidden};
pub use netlink::Transport;
use netlink::{Interface, Netlink};

/// One end of the link: the name and the addresses under which programs in the lab know it.
pub struct Side {
    /// Host name; with a `6` appended it resolves to the IPv6 address.
    pub name: &'static str,
    /// IPv4 address.
    pub v4: Ipv4Addr,
    /// IPv6 address.
    pub v6: Ipv6Addr,
}

/// Where the client runs.
pub const CLIENT: Side =
    Side { name: "client", v4: Ipv4Addr::new(10, 77, 0, 1), v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1) };
/// Where the origin runs.
pub const ORIGIN: Side =
    Side { name: "origin", v4: Ipv4Addr::new(10, 77, 0, 2), v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2) };

const NETWORKS: [(IpAddr, u8); 2] =
    [(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 0)), 24), (IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0)), 64)];

const LOOPBACK: u32 = 1;
const END_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const C0: Interface = Interface { name: "c0", index: 2, mac: END_MAC };
const S0: Interface = Interface { name: "s0", index: 2, mac: END_MAC };
/// The middle's end of the client's cable.
pub const M0: Interface = Interface { name: "m0", index: 2, mac: [2, 0, 0, 0, 0, 2] };
/// The middle's end of the origin's cable.
pub const M1: Interface = Interface { name: "m1", index: 3, mac: [2, 0, 0, 0, 0, 3] };

/// Settings of the two ends. Each run starts without memories of earlier ones, may use any port, and sends nothing on
/// its own account.
const END_SETTINGS: [(&str, &str); 3] = [
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/ip_unprivileged_port_start", "0"),
    ("ipv4/ip_local_port_range", "32768 60999"),
];
const END_SETTINGS_V6: [(&str, &str); 3] = [
    ("ipv6/conf/default/disable_ipv6", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    // 1: no link-local address, because both ends would make the same one of their hardware address.
    ("ipv6/conf/default/addr_gen_mode", "1"),
];
const MIDDLE_SETTINGS_V6: [(&str, &str); 1] = [("ipv6/conf/default/disable_ipv6", "1")];

/// A finished lab.
pub struct Lab {
    middle: Namespace,
    client: Namespace,
    origin: Namespace,
    has_ipv6: bool,
    /// What is not as it should be and does not prevent a run.
    pub warning: Option<String>,
}

impl Lab {
    /// Builds a lab; the calling process must be the first of the process namespace made by [`enter`].
    ///
    /// The caller is left in the middle namespace.
    pub fn build(transport: &Transport) -> Result<Lab, LabError> {
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .map_err(|error| LabError::setup("making the mounts private", error))?;
        let warning = hosts::install()?;
        // Programs find themselves in a /proc of their own; where a container forbids it, the outer one will do.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let _ = mount(Some("proc"), "/proc", Some("proc"), flags, none);

        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let client = Namespace::create("client")?;
        client.prepare_end(has_ipv6)?;
        let origin = Namespace::create("origin")?;
        origin.prepare_end(has_ipv6)?;
        let middle = Namespace::create("middle")?;
        if has_ipv6 {
            set(&MIDDLE_SETTINGS_V6)?;
        }
        for (inner, outer, side) in [(&M0, &C0, &client), (&M1, &S0, &origin)] {
            let step = || format!("making the interfaces {} and {}", inner.name, outer.name);
            let made = middle.netlink.create_pair(inner, outer, side.file.as_fd());
            made.and_then(|()| middle.netlink.set_up(inner.index)).map_err(|error| LabError::setup(step(), error))?;
        }
        let lab = Lab { middle, client, origin, has_ipv6, warning };
        lab.client.connect(&C0, &lab.addresses(&CLIENT), transport)?;
        lab.origin.connect(&S0, &lab.addresses(&ORIGIN), transport)?;
        Ok(lab)
    }

    /// Opens a socket on the middle's ends of both cables, [`M0`] and [`M1`]. Call it in the middle namespace.
    pub fn open_socket(&self) -> Result<PacketSocket, LabError> {
        PacketSocket::open().map_err(|error| LabError::setup("opening a packet socket", error))
    }

    /// Moves the calling thread, and with it the processes it starts from now on, to the client's end.
    pub fn enter_client(&self) -> Result<(), LabError> {
        self.client.enter()
    }

    /// Moves the calling thread, and with it the processes it starts from now on, to the origin's end.
    pub fn enter_origin(&self) -> Result<(), LabError> {
        self.origin.enter()
    }

    /// What TCP really does in the lab, read back from the kernel; an error when the routes differ.
    pub fn transport(&self) -> Result<Transport, LabError> {
        let mut found: Vec<Transport> = Vec::new();
        for (namespace, peer) in [(&self.client, &ORIGIN), (&self.origin, &CLIENT)] {
            for address in self.addresses(peer) {
                let step = || format!("reading the route from the {} to {address}", namespace.name);
                let transport =
                    namespace.netlink.transport_to(address).map_err(|error| LabError::setup(step(), error))?;
                found.push(transport.ok_or_else(|| LabError::setup(step(), Errno::ENODATA))?);
            }
        }
        let first = found.swap_remove(0);
        match found.iter().find(|other| **other != first) {
            None => Ok(first),
            Some(other) => {
                Err(LabError::setup("reading the routes", io::Error::other(format!("{first:?} is not {other:?}"))))
            }
        }
    }

    /// Packets that an interface of the lab dropped instead of sending.
    pub fn dropped(&self) -> Result<u64, LabError> {
        let interfaces = [(&self.client, &C0), (&self.middle, &M0), (&self.middle, &M1), (&self.origin, &S0)];
        interfaces.into_iter().try_fold(0, |sum, (namespace, interface)| {
            let dropped = namespace.netlink.dropped(interface.index);
            let dropped =
                dropped.map_err(|e| LabError::setup(format!("reading the counters of {}", interface.name), e))?;
            Ok(sum + dropped)
        })
    }

    /// The addresses of a side in the order of `NETWORKS`; IPv4 only on a kernel without IPv6.
    fn addresses(&self, side: &Side) -> Vec<IpAddr> {
        let mut addresses = vec![side.v4.into(), side.v6.into()];
        addresses.truncate(1 + usize::from(self.has_ipv6));
        addresses
    }
}

/// A network namespace that lives as long as this value or a process in it.
struct Namespace {
    name: &'static str,
    file: File,
    netlink: Netlink,
}

impl Namespace {
    /// Makes a namespace and moves the calling thread into it.
    fn create(name: &'static str) -> Result<Namespace, LabError> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(forbidden)?;
        let step = || format!("opening the {name}'s network namespace");
        let file = File::open("/proc/thread-self/ns/net").map_err(|error| LabError::setup(step(), error))?;
        let netlink = Netlink::open().map_err(|error| LabError::setup(step(), error))?;
        Ok(Namespace { name, file, netlink })
    }

    fn enter(&self) -> Result<(), LabError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET)
            .map_err(|error| LabError::setup(format!("entering the {}'s network namespace", self.name), error))
    }

    /// Settles what must be settled before an interface exists. Call it inside.
    fn prepare_end(&self, has_ipv6: bool) -> Result<(), LabError> {
        set(&END_SETTINGS)?;
        if has_ipv6 {
            set(&END_SETTINGS_V6)?;
        }
        self.netlink.set_up(LOOPBACK).map_err(|error| LabError::setup("switching on the loopback interface", error))
    }

    fn connect(&self, interface: &Interface, addresses: &[IpAddr], transport: &Transport) -> Result<(), LabError> {
        let step = || format!("switching on {}", interface.name);
        self.netlink.set_up(interface.index).map_err(|error| LabError::setup(step(), error))?;
        for (address, (network, prefix)) in addresses.iter().zip(NETWORKS) {
            self.netlink
                .add_address(interface.index, *address, prefix)
                .map_err(|error| LabError::setup(format!("giving {} the address {address}", interface.name), error))?;
            self.netlink
                .add_route(interface.index, network, prefix, transport)
                .map_err(|error| route_error(interface, error, transport))?;
        }
        Ok(())
    }
}

/// The kernel answers alike to a congestion control that it does not know and to any other mistake in a route.
fn route_error(interface: &Interface, error: io::Error, transport: &Transport) -> LabError {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let wanted = &transport.congestion_control;
    if available.split_whitespace().any(|name| name == wanted) {
        LabError::setup(format!("adding the route of {}", interface.name), error)
    } else {
        LabError::CongestionControl { wanted: wanted.clone(), available: available.trim().to_owned() }
    }
}

/// Writes settings below /proc/sys/net of the calling thread's network namespace.
fn set(settings: &[(&str, &str)]) -> Result<(), LabError> {
    for (name, value) in settings {
        let path = format!("/proc/sys/net/{name}");
        fs::write(&path, value).map_err(|error| LabError::setup(format!("writing {value} to {path}"), error))?;
    }
    Ok(())
}
