use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use measure::CongestionControl;
use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Error;

/// How often a free port is looked for: one that is free for TCP may be taken for UDP.
const ATTEMPTS: usize = 32;

/// Connections that the kernel accepts ahead of us; it applies its own limit to this.
const BACKLOG: i32 = 4096;

/// Bytes of datagrams that wait to be read, of all connections together. The kernel's default is for one of them.
const UDP_BUFFER: usize = 4 << 20;

/// The open sockets, one per address, all with the same port number.
pub(crate) struct Sockets {
    pub addresses: Vec<SocketAddr>,
    pub tcp: Vec<TcpListener>,
    pub udp: Vec<UdpSocket>,
}

/// Which sockets are wanted.
pub(crate) struct Wanted<'a> {
    /// Addresses; empty for all of both families.
    pub bind: &'a [IpAddr],
    /// Port; 0 for a free one.
    pub port: u16,
    pub tcp: bool,
    pub udp: bool,
    pub congestion_control: CongestionControl,
}

impl Sockets {
    /// Opens what is wanted.
    pub fn open(wanted: &Wanted) -> Result<Sockets, Error> {
        if wanted.port != 0 {
            return Sockets::open_on(wanted, wanted.port);
        }
        for _ in 0..ATTEMPTS {
            match Sockets::open_on(wanted, 0) {
                Err(Error::PortTaken { .. }) => continue,
                result => return result,
            }
        }
        Err(Error::NoFreePort)
    }

    /// The port number that all have in common.
    pub fn port(&self) -> u16 {
        self.addresses[0].port()
    }

    fn open_on(wanted: &Wanted, mut port: u16) -> Result<Sockets, Error> {
        const ANY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let bind = if wanted.bind.is_empty() { &ANY } else { wanted.bind };
        let mut sockets = Sockets { addresses: Vec::new(), tcp: Vec::new(), udp: Vec::new() };
        for ip in bind {
            let before = sockets.addresses.len();
            let result = sockets.open_at(wanted, SocketAddr::new(*ip, port));
            match result {
                // A machine without IPv6 serves IPv4 alone, unless IPv6 was asked for by name.
                Err(Error::Listen { source, .. }) if wanted.bind.is_empty() && ip.is_ipv6() && is_absent(&source) => {}
                result => result?,
            }
            if let Some(address) = sockets.addresses.get(before) {
                port = address.port();
            }
        }
        Ok(sockets)
    }

    fn open_at(&mut self, wanted: &Wanted, mut address: SocketAddr) -> Result<(), Error> {
        if wanted.tcp {
            let listen = || -> io::Result<(Socket, SocketAddr)> {
                let socket = bound(address, Type::STREAM, Protocol::TCP)?;
                // Where the kernel does not have or allow the algorithm, that of the route or its own stays; counters say so.
                let _ = socket.set_tcp_congestion(wanted.congestion_control.name().as_bytes());
                socket.listen(BACKLOG)?;
                let address = local_address(&socket)?;
                Ok((socket, address))
            };
            let (socket, bound_to) = listen().map_err(|error| refused("TCP", address, error))?;
            address = bound_to;
            self.tcp.push(socket.into());
        }
        if wanted.udp {
            let open = || -> io::Result<(Socket, SocketAddr)> {
                let socket = bound(address, Type::DGRAM, Protocol::UDP)?;
                // As far as the kernel allows it; TCP's buffers grow by themselves.
                let _ = socket.set_recv_buffer_size(UDP_BUFFER);
                let address = local_address(&socket)?;
                Ok((socket, address))
            };
            let (socket, bound_to) = open().map_err(|error| refused("UDP", address, error))?;
            address = bound_to;
            self.udp.push(socket.into());
        }
        self.addresses.push(address);
        Ok(())
    }
}

fn bound(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        // IPv4 has a socket of its own.
        socket.set_only_v6(true)?;
    }
    if protocol == Protocol::TCP {
        // An origin that has just ended leaves connections behind that would hold the port for a minute.
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn local_address(socket: &Socket) -> io::Result<SocketAddr> {
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::from(Errno::EAFNOSUPPORT))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL))
}

/// Says why an address cannot be listened on.
pub(crate) fn refused(transport: &'static str, address: SocketAddr, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::AddrInUse => Error::PortTaken { transport, address },
        io::ErrorKind::PermissionDenied if (1..1024).contains(&address.port()) => {
            Error::PortForbidden { transport, address }
        }
        _ => Error::Listen { transport, address, source },
    }
}

#[cfg(test)]
mod tests {
    use socket2::SockRef;

    use super::*;

    fn wanted(bind: &[IpAddr], port: u16) -> Wanted<'_> {
        Wanted { bind, port, tcp: true, udp: true, congestion_control: CongestionControl::Reno }
    }

    #[test]
    fn a_free_port_is_the_same_for_tcp_and_udp_on_every_address() {
        let sockets = Sockets::open(&wanted(&[], 0)).unwrap();
        let port = sockets.port();
        assert!(sockets.tcp.iter().all(|socket| socket.local_addr().unwrap().port() == port));
        assert!(sockets.udp.iter().all(|socket| socket.local_addr().unwrap().port() == port));
        assert_eq!((sockets.tcp.len(), sockets.udp.len()), (sockets.addresses.len(), sockets.addresses.len()));
        let name = SockRef::from(&sockets.tcp[0]).tcp_congestion().unwrap();
        assert!(name.starts_with(b"reno\0"), "every kernel allows Reno: {name:?}");
    }

    #[test]
    fn a_taken_port_is_named() {
        let local = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        for (transport, tcp, udp) in [("TCP", true, false), ("UDP", false, true)] {
            let holder = Sockets::open(&Wanted { tcp, udp, ..wanted(&local, 0) }).unwrap();
            let again = Wanted { tcp, udp, ..wanted(&local, holder.port()) };
            let error = Sockets::open(&again).err().unwrap().to_string();
            let expected = format!("{transport} port {} on 127.0.0.1 is taken", holder.port());
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let address = "127.0.0.1:80".parse().unwrap();
        let error = refused("TCP", address, io::ErrorKind::PermissionDenied.into()).to_string();
        assert!(error.contains("port 80") && error.contains("--port from 1024 up"), "{error}");
        let elsewhere = [IpAddr::from([192, 0, 2, 1])];
        let error = Sockets::open(&wanted(&elsewhere, 0)).err().unwrap().to_string();
        assert!(error.contains("192.0.2.1"), "{error}");
    }
}
