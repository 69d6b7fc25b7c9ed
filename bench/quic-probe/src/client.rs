//! What a QUIC library must do to take part: one connection with HTTP/3 on it, without a socket.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;

/// Bytes of the largest datagram sent: an Ethernet packet without the headers of IPv6 and UDP.
pub const MTU: u16 = 1452;
/// Flow control windows, in bytes.
pub const STREAM_WINDOW: u32 = 1 << 20;
pub const WINDOW: u32 = 1 << 24;
pub const SERVER_NAME: &str = "localhost";

pub trait Client: Sized {
    /// What all connections share.
    type Config;

    fn config() -> Self::Config;

    fn connect(config: &mut Self::Config, local: SocketAddr, server: SocketAddr, now: Instant) -> Self;

    /// Takes a datagram.
    fn take(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]);

    /// Acts on the datagrams taken, and gives the number of responses that they completed.
    fn advance(&mut self) -> u64;

    /// Whether the handshake is over.
    fn is_ready(&self) -> bool;

    /// Starts a request; false when the server allows no further stream yet.
    fn start(&mut self, request: &Bytes) -> bool;

    /// Writes datagrams to be sent to the front of `out`: at most `segments` of one size, the last of which may be
    /// shorter. Gives their length together and that size.
    fn transmit(&mut self, now: Instant, segments: usize, out: &mut Vec<u8>) -> Option<(usize, usize)>;

    fn timeout(&mut self) -> Option<Instant>;

    fn on_timeout(&mut self, now: Instant);

    /// Ends the connection; the next transmit says so to the server.
    fn close(&mut self, now: Instant);
}
