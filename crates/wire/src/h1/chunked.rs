//! The chunked transfer coding (RFC 9112 section 7.1).

use super::head::{LIMIT, error};
use crate::Error;

/// Where in a chunked body the connection is.
#[derive(Debug)]
pub(super) struct Chunked {
    place: Place,
    /// Size of the chunk, then what is left of it.
    left: u64,
    /// Length of the size line or of the trailers so far.
    overhead: usize,
}

#[derive(Debug)]
enum Place {
    /// In the hexadecimal size, after this many digits.
    Size(u32),
    /// In what follows the size on its line, which is ignored.
    Extension,
    /// Before the line feed of a size line.
    SizeEnd,
    Data,
    /// Before the carriage return after the data.
    DataReturn,
    /// Before the line feed after the data.
    DataEnd,
    /// Before a line of trailers or the empty line.
    Trailers,
    /// In a line of trailers, which are ignored.
    Trailer,
    /// Before the line feed of a line of trailers.
    TrailerEnd,
    /// Before the line feed that ends the body.
    End,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { place: Place::Size(0), left: 0, overhead: 0 }
    }

    /// Reports the data in `bytes`; once the body is complete, returns the bytes after it.
    pub(super) fn receive<'a>(
        &mut self,
        mut bytes: &'a [u8],
        mut emit: impl FnMut(&'a [u8]),
    ) -> Result<Option<&'a [u8]>, Error> {
        loop {
            if let Place::Data = self.place {
                let (data, rest) = bytes.split_at(usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len()));
                if !data.is_empty() {
                    emit(data);
                }
                self.left -= data.len() as u64;
                bytes = rest;
                if self.left > 0 {
                    return Ok(None);
                }
                self.place = Place::DataReturn;
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return Ok(None);
            };
            bytes = rest;
            self.overhead += 1;
            if self.overhead > LIMIT {
                return error("a chunk's size line or the trailers are longer than 64 kB");
            }
            self.place = match (&self.place, byte) {
                (Place::Size(16), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => return error("a chunk larger than 2^64"),
                (Place::Size(digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                    self.left = self.left << 4 | u64::from((byte as char).to_digit(16).unwrap_or(0));
                    Place::Size(digits + 1)
                }
                (Place::Size(1..), b';' | b' ' | b'\t') => Place::Extension,
                (Place::Size(1..) | Place::Extension, b'\r') => Place::SizeEnd,
                (Place::Extension, b'\n') => return error("a line feed in a chunk extension"),
                (Place::Extension, _) => Place::Extension,
                (Place::SizeEnd, b'\n') if self.left == 0 => Place::Trailers,
                (Place::SizeEnd, b'\n') => Place::Data,
                (Place::DataReturn, b'\r') => Place::DataEnd,
                (Place::DataEnd, b'\n') => {
                    self.overhead = 0;
                    Place::Size(0)
                }
                (Place::Trailers, b'\r') => Place::End,
                (Place::Trailers | Place::Trailer, b'\n') => return error("a line feed in trailers"),
                (Place::Trailer, b'\r') => Place::TrailerEnd,
                (Place::Trailers | Place::Trailer, _) => Place::Trailer,
                (Place::TrailerEnd, b'\n') => Place::Trailers,
                (Place::End, b'\n') => return Ok(Some(bytes)),
                _ => return error("the chunked coding"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body and what comes after it, fed in pieces.
    fn decode(coded: &str, piece: usize) -> Result<(String, String), Error> {
        let (mut body, mut rest) = (Vec::new(), Vec::new());
        let mut chunked = Some(Chunked::new());
        for bytes in coded.as_bytes().chunks(piece) {
            match &mut chunked {
                Some(decoder) => {
                    if let Some(after) = decoder.receive(bytes, |data| body.extend_from_slice(data))? {
                        rest.extend_from_slice(after);
                        chunked = None;
                    }
                }
                None => rest.extend_from_slice(bytes),
            }
        }
        assert!(chunked.is_none(), "incomplete: {coded}");
        Ok((String::from_utf8(body).unwrap(), String::from_utf8(rest).unwrap()))
    }

    #[test]
    fn data_is_found_in_any_pieces() {
        for (coded, body) in [
            ("0\r\n\r\nnext", ""),
            ("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nnext", "hello world"),
            ("00A;name=\"a;b\"\r\n0123456789\r\n000\r\n\r\nnext", "0123456789"),
            ("1 ; x\r\na\r\n1\t\r\nb\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\nnext", "ab"),
            ("2\r\n\r\n\r\n0\r\n\r\nnext", "\r\n"),
        ] {
            for piece in [1, 2, 3, 5, 100] {
                assert_eq!(decode(coded, piece).unwrap(), (body.to_string(), "next".to_string()), "{coded} by {piece}");
            }
        }
    }

    #[test]
    fn ambiguous_coding_is_an_error() {
        for coded in [
            "\r\n",
            ";x\r\n",
            "x\r\n",
            "-1\r\n",
            "5\n",
            "5\rx",
            "5;a\nb\r\n",
            "1\r\nab",
            "1\r\na\n",
            "0\r\n\n",
            "0\r\na: b\n",
            "10000000000000000\r\n",
        ] {
            assert!(Chunked::new().receive(coded.as_bytes(), |_| {}).is_err(), "{coded}");
        }
        let long = format!("1;{}", "x".repeat(LIMIT));
        assert!(Chunked::new().receive(long.as_bytes(), |_| {}).is_err());
    }
}
