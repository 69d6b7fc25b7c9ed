use std::mem;

/// What a TLS ClientHello says in the clear (RFC 8446 section 4.1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// Protocols offered by ALPN (RFC 7301), in the client's order.
    pub alpn: Vec<String>,
    /// Whether it holds a pre-shared key (RFC 8446) or a session ticket (RFC 5077).
    pub resumption_offered: bool,
}

/// Collects the first bytes of a client's stream until they make a ClientHello, or cannot become one.
#[derive(Debug)]
pub enum HelloReader {
    Collecting(Vec<u8>),
    Found(ClientHello),
    NotTls,
}

/// A longer ClientHello is not one: those of today have 0.2 to 4 kB.
const LONGEST_BYTES: usize = 32 * 1024;

impl HelloReader {
    pub fn new() -> HelloReader {
        HelloReader::Collecting(Vec::new())
    }

    /// Takes stream bytes that start at `offset`; what was seen before is skipped, what leaves a hole is ignored.
    pub fn push(&mut self, offset: u64, bytes: &[u8]) {
        let HelloReader::Collecting(stream) = self else { return };
        let known = (stream.len() as u64).checked_sub(offset).and_then(|known| usize::try_from(known).ok());
        let Some(news) = known.and_then(|known| bytes.get(known..)) else { return };
        stream.extend_from_slice(news);
        *self = match first_message(stream) {
            Message::Whole(message) => parse(&message).map_or(HelloReader::NotTls, HelloReader::Found),
            Message::Partial if stream.len() <= LONGEST_BYTES => HelloReader::Collecting(mem::take(stream)),
            Message::Partial | Message::Impossible => HelloReader::NotTls,
        };
    }

    pub fn found(&self) -> Option<&ClientHello> {
        match self {
            HelloReader::Found(hello) => Some(hello),
            _ => None,
        }
    }
}

enum Message {
    Whole(Vec<u8>),
    Partial,
    Impossible,
}

const RECORD_HANDSHAKE: usize = 22;
const VERSION_MAJOR: usize = 3;
const CLIENT_HELLO: usize = 1;
const EXTENSION_ALPN: usize = 16;
const EXTENSION_SESSION_TICKET: usize = 35;
const EXTENSION_PRE_SHARED_KEY: usize = 41;

/// Joins the records at the start of the stream (RFC 8446 section 5.1) to the body of a ClientHello.
fn first_message(stream: &[u8]) -> Message {
    let mut records = Reader(stream);
    let mut joined = Vec::new();
    loop {
        let mut message = Reader(&joined);
        match message.number(1) {
            Some(CLIENT_HELLO) => {
                if let Some(body) = message.vector(3) {
                    return Message::Whole(body.to_vec());
                }
            }
            Some(_) => return Message::Impossible,
            None => {}
        }
        match (records.number(1), records.number(1), records.number(1), records.vector(2)) {
            (Some(content), _, _, _) if content != RECORD_HANDSHAKE => return Message::Impossible,
            (_, Some(major), _, _) if major != VERSION_MAJOR => return Message::Impossible,
            (_, _, _, Some([])) => return Message::Impossible,
            (_, _, _, Some(fragment)) => joined.extend_from_slice(fragment),
            _ => return Message::Partial,
        }
    }
}

fn parse(body: &[u8]) -> Option<ClientHello> {
    let mut body = Reader(body);
    let (_version, _random) = (body.take(2)?, body.take(32)?);
    let (_session_id, _cipher_suites, _compression) = (body.vector(1)?, body.vector(2)?, body.vector(1)?);
    let mut hello = ClientHello::default();
    let mut extensions = Reader(body.vector(2).unwrap_or_default());
    while let Some(kind) = extensions.number(2) {
        let content = extensions.vector(2)?;
        match kind {
            EXTENSION_ALPN => {
                let mut names = Reader(Reader(content).vector(2)?);
                while let Some(name) = names.vector(1) {
                    hello.alpn.push(String::from_utf8_lossy(name).into_owned());
                }
            }
            EXTENSION_SESSION_TICKET => hello.resumption_offered |= !content.is_empty(),
            EXTENSION_PRE_SHARED_KEY => hello.resumption_offered = true,
            _ => {}
        }
    }
    Some(hello)
}

/// Reads TLS's presentation language (RFC 8446 section 3) from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of `bytes` bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A vector whose length has `length_bytes` bytes.
    fn vector(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(length_bytes)?;
        self.take(length)
    }
}
