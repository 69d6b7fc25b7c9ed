//! The application: routes and the employees store, once for every protocol.
//!
//! It sees a request whose path is in origin form and whose authority is in `Host`, and never learns which protocol
//! carried it: that is how the answers stay the same.

mod bytes;
mod employees;

use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::Service as _;

use self::bytes::ContentBytes;
use self::employees::Employees;
use crate::Error;
use crate::config::MAX_DELAY;

/// The longest body of `/bytes/N`, bytes.
const MAX_BYTES: u64 = 16 << 30;

/// The most images on `/page/N/SIZE`.
const MAX_IMAGES: u64 = 10_000;

/// The route that reads what it is sent.
const ECHO: &str = "/echo";

/// What `/` answers.
const INDEX: &str = r#"<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>fairlane origin</title><link rel="icon" href="data:,"></head>
<body>
<h1>fairlane origin</h1>
<p>The same answers over HTTP/1.1, HTTP/2 and HTTP/3.</p>
<ul>
<li><a href="/bytes/1000">/bytes/N</a>: N bytes
<li><a href="/page/20/10000">/page/N/SIZE</a>: a page of N objects of SIZE bytes
<li><a href="/api/test">/api/test</a>: a small JSON object
<li><a href="/delay/500">/delay/MS</a>: an answer after MS milliseconds
<li><a href="/rest/v10/employees">/rest/v10/employees</a>: a list from a database
<li>/echo: the body of the request
</ul>
</body>
</html>
"#;

/// The application.
pub struct App {
    router: Router,
    delay: Duration,
}

impl App {
    /// Opens the store, in `store` or in memory; every answer waits for `delay`.
    pub fn new(store: Option<&FilePath>, delay: Duration) -> Result<App, Error> {
        let router = Router::new()
            .route("/", get(Html(INDEX)))
            .route("/bytes/{count}", get(content_bytes))
            .route("/page/{images}/{size}", get(page))
            .route("/api/test", get(test))
            .route("/delay/{milliseconds}", get(delayed))
            .route(ECHO, any(echo))
            .route("/rest/v10/employees", get(list_employees))
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .with_state(Arc::new(Employees::open(store)?));
        Ok(App { router, delay })
    }

    /// Answers one request once all of it has arrived, as every protocol allows; `/echo` answers meanwhile.
    pub async fn answer(&self, mut request: Request<Body>) -> Response {
        if request.uri().path() != ECHO
            && let Err(error) = discard(request.body_mut()).await
        {
            return (StatusCode::BAD_REQUEST, format!("the request ends early: {error}\n")).into_response();
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let Ok(response) = self.router.clone().call(request).await;
        response
    }
}

/// A request that cannot be served: the status and one line of text that says why.
pub type Refusal = (StatusCode, String);

/// Reads a body that no route has a use for; most requests have none.
async fn discard(body: &mut Body) -> Result<(), axum::Error> {
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        frame?;
    }
    Ok(())
}

async fn content_bytes(Path(count): Path<String>) -> Result<impl IntoResponse, Refusal> {
    let count = number("N in /bytes/N", &count, MAX_BYTES)?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], Body::new(ContentBytes::new(count))))
}

async fn page(Path((images, size)): Path<(String, String)>) -> Result<Html<String>, Refusal> {
    let images = number("N in /page/N/SIZE", &images, MAX_IMAGES)?;
    let size = number("SIZE in /page/N/SIZE", &size, MAX_BYTES)?;
    let elements: String =
        (1..=images).map(|image| format!("<img src=\"/bytes/{size}?i={image}\" alt=\"\">\n")).collect();
    Ok(Html(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{images} objects of {size} \
         bytes</title><link rel=\"icon\" href=\"data:,\"></head>\n<body>\n{elements}</body>\n</html>\n"
    )))
}

async fn test() -> impl IntoResponse {
    Json(json!({ "message": "test" }))
}

async fn delayed(Path(milliseconds): Path<String>) -> Result<impl IntoResponse, Refusal> {
    let milliseconds = number("MS in /delay/MS", &milliseconds, MAX_DELAY.as_millis() as u64)?;
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    Ok(Json(json!({ "delay_ms": milliseconds })))
}

/// Streams the body back while it arrives.
async fn echo(request: Request<Body>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/octet-stream")], request.into_body())
}

async fn list_employees(State(employees): State<Arc<Employees>>) -> Result<impl IntoResponse, Refusal> {
    let failed = |error| (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot read the employees: {error}\n"));
    employees.list().map(Json).map_err(failed)
}

async fn not_found(request: Request<Body>) -> Refusal {
    (StatusCode::NOT_FOUND, format!("there is no route {}: / names those there are\n", request.uri().path()))
}

async fn method_not_allowed(request: Request<Body>) -> Refusal {
    let text = format!("{} does not answer {}\n", request.uri().path(), request.method());
    (StatusCode::METHOD_NOT_ALLOWED, text)
}

fn number(what: &str, text: &str, max: u64) -> Result<u64, Refusal> {
    let refusal = || (StatusCode::BAD_REQUEST, format!("{what} is '{text}': expected a whole number up to {max}\n"));
    text.parse().ok().filter(|number| *number <= max).ok_or_else(refusal)
}

#[cfg(test)]
mod tests {
    use axum::http::header::{ALLOW, CONTENT_LENGTH};

    use super::*;

    async fn ask(method: &str, path: &str) -> Response {
        let request = Request::builder().method(method).uri(path).body(Body::from("ping")).unwrap();
        App::new(None, Duration::ZERO).unwrap().answer(request).await
    }

    async fn text(response: Response) -> String {
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn numbers_out_of_range_are_refused_with_a_reason() {
        for path in ["/bytes/ten", "/bytes/-1", "/bytes/17179869185", "/page/10001/1", "/page/1/x", "/delay/30001"] {
            let response = ask("GET", path).await;
            assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
            let text = text(response).await;
            assert!(text.contains("expected a whole number up to"), "{path}: {text}");
        }
    }

    #[tokio::test]
    async fn unknown_routes_and_methods_are_refused() {
        let response = ask("GET", "/nothing/here").await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert!(text(response).await.contains("/nothing/here"));

        let response = ask("POST", "/api/test").await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(response.headers()[ALLOW], "GET,HEAD");
    }

    #[tokio::test]
    async fn head_gives_the_headers_of_get() {
        let (get, head) = (ask("GET", "/bytes/70000").await, ask("HEAD", "/bytes/70000").await);
        assert_eq!(get.headers(), head.headers());
        assert_eq!(head.headers()[CONTENT_LENGTH], "70000");
        assert_eq!(text(head).await, "");
    }

    #[tokio::test]
    async fn a_page_names_each_object_once() {
        let page = text(ask("GET", "/page/3/100").await).await;
        let sources: Vec<&str> = page.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(sources, ["/bytes/100?i=1", "/bytes/100?i=2", "/bytes/100?i=3"]);
    }

    #[tokio::test]
    async fn echo_answers_with_the_body() {
        assert_eq!(text(ask("POST", "/echo").await).await, "ping");
    }

    #[tokio::test(start_paused = true)]
    async fn delays_add_up() {
        let app = App::new(None, Duration::from_millis(5)).unwrap();
        let started = tokio::time::Instant::now();
        let request = Request::builder().uri("/delay/70").body(Body::empty()).unwrap();
        assert_eq!(text(app.answer(request).await).await, r#"{"delay_ms":70}"#);
        assert_eq!(started.elapsed(), Duration::from_millis(75));
    }
}
