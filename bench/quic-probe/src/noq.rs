//! noq-proto, a fork of quinn-proto: as quinn.rs but for a few signatures.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, FourTuple,
    RandomConnectionIdGenerator, StreamEvent, StreamId, TransportConfig,
};

use crate::client::{Client, MTU, SERVER_NAME, STREAM_WINDOW, WINDOW};
use crate::http3::{self, Responses};
use crate::tls;

pub struct Noq {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    ready: bool,
    responses: Responses,
    answer: Vec<u8>,
}

pub struct Config {
    client: ClientConfig,
    endpoint: Arc<EndpointConfig>,
}

impl Client for Noq {
    type Config = Config;

    fn config() -> Config {
        let tls = QuicClientConfig::try_from(tls::config()).expect("TLS 1.3 has a suite for Initial packets");
        let mut client = ClientConfig::new(Arc::new(tls));
        let mut transport = TransportConfig::default();
        transport
            .initial_mtu(MTU)
            .mtu_discovery_config(None)
            .stream_receive_window(STREAM_WINDOW.into())
            .receive_window(WINDOW.into());
        client.transport_config(Arc::new(transport));
        let mut endpoint = EndpointConfig::default();
        endpoint.cid_generator(Arc::new(|| Box::new(RandomConnectionIdGenerator::new(0))));
        Config { client, endpoint: Arc::new(endpoint) }
    }

    fn connect(config: &mut Config, _local: SocketAddr, server: SocketAddr, now: Instant) -> Self {
        let mut endpoint = Endpoint::new(Arc::clone(&config.endpoint), None, true);
        let connection = endpoint.connect(now, config.client.clone(), server, SERVER_NAME);
        let (handle, connection) = connection.expect("the configuration is fit for the server's address");
        Noq { endpoint, handle, connection, ready: false, responses: Responses::default(), answer: Vec::new() }
    }

    fn take(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let event =
            self.endpoint.handle(now, FourTuple::from_remote(from), None, BytesMut::from(&*datagram), &mut self.answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }

    fn advance(&mut self) -> u64 {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.ready = true;
                    let control = self.connection.streams().open(Dir::Uni).expect("the server takes a control stream");
                    self.write(control, Bytes::from_static(http3::CONTROL));
                }
                Event::ConnectionLost { reason } => panic!("connection lost: {reason}"),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream) = self.connection.streams().accept(dir) {
                        self.read(stream);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                _ => {}
            }
        }
        std::mem::take(&mut self.responses.complete)
    }

    fn is_ready(&self) -> bool {
        self.ready
    }

    fn start(&mut self, request: &Bytes) -> bool {
        let Some(stream) = self.connection.streams().open(Dir::Bi) else { return false };
        self.write(stream, request.clone());
        self.connection.send_stream(stream).finish().expect("nobody has stopped a stream just opened");
        true
    }

    fn transmit(&mut self, now: Instant, segments: usize, out: &mut Vec<u8>) -> Option<(usize, usize)> {
        out.clear();
        let segments = NonZeroUsize::new(segments)?;
        let transmit = self.connection.poll_transmit(now, segments, out)?;
        Some((transmit.size, transmit.segment_size.unwrap_or(transmit.size)))
    }

    fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    fn on_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    fn close(&mut self, now: Instant) {
        self.connection.close(now, 0x100u32.into(), Bytes::new());
    }
}

impl Noq {
    fn write(&mut self, stream: StreamId, bytes: Bytes) {
        let length = bytes.len();
        let written = self.connection.send_stream(stream).write_chunks(&mut &mut [bytes][..]);
        assert_eq!(written, Ok(length), "flow control has room for a small request");
    }

    fn read(&mut self, stream: StreamId) {
        let mut receiver = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiver.read(true) else { return };
        let is_response = stream.dir() == Dir::Bi;
        let mut walk = self.responses.resume(stream.into());
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if is_response => walk.feed(&chunk.bytes),
                Ok(Some(_)) => {}
                Ok(None) if is_response => break self.responses.finish(walk),
                Ok(None) => break,
                Err(_) if is_response => break self.responses.suspend(stream.into(), walk),
                Err(_) => break,
            }
        }
        let _ = chunks.finalize();
    }
}
