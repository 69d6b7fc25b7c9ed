//! quiche, with BoringSSL.

use std::net::SocketAddr;
use std::time::Instant;

use ::quiche::{Connection, ConnectionId, Error, RecvInfo};
use bytes::Bytes;

use crate::client::{Client, MTU, SERVER_NAME, STREAM_WINDOW, WINDOW};
use crate::http3::{self, Responses};

pub struct Quiche {
    connection: Connection,
    local: SocketAddr,
    ready: bool,
    next_stream: u64,
    responses: Responses,
}

/// The first unidirectional stream of a client.
const CONTROL_STREAM: u64 = 2;

impl Client for Quiche {
    type Config = ::quiche::Config;

    fn config() -> ::quiche::Config {
        let mut config = ::quiche::Config::new(::quiche::PROTOCOL_VERSION).expect("BoringSSL makes a context");
        config.set_application_protos(&[b"h3"]).expect("the name is short enough");
        config.set_curves_list("X25519").expect("BoringSSL knows the group");
        config.verify_peer(false);
        config.grease(false);
        config.set_max_idle_timeout(30_000);
        config.set_max_send_udp_payload_size(usize::from(MTU));
        config.set_initial_max_data(WINDOW.into());
        config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW.into());
        config.set_initial_max_stream_data_uni(STREAM_WINDOW.into());
        config.set_initial_max_streams_uni(100);
        config
    }

    fn connect(config: &mut ::quiche::Config, local: SocketAddr, server: SocketAddr, _now: Instant) -> Self {
        let id = ConnectionId::from_ref(&[]);
        let connection = ::quiche::connect(Some(SERVER_NAME), &id, local, server, config);
        let connection = connection.expect("the configuration is fit for the server's address");
        Quiche { connection, local, ready: false, next_stream: 0, responses: Responses::default() }
    }

    fn take(&mut self, _now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        match self.connection.recv(datagram, RecvInfo { from, to: self.local }) {
            Ok(_) | Err(Error::Done) => {}
            Err(error) => panic!("connection lost: {error}"),
        }
    }

    fn advance(&mut self) -> u64 {
        assert!(!self.connection.is_closed(), "connection lost: {:?}", self.connection.peer_error());
        if !self.ready && self.connection.is_established() {
            self.ready = true;
            let written = self.connection.stream_send(CONTROL_STREAM, http3::CONTROL, false);
            assert_eq!(written, Ok(http3::CONTROL.len()), "flow control has room for a control stream");
        }
        while let Some(stream) = self.connection.stream_readable_next() {
            self.read(stream);
        }
        std::mem::take(&mut self.responses.complete)
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn start(&mut self, request: &Bytes) -> bool {
        if self.connection.peer_streams_left_bidi() == 0 {
            return false;
        }
        let written = self.connection.stream_send(self.next_stream, request, true);
        assert_eq!(written, Ok(request.len()), "flow control has room for a small request");
        self.next_stream += 4;
        true
    }

    fn transmit(&mut self, _now: Instant, segments: usize, out: &mut Vec<u8>) -> Option<(usize, usize)> {
        let mtu = usize::from(MTU);
        if out.len() < segments * mtu {
            out.resize(segments * mtu, 0);
        }
        let (mut length, mut segment) = (0, mtu);
        // All segments but the last have one size. quiche cannot take a packet back, so a shorter one ends the batch.
        for _ in 0..segments {
            let size = match self.connection.send(&mut out[length..length + segment]) {
                Ok((size, _)) => size,
                Err(Error::Done) => break,
                Err(error) => panic!("connection lost: {error}"),
            };
            let first = length == 0;
            length += size;
            if first {
                segment = size;
            } else if size < segment {
                break;
            }
        }
        (length > 0).then_some((length, segment))
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connection.timeout_instant()
    }

    fn on_timeout(&mut self, _now: Instant) {
        self.connection.on_timeout();
    }

    fn close(&mut self, _now: Instant) {
        // Fails only on a connection that is closed already.
        let _ = self.connection.close(true, 0x100, b"");
    }
}

impl Quiche {
    fn read(&mut self, stream: u64) {
        let is_response = stream & 3 == 0;
        let mut walk = self.responses.resume(stream);
        let mut buffer = [0; 512];
        loop {
            match self.connection.stream_recv(stream, &mut buffer) {
                Ok((_, false)) if !is_response => {}
                Ok((length, fin)) if is_response => {
                    walk.feed(&buffer[..length]);
                    if fin {
                        break self.responses.finish(walk);
                    }
                }
                Err(_) if is_response => break self.responses.suspend(stream, walk),
                _ => break,
            }
        }
    }
}
