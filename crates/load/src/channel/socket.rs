//! Sockets of connections: where they come from and where they go.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::LoadError;
use mio::event::Source;
use mio::net::{TcpStream, UdpSocket, UnixStream};
use mio::{Interest, Registry, Token};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, setsockopt, socket, sockopt,
};

/// What a connection goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Host and port.
    Ip(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Makes the sockets of a run's connections; their source addresses take turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sockets {
    sources: Arc<[IpAddr]>,
    made: Arc<AtomicUsize>,
}

impl Sockets {
    /// Sockets that come from these addresses, or from where the kernel likes if there are none.
    ///
    /// # Errors
    /// An address is not one of this machine.
    pub(crate) fn new(sources: &[IpAddr]) -> Result<Sockets, LoadError> {
        for address in sources {
            std::net::UdpSocket::bind((*address, 0))
                .map_err(|source| LoadError::Source { address: *address, source })?;
        }
        Ok(Sockets { sources: sources.into(), made: Arc::default() })
    }

    /// Those addresses that a source fits.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn reachable(&self, mut addresses: Vec<Address>) -> Result<Vec<Address>, LoadError> {
        let names: Vec<String> = addresses.iter().map(Address::to_string).collect();
        addresses.retain(|address| match address {
            Address::Ip(address) => self.sources.is_empty() || self.fitting(*address).next().is_some(),
            Address::Unix(_) => true,
        });
        if addresses.is_empty() {
            return Err(LoadError::Plan(format!(
                "no --source can reach {}: give one of the same kind, IPv4 or IPv6",
                names.join(" or ")
            )));
        }
        Ok(addresses)
    }

    fn fitting(&self, destination: SocketAddr) -> impl Iterator<Item = IpAddr> + Clone {
        self.sources.iter().copied().filter(move |source| source.is_ipv4() == destination.is_ipv4())
    }

    /// The source of the next connection; `None` leaves it to the kernel.
    fn next(&self, destination: SocketAddr) -> Option<IpAddr> {
        let fitting = self.fitting(destination);
        let count = fitting.clone().count().max(1);
        fitting.clone().nth(self.made.fetch_add(1, Ordering::Relaxed) % count)
    }

    /// A socket that is connecting.
    pub(super) fn stream(&self, address: &Address) -> io::Result<Stream> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Address::Ip(address) => {
                let socket = match self.next(*address) {
                    None => TcpStream::connect(*address),
                    Some(source) => connect_from(source, *address),
                };
                let socket = socket.map_err(|error| no_port(error, *address))?;
                socket.set_nodelay(true)?;
                Ok(Stream::Tcp(socket))
            }
        }
    }

    /// A socket that sends datagrams to the address and takes them from nowhere else.
    pub(super) fn datagrams(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let source = self.next(address).unwrap_or(any);
        let socket = UdpSocket::bind(SocketAddr::new(source, 0)).map_err(|error| no_port(error, address))?;
        socket.connect(address)?;
        Ok(socket)
    }
}

/// Connects from a source address. Its port is chosen when the destination is known: what matters is that the four
/// together are new, and so each source has all its ports for each destination.
fn connect_from(source: IpAddr, destination: SocketAddr) -> io::Result<TcpStream> {
    let family = if source.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket: OwnedFd = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
    bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(source, 0)))?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(destination)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from_std(socket.into())),
        Err(error) => Err(error.into()),
    }
}

/// What the system calls an address that is not available is a port here: sources were tried before the run.
fn no_port(error: io::Error, destination: SocketAddr) -> io::Error {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => io::Error::new(
            error.kind(),
            format!(
                "no local port is free for another connection to {destination}; make fewer, or give more addresses to \
                 come from (--source)"
            ),
        ),
        _ => error,
    }
}

/// A byte stream's socket.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Registers it for everything, edge-triggered.
    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let socket: &mut dyn Source = match self {
            Stream::Tcp(socket) => socket,
            Stream::Unix(socket) => socket,
        };
        socket.register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Whether it is connected by now.
    ///
    /// # Errors
    /// It never will be.
    pub(super) fn is_connected(&self) -> io::Result<bool> {
        let (error, peer) = match self {
            Stream::Tcp(socket) => (socket.take_error()?, socket.peer_addr().map(drop)),
            Stream::Unix(socket) => (socket.take_error()?, socket.peer_addr().map(drop)),
        };
        match (error, peer) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(true),
            (None, Err(error)) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            (None, Err(error)) => Err(error),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(socket) => socket.as_fd(),
            Stream::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.read(buffer),
            Stream::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Unix(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn sources_of_the_right_family_take_turns() {
        let sources: Vec<IpAddr> = ["127.0.0.2", "::1", "127.0.0.3"].map(|text| text.parse().unwrap()).into();
        let sockets = Sockets::new(&sources).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(listener.local_addr().unwrap());
        let peers = [(); 4].map(|()| {
            let _socket = sockets.stream(&address).unwrap();
            listener.accept().unwrap().1.ip().to_string()
        });
        assert_eq!(peers, ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.3"]);
        let datagrams = sockets.datagrams("[::1]:9".parse().unwrap()).unwrap();
        assert_eq!(datagrams.local_addr().unwrap().ip(), sources[1]);
    }

    #[test]
    fn sources_that_cannot_be_used_are_named() {
        let [here, there, other] = ["::1", "192.0.2.1", "127.0.0.1:9"];
        let sockets = Sockets::new(&[here.parse().unwrap()]).unwrap();
        let [v4, v6] = [other, "[::1]:9"].map(|text| Address::Ip(text.parse().unwrap()));
        assert_eq!(sockets.reachable(vec![v4.clone(), v6.clone()]).unwrap(), [v6]);
        let message = sockets.reachable(vec![v4]).unwrap_err().to_string();
        assert!(message.contains("no --source can reach 127.0.0.1:9"), "{message}");
        let message = Sockets::new(&[there.parse().unwrap()]).unwrap_err().to_string();
        assert!(message.contains("cannot connect from 192.0.2.1"), "{message}");
    }

    #[test]
    fn a_source_without_a_free_port_is_called_so() {
        let error = no_port(io::ErrorKind::AddrNotAvailable.into(), "127.0.0.1:80".parse().unwrap());
        assert!(error.to_string().contains("no local port is free for another connection to 127.0.0.1:80"));
    }
}
