//! A channel is one connection with its transport: socket, TLS or QUIC, and HTTP on top. Byte streams
//! ([`stream::StreamChannel`]) and QUIC ([`quic::QuicChannel`]) look the same to the worker that drives them.

pub(crate) mod quic;
mod quic_setup;
mod record;
pub(crate) mod socket;
pub(crate) mod stream;

use std::io;
use std::time::Instant;

use measure::{QuicCounts, TlsFacts};
use mio::{Registry, Token as EventToken};
use wire::{Event, Request, Token};

use self::socket::Address;

/// Takes what a channel received.
pub(crate) trait Sink {
    /// Bytes were read from the socket at this time; the events that follow come from them.
    fn arrived(&mut self, at: Instant);

    /// HTTP says something about a request.
    fn event(&mut self, event: Event<'_>);
}

/// What a channel agreed on with its peer; asked for once per run.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub tls: Option<TlsFacts>,
    pub congestion_control: String,
}

/// Bytes at the level of HTTP framing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Volume {
    pub received: u64,
    pub sent: u64,
}

/// Why a channel is of no further use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The peer ended the connection in an orderly way.
    #[error("the server closed the connection")]
    Ended,
    /// The socket failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The TLS handshake or a record failed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// ALPN chose something else than the one protocol wanted.
    #[error("ALPN chose {}", in_words(.chosen.as_deref()))]
    WrongProtocol {
        /// The list that was offered.
        offered: String,
        /// `None` is no choice at all.
        chosen: Option<Vec<u8>>,
    },
    /// The peer broke HTTP.
    #[error(transparent)]
    Http(#[from] wire::Error),
    /// The QUIC connection was lost.
    #[error("QUIC: {0}")]
    Quic(quinn_proto::ConnectionError),
    /// QUIC could not start a connection.
    #[error("QUIC: {0}")]
    QuicSetup(#[from] quinn_proto::ConnectError),
    /// The peer refused request after request.
    #[error("the server refused every request")]
    Refusing,
    /// Connecting took longer than the plan allows.
    #[error("no answer within the timeout")]
    TimedOut,
}

impl Broken {
    /// Whether trying again is pointless: the server understood, and said no.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Broken::Tls(_) | Broken::WrongProtocol { .. } | Broken::TimedOut)
            || matches!(self, Broken::Quic(error) if *error != quinn_proto::ConnectionError::Reset)
    }
}

/// An ALPN choice in words.
pub(crate) fn in_words(alpn: Option<&[u8]>) -> String {
    alpn.map_or_else(|| "none".to_owned(), |name| format!("'{}'", String::from_utf8_lossy(name)))
}

/// One connection with its transport.
///
/// The worker calls [`Channel::receive`] when the socket has something to say, starts requests while
/// [`Channel::has_room`], and then flushes once.
pub(crate) trait Channel: Sized {
    /// What all channels of a run share.
    type Settings: Clone + Send + Sync + 'static;
    /// A request, encoded once.
    type Prepared: for<'a> From<&'a Request>;
    /// Buffers that all channels of a worker share, so that an idle connection costs little memory.
    type Scratch: Default;

    /// Connections that a worker makes at once; others wait.
    const AT_ONCE: usize;

    /// Starts connecting and registers the socket, edge-triggered.
    fn open(
        settings: &Self::Settings,
        address: &Address,
        registry: &Registry,
        token: EventToken,
        now: Instant,
    ) -> Result<Self, Broken>;

    /// The same settings without anything remembered from earlier connections.
    fn cold(settings: &Self::Settings) -> Self::Settings;

    /// Takes everything that has arrived. `closed` says that the peer is known to have ended its side, so that the end
    /// must be looked for after a short read too.
    ///
    /// # Errors
    /// The connection is over; requests in flight have been reported to the sink.
    fn receive(&mut self, scratch: &mut Self::Scratch, closed: bool, sink: &mut impl Sink) -> Result<(), Broken>;

    /// Whether the handshakes are over.
    fn is_ready(&self) -> bool;

    /// Whether requests can start before the handshakes are over, to go out with the first flight of TLS (0-RTT).
    fn takes_early_data(&self) -> bool;

    /// Once the handshakes are over: whether the server accepted the requests that had started before; `None` when none
    /// had. Rejected ones have been sent again.
    fn early_data_accepted(&self) -> Option<bool>;

    /// Whether a request can start right now.
    fn has_room(&mut self) -> bool;

    /// Starts a request; the caller has seen [`Channel::has_room`]. Gives the bytes of its head on the wire.
    fn start(&mut self, token: Token, request: &Self::Prepared) -> u32;

    /// Gives a request up.
    fn cancel(&mut self, token: Token);

    /// Whether no new requests are taken, for good.
    fn is_draining(&self) -> bool;

    /// Sends what is to be sent, as far as the socket takes it.
    ///
    /// # Errors
    /// The connection is over; the caller reports requests in flight as failed.
    fn flush(&mut self, scratch: &mut Self::Scratch, now: Instant) -> Result<(), Broken>;

    /// When [`Channel::on_timer`] wants to be called; changes with every other call.
    fn timer(&mut self) -> Option<Instant>;

    /// The time of [`Channel::timer`] has come.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    fn on_timer(&mut self, now: Instant, sink: &mut impl Sink) -> Result<(), Broken>;

    /// Says goodbye as far as that needs no answer.
    fn close(&mut self, scratch: &mut Self::Scratch, now: Instant);

    /// Whether the handshake resumed an earlier session; false in cleartext.
    fn is_resumed(&self) -> bool;

    /// What was agreed on.
    fn describe(&self) -> Description;

    /// Bytes so far.
    fn volume(&self) -> Volume;

    /// Counts of QUIC so far; `None` over TCP.
    fn quic_counts(&self) -> Option<QuicCounts>;
}
