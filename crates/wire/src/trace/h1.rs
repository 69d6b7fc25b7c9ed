//! HTTP/1.1: heads, chunks and trailers.

use super::{Field, Item, text};
use crate::h1::head::{self, Framing};

/// Follows one message: a request, or the response to one with the interim responses before it.
#[derive(Debug)]
pub struct Trace {
    role: Role,
    place: Place,
    /// The lines so far of a head or of trailers, or the beginning of a chunk's line.
    lines: Vec<u8>,
    /// Where in `lines` the last line begins.
    line: usize,
}

#[derive(Clone, Copy, Debug)]
enum Role {
    Request,
    Response { to_head: bool },
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Head,
    /// In the line that begins a chunk.
    ChunkLine,
    /// In the data of a chunk, of which so many bytes are to come.
    ChunkData(u64),
    /// In the line end after a chunk's data.
    ChunkEnd,
    Trailers,
    /// In a body without chunks, or after the message.
    Rest,
}

impl Trace {
    /// Follows a request.
    pub fn request() -> Self {
        Self { role: Role::Request, place: Place::Head, lines: Vec::new(), line: 0 }
    }

    /// Follows the response to a request with this method.
    pub fn response(method: &str) -> Self {
        Self { role: Role::Response { to_head: method == "HEAD" }, ..Self::request() }
    }

    /// Takes the next bytes of the message and reports what they mean. Bytes after the message are ignored.
    pub fn feed(&mut self, mut bytes: &[u8], report: &mut impl FnMut(Item)) {
        while !bytes.is_empty() {
            match self.place {
                Place::Rest => return,
                Place::ChunkData(left) => {
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[len..];
                    let left = left - len as u64;
                    self.place = if left > 0 { Place::ChunkData(left) } else { Place::ChunkEnd };
                }
                Place::Head | Place::ChunkLine | Place::ChunkEnd | Place::Trailers => {
                    let end = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
                    let (part, rest) = bytes.split_at(end);
                    self.lines.extend_from_slice(part);
                    bytes = rest;
                    if part.ends_with(b"\n") {
                        self.end_of_line(report);
                    } else if self.lines.len() > head::LIMIT {
                        self.give_up("a line longer than 64 kB", report);
                    }
                }
            }
        }
    }

    fn end_of_line(&mut self, report: &mut impl FnMut(Item)) {
        let line = self.lines[self.line..].trim_ascii_end();
        let is_empty = line.is_empty();
        match self.place {
            Place::ChunkLine => {
                let (size, extensions) = line.split_at(line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count());
                let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
                let extensions = text(extensions.trim_ascii().strip_prefix(b";").unwrap_or_default().trim_ascii());
                let Some(size) = size else {
                    return self.give_up("a chunk without a size", report);
                };
                report(Item::Chunk { size, extensions });
                self.go(if size > 0 { Place::ChunkData(size) } else { Place::Trailers });
            }
            Place::ChunkEnd if is_empty => self.go(Place::ChunkLine),
            Place::ChunkEnd => self.give_up("a chunk longer than its size", report),
            Place::Trailers if is_empty => {
                if self.line > 0 {
                    report(Item::Trailers { fields: fields(&self.lines), bytes: self.lines.len() as u64 });
                }
                self.go(Place::Rest);
            }
            Place::Head if is_empty && self.line > 0 => self.end_of_head(report),
            _ if self.lines.len() > head::LIMIT => self.give_up("a head longer than 64 kB", report),
            _ => self.line = self.lines.len(),
        }
    }

    fn end_of_head(&mut self, report: &mut impl FnMut(Item)) {
        let len = self.lines.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (start_line, rest) = self.lines.split_at(len);
        let start_line = text(start_line.trim_ascii_end());
        report(Item::Head { start_line, fields: fields(rest), bytes: self.lines.len() as u64 });
        let Role::Response { to_head } = self.role else { return self.go(Place::Rest) };
        match head::parse(&self.lines, |_, _| {}) {
            Ok(head) if head.status < 200 => self.go(Place::Head),
            Ok(head) if head.framing == Framing::Chunked && !to_head => self.go(Place::ChunkLine),
            Ok(_) => self.go(Place::Rest),
            Err(error) => self.give_up(&error.to_string(), report),
        }
    }

    fn go(&mut self, place: Place) {
        self.place = place;
        self.lines.clear();
        self.line = 0;
    }

    fn give_up(&mut self, reason: &str, report: &mut impl FnMut(Item)) {
        report(Item::Unreadable { reason: reason.to_owned() });
        self.go(Place::Rest);
    }
}

/// The fields of lines, each ended by a line feed; an empty line is none.
fn fields(lines: &[u8]) -> Vec<Field> {
    let lines = lines.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
            Field::new(&line[..colon], line.get(colon + 1..).unwrap_or_default().trim_ascii())
        })
        .collect()
}
