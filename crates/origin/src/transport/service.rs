use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use axum::body::Body;
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::header::{ALT_SVC, CACHE_CONTROL, DATE, HOST};
use http::uri::{PathAndQuery, Uri};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Frame, SizeHint};

use super::Site;
use crate::app::Refusal;
use crate::counters::{ConnectionCounter, InFlight};

/// One connection's way to the application: every protocol passes here, so every answer gets the same header fields.
#[derive(Clone)]
pub struct Service {
    site: Arc<Site>,
    counter: Arc<ConnectionCounter>,
    announces_h3: bool,
}

impl Service {
    /// The service of one connection; `announces_h3` adds `Alt-Svc` where HTTP/3 is on.
    pub fn new(site: Arc<Site>, counter: Arc<ConnectionCounter>, announces_h3: bool) -> Service {
        Service { site, counter, announces_h3 }
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Body>) -> Response<Counted> {
        let in_flight = self.counter.request();
        let mut response = match normalise(request) {
            Ok(request) => self.site.app.answer(request).await,
            Err(refusal) => refusal.into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let date = httpdate::fmt_http_date(SystemTime::now());
        headers.insert(DATE, HeaderValue::from_str(&date).expect("a date is visible ASCII"));
        if self.announces_h3
            && let Some(alternative) = &self.site.alt_svc
        {
            headers.insert(ALT_SVC, alternative.clone());
        }
        response.map(|body| Counted { body, in_flight })
    }
}

/// Brings a request into the one shape that the application sees: path in origin form, authority in `Host`.
///
/// HTTP/2 and HTTP/3 have the authority in the URI (`:authority`), HTTP/1.1 has it in `Host` or, in absolute form, in
/// both, of which the URI counts (RFC 9112 section 3.2.2). Only HTTP/1.0 may leave it out.
fn normalise(mut request: Request<Body>) -> Result<Request<Body>, Refusal> {
    let malformed = |text: &str| (StatusCode::BAD_REQUEST, format!("{text}\n"));
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| malformed("the authority is malformed"))?;
        request.headers_mut().insert(HOST, host);
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from(path);
    }
    match request.headers().get_all(HOST).iter().count() {
        0 if request.version() > Version::HTTP_10 => Err(malformed("the request names no host")),
        0 | 1 => Ok(request),
        _ => Err(malformed("the request names more than one host")),
    }
}

/// A response body that counts itself; the request is in flight as long as it exists.
pub struct Counted {
    body: Body,
    in_flight: InFlight,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref) {
            self.in_flight.sent(data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: Version, uri: &str, hosts: &[&str]) -> Request<Body> {
        let mut request = Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn every_protocol_gives_the_same_request() {
        let shapes = [
            request(Version::HTTP_11, "/bytes/1?i=2", &["origin:8443"]),
            request(Version::HTTP_11, "http://origin:8443/bytes/1?i=2", &["ignored"]),
            request(Version::HTTP_2, "https://origin:8443/bytes/1?i=2", &[]),
            request(Version::HTTP_3, "https://origin:8443/bytes/1?i=2", &["origin:8443"]),
        ];
        for shape in shapes {
            let normal = normalise(shape).unwrap();
            assert_eq!(normal.uri(), "/bytes/1?i=2");
            assert_eq!(normal.headers().get_all(HOST).iter().collect::<Vec<_>>(), ["origin:8443"]);
        }
    }

    #[test]
    fn a_request_names_one_host() {
        assert!(normalise(request(Version::HTTP_11, "/", &[])).is_err());
        assert!(normalise(request(Version::HTTP_11, "/", &["a", "b"])).is_err());
        assert!(normalise(request(Version::HTTP_10, "/", &[])).is_ok());
    }
}
