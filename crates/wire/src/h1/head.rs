//! The head of a response: status line and fields (RFC 9112 sections 4 to 6).

use std::mem::MaybeUninit;

use crate::Error;
use crate::length::{content_length, list};

/// Longest head in bytes; also the longest line of a chunk's size or of trailers.
pub(crate) const LIMIT: usize = 64 << 10;

const MAX_FIELDS: usize = 128;

/// What a head says, as far as the connection cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    /// Whether the length is that of the only content-length field.
    pub(super) has_one_length: bool,
    /// Whether the connection ends with this response.
    pub(super) closes: bool,
}

/// How long the body is, unless the request was HEAD (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Where the head that begins `bytes` ends, if it does; the search begins at `from`.
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &bytes[from..]).find_map(|at| {
        let after = from + at + 1;
        match &bytes[after..] {
            [b'\n', ..] => Some(after + 1),
            [b'\r', b'\n', ..] => Some(after + 2),
            _ => None,
        }
    })
}

/// Parses a complete head. `visit` sees each field of a final response.
pub(crate) fn parse(bytes: &[u8], mut visit: impl FnMut(&[u8], &[u8])) -> Result<Head, Error> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    match parsed {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
        Err(httparse::Error::TooManyHeaders) => return error("more than 128 header fields"),
        _ => return error("the status line or a header field"),
    }
    let (Some(status), Some(version)) = (response.code, response.version) else {
        return error("the status line");
    };
    if !(100..=999).contains(&status) || status == 101 {
        return error("the status code");
    }
    let mut length = None;
    let mut lengths = 0;
    let mut codings = None;
    let (mut close, mut keep_alive) = (false, false);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            length = Some(content_length(field.value, length).or_else(error)?);
            lengths += 1;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            let chunked = codings.get_or_insert(false);
            for coding in list(field.value) {
                if *chunked {
                    return error("a transfer coding after chunked");
                }
                *chunked = coding.eq_ignore_ascii_case(b"chunked");
            }
        } else if field.name.eq_ignore_ascii_case("connection") {
            for option in list(field.value) {
                close |= option.eq_ignore_ascii_case(b"close");
                keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        if status >= 200 {
            visit(field.name.as_bytes(), field.value);
        }
    }
    let has_no_body = matches!(status, 100..=199 | 204 | 304);
    let framing = match (codings, length) {
        _ if has_no_body => Framing::Length(0),
        (Some(true), _) => Framing::Chunked,
        (None, Some(length)) => Framing::Length(length),
        (Some(false), _) | (None, None) => Framing::UntilClose,
    };
    // A length beside a transfer coding, or a transfer coding in HTTP/1.0, may be an attempt to smuggle a response past
    // someone between (RFC 9112 section 6.1): the connection is not used again.
    let dubious = codings.is_some() && (length.is_some() || version == 0);
    let closes = close || dubious || framing == Framing::UntilClose || (version == 0 && !keep_alive);
    Ok(Head { status, framing, has_one_length: lengths == 1 && codings.is_none() && !has_no_body, closes })
}

pub(super) fn error<T>(what: &'static str) -> Result<T, Error> {
    Err(Error::Http1(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, Error> {
        parse(text.replace('\n', "\r\n").as_bytes(), |_, _| {})
    }

    fn framing(fields: &str) -> Option<(Framing, bool)> {
        head(&format!("HTTP/1.1 200 OK\n{fields}\n")).ok().map(|head| (head.framing, head.closes))
    }

    #[test]
    fn a_head_ends_at_an_empty_line() {
        assert_eq!(end(b"a\r\nb\r\n\r\nc", 0), Some(8));
        assert_eq!(end(b"a\nb\n\nc", 0), Some(5));
        assert_eq!(end(b"a\r\nb\r\n\r", 0), None);
        assert_eq!(end(b"a\r\nb\r\n", 0), None);
    }

    #[test]
    fn framing_follows_the_rfc() {
        use Framing::*;
        for (fields, expected) in [
            ("Content-Length: 5\n", Some((Length(5), false))),
            ("content-length: 5\nConnection: keep-alive, Close\n", Some((Length(5), true))),
            ("content-length: 5, 5\ncontent-length: 5\n", Some((Length(5), false))),
            ("content-length: 5\ncontent-length: 6\n", None),
            ("content-length: 5, 6\n", None),
            ("content-length: +5\n", None),
            ("content-length:\n", None),
            ("content-length: 18446744073709551616\n", None),
            ("transfer-encoding: Chunked\n", Some((Chunked, false))),
            ("transfer-encoding: gzip, chunked\n", Some((Chunked, false))),
            ("transfer-encoding: gzip\ntransfer-encoding: chunked\n", Some((Chunked, false))),
            ("transfer-encoding: chunked\ncontent-length: 5\n", Some((Chunked, true))),
            ("transfer-encoding: gzip\n", Some((UntilClose, true))),
            ("transfer-encoding: chunked, chunked\n", None),
            ("transfer-encoding: chunked, gzip\n", None),
            ("", Some((UntilClose, true))),
        ] {
            assert_eq!(framing(fields), expected, "{fields}");
        }
    }

    #[test]
    fn some_status_codes_have_no_body() {
        for status in [100, 103, 204, 304] {
            let head = head(&format!("HTTP/1.1 {status} x\ntransfer-encoding: chunked\n\n")).unwrap();
            assert_eq!((head.framing, head.closes), (Framing::Length(0), false));
        }
    }

    #[test]
    fn http_1_0_closes_unless_it_says_otherwise() {
        assert!(head("HTTP/1.0 200 OK\ncontent-length: 1\n\n").unwrap().closes);
        assert!(!head("HTTP/1.0 200 OK\ncontent-length: 1\nconnection: keep-alive\n\n").unwrap().closes);
        assert!(head("HTTP/1.0 200 OK\ntransfer-encoding: chunked\nconnection: keep-alive\n\n").unwrap().closes);
    }

    #[test]
    fn what_is_no_response_is_refused() {
        for text in [
            "HTTP/2.0 200 OK\n\n",
            "HTTP/1.1 20 OK\n\n",
            "HTTP/1.1 099 OK\n\n",
            "HTTP/1.1 101 Switching Protocols\n\n",
            "SSH-2.0-OpenSSH_9.2\n\n",
            "HTTP/1.1 200 OK\nname : value\n\n",
            "HTTP/1.1 200 OK\nfolded: a\n b\n\n",
        ] {
            assert!(head(text).is_err(), "{text}");
        }
        let many = "a: b\n".repeat(MAX_FIELDS + 1);
        assert!(head(&format!("HTTP/1.1 200 OK\n{many}\n")).is_err());
    }
}
