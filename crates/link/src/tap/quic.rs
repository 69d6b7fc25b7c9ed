use std::collections::HashSet;

/// Tells the QUIC connections of one UDP flow apart; several may share a client's socket.
///
/// A client opens a connection with an Initial packet to a destination connection ID that it made up. Its later
/// Initials go to that ID again, or to the ID by which the server has named itself since, perhaps in a Retry. So an
/// Initial opens a connection if its destination is neither known from the client nor named by the server. The client's
/// source ID would be no help: browsers leave it empty.
#[derive(Debug, Default)]
pub struct Connections {
    known: HashSet<Box<[u8]>>,
    opened: u64,
}

impl Connections {
    /// Takes note of a datagram from the client.
    pub fn client_sent(&mut self, datagram: &[u8]) {
        if let Some(destination) = initial_destination(datagram) {
            self.opened += u64::from(self.learn(destination));
        }
    }

    /// Takes note of a datagram from the server.
    pub fn server_sent(&mut self, datagram: &[u8]) {
        if let Some(header) = LongHeader::parse(datagram) {
            self.learn(header.source);
        }
    }

    /// Connections that the client opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    fn learn(&mut self, id: &[u8]) -> bool {
        !self.known.contains(id) && self.known.insert(id.into())
    }
}

/// Clients pad every datagram with an Initial packet to this size (RFC 9000 section 14.1).
const SMALLEST_INITIAL_BYTES: usize = 1200;
/// Version numbers, each with the type bits of its Initial packets (RFC 9000 section 17.2.2, RFC 9369 section 3.2).
const INITIALS: [(u32, u8); 2] = [(0x0000_0001, 0b00), (0x6b33_43cf, 0b01)];

/// The destination connection ID of a client's datagram that starts with an Initial packet; `None` for any other.
pub fn initial_destination(datagram: &[u8]) -> Option<&[u8]> {
    let header = LongHeader::parse(datagram).filter(|_| datagram.len() >= SMALLEST_INITIAL_BYTES)?;
    INITIALS.contains(&(header.version, header.kind)).then_some(header.destination)
}

/// The part of a long header that all versions share (RFC 8999 section 5.1), and the type bits.
struct LongHeader<'a> {
    version: u32,
    kind: u8,
    destination: &'a [u8],
    source: &'a [u8],
}

impl<'a> LongHeader<'a> {
    fn parse(datagram: &'a [u8]) -> Option<LongHeader<'a>> {
        let (first, rest) = datagram.split_first().filter(|(first, _)| **first & 0x80 != 0)?;
        let (version, rest) = rest.split_first_chunk()?;
        let (destination, rest) = connection_id(rest)?;
        let (source, _) = connection_id(rest)?;
        Some(LongHeader { version: u32::from_be_bytes(*version), kind: first >> 4 & 0b11, destination, source })
    }
}

fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}
