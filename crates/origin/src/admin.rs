use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;

use crate::counters::Counters;
use crate::{Error, transport};

/// Serves `GET /stats` at `address` until `stop`, and gives the address bound; must be called inside the runtime.
///
/// It has a port of its own, so that looking at the counters is never counted.
pub fn start(address: SocketAddr, counters: Arc<Counters>, stop: CancellationToken) -> Result<SocketAddr, Error> {
    let open = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((tokio::net::TcpListener::from_std(listener)?, bound))
    };
    let (listener, bound) = open().map_err(|source| transport::refused("TCP", address, source))?;
    tokio::spawn(async move {
        while let Some(stream) = transport::accept(&listener, &stop).await {
            let counters = Arc::clone(&counters);
            let answer = service_fn(move |request| std::future::ready(answer(&request, &counters)));
            tokio::spawn(http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer));
        }
    });
    Ok(bound)
}

fn answer(request: &Request<Incoming>, counters: &Counters) -> Result<Response<String>, http::Error> {
    let response = Response::builder();
    if request.uri().path() != "/stats" {
        return response.status(StatusCode::NOT_FOUND).body("there is no route but /stats\n".to_owned());
    }
    if request.method() != Method::GET {
        return response.status(StatusCode::METHOD_NOT_ALLOWED).header("allow", "GET").body(String::new());
    }
    let json = serde_json::to_string_pretty(&counters.read()).expect("counters are plain numbers and strings");
    response.header("content-type", "application/json").body(json + "\n")
}
