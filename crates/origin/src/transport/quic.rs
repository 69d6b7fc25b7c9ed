use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use h3::error::{Code, ConnectionError, StreamError};
use h3::server::{RequestResolver, RequestStream};
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use measure::{CongestionControl, Protocol};
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::quic_body::QuicBody;
use super::service::{Counted, Service};
use super::{
    CONNECTION_WINDOW, FAREWELL, H3_NO_ERROR, IDLE_TIMEOUT, MAX_HEADER_BYTES, MAX_STREAMS, STREAM_WINDOW, Site,
};
use crate::tls::server_config;
use crate::{Config, Error};

type Resolver = RequestResolver<h3_quinn::Connection, Bytes>;
type Requests = h3::server::Connection<h3_quinn::Connection, Bytes>;
type SendStream = RequestStream<h3_quinn::SendStream<Bytes>, Bytes>;

/// A QUIC endpoint on an open socket; must be called inside the runtime.
pub fn endpoint(socket: UdpSocket, config: &Config) -> Result<Endpoint, Error> {
    let address = socket.local_addr();
    let alpn = Protocol::H3.alpn().into_iter().map(<[u8]>::to_vec).collect();
    let tls = server_config(&config.identity, alpn)?;
    let crypto = QuicServerConfig::try_from(tls).expect("the default provider has QUIC's initial cipher suite");
    let mut server = ServerConfig::with_crypto(Arc::new(crypto));
    server.transport_config(Arc::new(transport(config)));
    Endpoint::new(EndpointConfig::default(), Some(server), socket, Arc::new(TokioRuntime)).map_err(|source| {
        let address = address.unwrap_or_else(|_| ([0, 0, 0, 0], config.port).into());
        Error::Listen { transport: "UDP", address, source }
    })
}

/// The limits of HTTP/2, and the congestion control and initial window of kernel TCP.
fn transport(config: &Config) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle = IdleTimeout::try_from(IDLE_TIMEOUT).expect("a minute is a number of milliseconds that QUIC can write");
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
        .send_window(u64::from(CONNECTION_WINDOW))
        .max_idle_timeout(Some(idle))
        .congestion_controller_factory(congestion_controller(
            config.congestion_control,
            u64::from(config.initial_window_packets) * CongestionControl::PACKET_BYTES,
        ));
    transport
}

fn congestion_controller(
    algorithm: CongestionControl,
    initial_window: u64,
) -> Arc<dyn ControllerFactory + Send + Sync + 'static> {
    match algorithm {
        CongestionControl::Cubic => {
            let mut config = CubicConfig::default();
            config.initial_window(initial_window);
            Arc::new(config)
        }
        CongestionControl::Bbr => {
            let mut config = BbrConfig::default();
            config.initial_window(initial_window);
            Arc::new(config)
        }
        CongestionControl::Reno => {
            let mut config = NewRenoConfig::default();
            config.initial_window(initial_window);
            Arc::new(config)
        }
    }
}

/// Accepts connections until the shutdown.
pub async fn serve(endpoint: Endpoint, site: Arc<Site>) {
    while let Some(Some(incoming)) = site.stop.run_until_cancelled(endpoint.accept()).await {
        site.spawn(connection(incoming, Arc::clone(&site)));
    }
    // From here on, new connections are refused instead of left waiting.
    endpoint.set_server_config(None);
}

async fn connection(incoming: Incoming, site: Arc<Site>) {
    let counter = site.counters.connection(Protocol::H3);
    let Some(connection) = site.in_time(incoming).await else { return };
    counter.handshake();
    let service = Service::new(Arc::clone(&site), counter, false);
    let counted = CountedAtEnd { connection, site: Arc::clone(&site) };
    // An error here is the client's way to end the connection or a breach of the protocol that h3 has answered.
    let _ = requests(&counted.connection, service, &site).await;
}

/// Adds up what the transport counted, however the connection ends.
struct CountedAtEnd {
    connection: Connection,
    site: Arc<Site>,
}

impl Drop for CountedAtEnd {
    fn drop(&mut self) {
        self.connection.close(H3_NO_ERROR, b"");
        self.site.counters.add_quic(&self.connection.stats());
    }
}

/// Answers the requests of one connection until the client ends it or the shutdown lets it end.
async fn requests(connection: &Connection, service: Service, site: &Site) -> Result<(), ConnectionError> {
    let mut requests: Requests = h3::server::builder()
        .max_field_section_size(u64::from(MAX_HEADER_BYTES))
        .send_grease(false)
        .build(h3_quinn::Connection::new(connection.clone()))
        .await?;
    // Dropping the set ends what a vanished client no longer waits for.
    let mut running = JoinSet::new();
    // Once the shutdown has begun: how long the connection must be silent before it is closed.
    let mut farewell = None;
    loop {
        tokio::select! {
            resolver = requests.accept() => match resolver? {
                Some(resolver) => { running.spawn(exchange(resolver, service.clone())); }
                None => break,
            },
            Some(_) = running.join_next() => {}
            () = site.stop.cancelled(), if farewell.is_none() => {
                farewell = Some(if running.is_empty() { FAREWELL } else { FAREWELL + 3 * connection.rtt() });
                // GOAWAY names the first request that will not be answered: the one after the last accepted.
                requests.shutdown(1).await?;
            }
        }
        if let Some(farewell) = farewell
            && running.is_empty()
        {
            silence(connection, farewell).await;
            break;
        }
    }
    Ok(())
}

/// Waits until nothing has been sent for `pause`, or the connection has ended.
///
/// Closing a QUIC connection drops what it has not delivered yet, and the stack does not say when that is nothing.
async fn silence(connection: &Connection, pause: Duration) {
    loop {
        let sent = connection.stats().udp_tx.datagrams;
        if timeout(pause, connection.closed()).await.is_ok() || connection.stats().udp_tx.datagrams == sent {
            return;
        }
    }
}

/// Reads one request and answers it.
async fn exchange(resolver: Resolver, service: Service) -> Result<(), StreamError> {
    let (request, stream) = resolver.resolve_request().await?;
    let (mut send, receive) = stream.split();
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = Body::new(QuicBody::new(receive, announced));
    let response = service.answer(request.map(|()| body)).await;
    respond(&mut send, response).await
}

async fn respond(send: &mut SendStream, response: Response<Counted>) -> Result<(), StreamError> {
    let (parts, mut body) = response.into_parts();
    send.send_response(Response::from_parts(parts, ())).await?;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            send.stop_stream(Code::H3_INTERNAL_ERROR);
            return Ok(());
        };
        if let Ok(data) = frame.into_data() {
            send.send_data(data).await?;
        }
    }
    send.finish().await
}
