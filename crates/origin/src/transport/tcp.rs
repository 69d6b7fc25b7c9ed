use std::convert::Infallible;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use measure::Protocol;
use nix::sys::socket::{MsgFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::lent::{Claim, lend};
use super::service::{Counted, Service};
use super::{CONNECTION_WINDOW, FAREWELL, IDLE_TIMEOUT, MAX_HEADER_BYTES, MAX_STREAMS, STREAM_WINDOW, Site};
use crate::counters::ConnectionCounter;
use crate::tls::server_config;
use crate::{Config, Error};

/// Pause after a failed accept: the process is out of file descriptors, and trying again at once would not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The TLS side of TCP: `h2` before `http/1.1`, of those that are switched on.
pub fn acceptor(config: &Config) -> Result<TlsAcceptor, Error> {
    let alpn = [Protocol::H2, Protocol::H1].into_iter().filter(|protocol| config.protocols.contains(protocol));
    let alpn = alpn.filter_map(Protocol::alpn).map(<[u8]>::to_vec).collect();
    let tls = server_config(&config.identity, alpn)?;
    Ok(TlsAcceptor::from(Arc::new(tls)))
}

/// Accepts connections until the shutdown.
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, site: Arc<Site>) {
    while let Some(stream) = accept(&listener, &site.stop).await {
        site.counters.accepted(&stream);
        site.spawn(connection(stream, tls.clone(), Arc::clone(&site)));
    }
}

/// The next connection, or `None` once `stop` is cancelled.
pub async fn accept(listener: &TcpListener, stop: &CancellationToken) -> Option<TcpStream> {
    loop {
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok((stream, _)) => return Some(stream),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// What a client wants, by its first bytes.
enum Opening {
    Tls,
    Http1,
    Http2,
}

/// Serves one connection. A protocol that is switched off and a client that stays silent are hung up on.
async fn connection(stream: TcpStream, tls: TlsAcceptor, site: Arc<Site>) {
    // Answers leave when they are complete; a socket that refuses the option is closed already.
    let _ = stream.set_nodelay(true);
    let Some(opening) = site.in_time(opening(&stream)).await else { return };
    let (stream, claim) = lend(stream);
    match opening {
        Opening::Http1 if site.protocols.contains(&Protocol::H1c) => http1(stream, claim, Protocol::H1c, site).await,
        Opening::Http2 if site.protocols.contains(&Protocol::H2c) => http2(stream, claim, Protocol::H2c, site).await,
        Opening::Tls if site.protocols.contains(&Protocol::H1) || site.protocols.contains(&Protocol::H2) => {
            let Some(stream) = site.in_time(tls.accept(stream)).await else { return };
            // A client without ALPN speaks HTTP/1.1 (RFC 9113 section 3.2 demands ALPN of HTTP/2).
            if stream.get_ref().1.alpn_protocol() == Protocol::H2.alpn() {
                http2(stream, claim, Protocol::H2, site).await;
            } else if site.protocols.contains(&Protocol::H1) {
                http1(stream, claim, Protocol::H1, site).await;
            }
        }
        _ => {}
    }
}

/// Looks at the first bytes without taking them.
///
/// The look happens inside the readiness call: as long as it cannot tell, it reports `WouldBlock`, and so is called again
/// when more bytes have come, not before.
async fn opening(stream: &TcpStream) -> io::Result<Opening> {
    const TLS_HANDSHAKE_RECORD: u8 = 0x16;
    // The preface of RFC 9113 section 3.4 begins so, and no registered method does.
    const PREFACE: &[u8] = b"PRI";
    let mut first = [0; PREFACE.len()];
    let look = || match recv(stream.as_raw_fd(), &mut first, MsgFlags::MSG_PEEK)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ if first[0] == TLS_HANDSHAKE_RECORD => Ok(Opening::Tls),
        count if !PREFACE.starts_with(&first[..count]) => Ok(Opening::Http1),
        count if count == PREFACE.len() => Ok(Opening::Http2),
        _ => Err(io::ErrorKind::WouldBlock.into()),
    };
    stream.async_io(Interest::READABLE, look).await
}

async fn http1<S>(stream: S, claim: Claim, protocol: Protocol, site: Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (counter, service) = begin(protocol, &site);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_header_size(MAX_HEADER_BYTES as usize)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service_fn(|request| answer(service.clone(), request)));
    drive(connection, claim, &counter, &site).await;
}

async fn http2<S>(stream: S, claim: Claim, protocol: Protocol, site: Arc<Site>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (counter, service) = begin(protocol, &site);
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(IDLE_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_BYTES)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service_fn(|request| answer(service.clone(), request)));
    drive(connection, claim, &counter, &site).await;
}

fn begin(protocol: Protocol, site: &Arc<Site>) -> (Arc<ConnectionCounter>, Service) {
    let counter = site.counters.connection(protocol);
    if protocol.is_encrypted() {
        counter.handshake();
    }
    let service = Service::new(Arc::clone(site), Arc::clone(&counter), protocol.is_encrypted());
    (counter, service)
}

async fn answer(service: Service, request: Request<Incoming>) -> Result<Response<Counted>, Infallible> {
    Ok(service.answer(request.map(Body::new)).await)
}

/// Runs a connection to its end, which the shutdown and the lack of a first request bring about.
async fn drive<C: GracefulConnection>(connection: C, claim: Claim, counter: &ConnectionCounter, site: &Site) {
    let mut connection = Box::pin(connection);
    let silent = async {
        sleep(IDLE_TIMEOUT).await;
        if counter.requests() > 0 {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // How a client ends its connection is its own affair.
        _ = connection.as_mut() => return,
        () = site.stop.cancelled() => {}
        () = silent => {}
    }
    connection.as_mut().graceful_shutdown();
    if counter.in_flight() > 0 {
        let _ = connection.as_mut().await;
        drop(connection);
        let _ = claim.linger().await;
    } else {
        let _ = timeout(FAREWELL, connection).await;
    }
}
