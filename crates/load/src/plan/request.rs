use std::ops::RangeInclusive;

use bytes::Bytes;
use measure::Protocol;
use wire::Request;

use super::bad;
use crate::{LoadError, Target};

/// A request to make, as often as its weight says.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Path and query, beginning with `/`.
    pub path: String,
    /// Method.
    pub method: String,
    /// Header fields besides those that the protocol needs. `host` replaces the URL's authority.
    pub headers: Vec<(String, String)>,
    /// Body; empty for none.
    pub body: Bytes,
    /// How often it is chosen among the others, relative to their weights; above 0.
    pub weight: f64,
}

/// What a response has to be like to count as succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Statuses; empty for 2xx and 3xx.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// Bytes of the body; `None` for any number.
    pub body_bytes: Option<u64>,
}

impl Expectation {
    /// What is wrong with a response; `None` if nothing is.
    pub(crate) fn objection(&self, status: u16, body_bytes: u64) -> Option<String> {
        let fits = if self.statuses.is_empty() {
            status < 400
        } else {
            self.statuses.iter().any(|range| range.contains(&status))
        };
        if !fits {
            return Some(format!("status {status}"));
        }
        let wanted = self.body_bytes.filter(|wanted| *wanted != body_bytes)?;
        Some(format!("a body of {body_bytes} bytes instead of {wanted}"))
    }
}

impl Planned {
    /// A GET request.
    pub fn get(path: String) -> Planned {
        Planned { path, method: "GET".to_owned(), headers: Vec::new(), body: Bytes::new(), weight: 1.0 }
    }

    /// Whether it may be made again without harm (RFC 8470 section 4, with RFC 9110 section 9.2.1).
    pub(super) fn is_repeatable(&self) -> bool {
        self.body.is_empty() && matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// What users give is copied into requests as it is, so it must be well-formed (RFC 9110 sections 5.5, 9.1).
    pub(super) fn check(&self) -> Result<(), LoadError> {
        /// Fields that the encoders add, or that have no place in HTTP/2 and HTTP/3 (RFC 9113 section 8.2.2).
        const RESERVED: [&str; 7] =
            ["connection", "content-length", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
        if !is_token(&self.method) {
            return bad(format!("'{}' is not a method; expected a word such as GET", self.method));
        }
        if !(self.weight > 0.0 && self.weight.is_finite()) {
            return bad(format!("the weight of {} is {}; expected a number above 0", self.path, self.weight));
        }
        for (name, value) in &self.headers {
            if !is_token(name) {
                return bad(format!("'{name}' is not the name of a header field"));
            }
            // The one use of it that all protocols allow (RFC 9110 section 10.1.4).
            let is_te_trailers = name.eq_ignore_ascii_case("te") && value.trim().eq_ignore_ascii_case("trailers");
            if RESERVED.contains(&name.to_ascii_lowercase().as_str()) && !is_te_trailers {
                return bad(format!("the field '{name}' belongs to the protocol and is set by it"));
            }
            if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
                return bad(format!("the value of '{name}' contains a control character"));
            }
        }
        Ok(())
    }

    pub(super) fn complete(&self, protocol: Protocol, target: &Target) -> Request {
        let mut authority = target.authority();
        let mut headers = vec![("user-agent".to_owned(), concat!("fairlane/", env!("CARGO_PKG_VERSION")).to_owned())];
        for (name, value) in &self.headers {
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            match name.as_str() {
                "host" => authority = value,
                "user-agent" => headers[0].1 = value,
                _ => headers.push((name, value)),
            }
        }
        Request {
            method: self.method.clone(),
            scheme: protocol.scheme().to_owned(),
            authority,
            path: self.path.clone(),
            headers,
            body: self.body.clone(),
        }
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Planned {
        Planned::get(path.to_owned())
    }

    #[test]
    fn refuses_fields_that_would_break_the_message() {
        let with = |name: &str, value: &str| Planned { headers: vec![(name.to_owned(), value.to_owned())], ..get("/") };
        assert!(with("X-Ok", "yes").check().is_ok());
        for (name, value) in [("", "x"), ("a b", "x"), ("x", "a\r\nb: c"), ("Transfer-Encoding", "chunked")] {
            assert!(with(name, value).check().is_err(), "{name}: {value:?}");
        }
        assert!(Planned { method: "GET /".to_owned(), ..get("/") }.check().is_err());
        assert!(Planned { weight: 0.0, ..get("/") }.check().is_err());
    }

    #[test]
    fn host_replaces_the_authority() {
        let headers = vec![("Host".to_owned(), "other".to_owned()), ("X-A".to_owned(), " b ".to_owned())];
        let target = Target::parse("https://host:1/a", None).unwrap();
        let request = Planned { headers, ..get("/a") }.complete(Protocol::H2, &target);
        assert_eq!((request.authority.as_str(), request.path.as_str()), ("other", "/a"));
        assert_eq!(request.headers[1], ("x-a".to_owned(), "b".to_owned()));
    }

    #[test]
    fn responses_are_held_against_what_was_expected() {
        let any = Expectation::default();
        assert_eq!((any.objection(302, 5), any.objection(404, 5)), (None, Some("status 404".to_owned())));
        let strict = Expectation { statuses: vec![200..=204, 404..=404], body_bytes: Some(5) };
        assert_eq!((strict.objection(404, 5), strict.objection(302, 5)), (None, Some("status 302".to_owned())));
        assert_eq!(strict.objection(200, 4).unwrap(), "a body of 4 bytes instead of 5");
    }
}
