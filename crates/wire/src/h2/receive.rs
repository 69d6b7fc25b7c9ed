//! What the peer's frames do (RFC 9113 section 6).

use super::frame::{self, Head};
use super::{Connection, Stream};
use crate::limits;
use crate::{Error, Event, FailureKind, Token};

/// Where in the byte stream the connection is.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// The beginning of a frame whose end has not come. Not for DATA, which is passed on as it comes.
    partial: Vec<u8>,
    /// The DATA frame whose payload is coming.
    data: Option<Data>,
    /// The header block whose CONTINUATION frames are coming.
    block: Option<Block>,
    /// Whether the peer's first SETTINGS frame has come.
    has_settings: bool,
}

#[derive(Debug)]
struct Data {
    stream: u32,
    /// Nobody, if the stream is closed.
    token: Option<Token>,
    left: usize,
    end_stream: bool,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    end_stream: bool,
    bytes: Vec<u8>,
    /// Bytes of its frames so far, so that many empty ones count as well.
    cost: usize,
}

/// Longest header block that is put together from frames, in bytes.
const BLOCK_LIMIT: usize = 256 << 10;

impl Input {
    /// The rest of a DATA frame of this stream is nobody's.
    pub(super) fn skip_stream(&mut self, stream: u32) {
        if let Some(data) = &mut self.data
            && data.stream == stream
        {
            data.token = None;
        }
    }
}

fn error<T>(code: u32, reason: &'static str) -> Result<T, Error> {
    Err(Error::Http2 { code, reason })
}

impl Connection {
    /// Cuts the byte stream into frames and applies them.
    pub(super) fn receive_frames(&mut self, mut rest: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        loop {
            if let Some(data) = self.input.data.take() {
                rest = self.pass_on(data, rest, sink);
            }
            if !self.debt.add(self.output.len()) {
                return error(frame::ENHANCE_YOUR_CALM, "the peer asks for more answers than it reads");
            }
            if rest.is_empty() {
                return Ok(());
            }
            // A frame is used where it lies; only one that is cut by the end of `rest` is collected.
            if self.input.partial.is_empty() {
                let Some(head) = rest.first_chunk().map(Head::parse) else {
                    self.input.partial.extend_from_slice(rest);
                    return Ok(());
                };
                self.admit(head)?;
                if passes_on(head) {
                    rest = &rest[frame::HEAD_LEN..];
                    self.begin_data(head, head.len, sink)?;
                    continue;
                }
                let Some((frame, after)) = rest.split_at_checked(frame::HEAD_LEN + head.len) else {
                    self.input.partial.extend_from_slice(rest);
                    return Ok(());
                };
                rest = after;
                self.apply(head, &frame[frame::HEAD_LEN..], sink)?;
            } else {
                rest = collect(&mut self.input.partial, frame::HEAD_LEN, rest);
                let Some(head) = self.input.partial.first_chunk().map(Head::parse) else {
                    return Ok(());
                };
                self.admit(head)?;
                if passes_on(head) {
                    self.input.partial.clear();
                    self.begin_data(head, head.len, sink)?;
                    continue;
                }
                rest = collect(&mut self.input.partial, frame::HEAD_LEN + head.len, rest);
                if self.input.partial.len() < frame::HEAD_LEN + head.len {
                    return Ok(());
                }
                let mut frame = std::mem::take(&mut self.input.partial);
                self.apply(head, &frame[frame::HEAD_LEN..], sink)?;
                frame.clear();
                self.input.partial = frame;
            }
        }
    }

    /// Checks whether this frame may come now.
    fn admit(&self, head: Head) -> Result<(), Error> {
        if !self.input.has_settings && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            return error(frame::PROTOCOL_ERROR, "the first frame is not SETTINGS; is it an HTTP/2 server?");
        }
        if head.len > self.options.max_frame_size as usize {
            return error(frame::FRAME_SIZE_ERROR, "a frame is longer than SETTINGS_MAX_FRAME_SIZE");
        }
        let expected = self.input.block.as_ref().map(|block| block.stream);
        let continued = (head.kind == frame::CONTINUATION).then_some(head.stream);
        if expected != continued {
            return error(frame::PROTOCOL_ERROR, "CONTINUATION frames do not follow their HEADERS frame");
        }
        Ok(())
    }

    fn apply(&mut self, head: Head, payload: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        if head.kind != frame::DATA {
            self.count_idle(head)?;
        }
        match head.kind {
            frame::DATA => {
                let content = unpad(head, payload)?;
                self.begin_data(head, content.len(), sink)?;
                if let Some(data) = self.input.data.take() {
                    self.pass_on(data, content, sink);
                }
                Ok(())
            }
            frame::HEADERS => self.headers(head, payload, sink),
            frame::CONTINUATION => self.continuation(head, payload, sink),
            frame::RST_STREAM => {
                let code = u32::from_be_bytes(fixed(payload)?);
                self.check_stream(head)?;
                self.uploads.remove(head.stream);
                if let Some(stream) = self.streams.remove(head.stream.into()) {
                    self.idle = 0;
                    let kind = match code {
                        frame::REFUSED_STREAM => FailureKind::Refused,
                        code => FailureKind::Reset(code.into()),
                    };
                    sink(Event::Failed { token: stream.token, kind });
                }
                Ok(())
            }
            frame::SETTINGS => self.settings(head, payload),
            frame::PUSH_PROMISE => error(frame::PROTOCOL_ERROR, "PUSH_PROMISE although SETTINGS_ENABLE_PUSH is 0"),
            frame::PING => {
                let opaque: [u8; 8] = fixed(payload)?;
                check_connection(head)?;
                if !head.has(frame::ACK) {
                    frame::head(8, frame::PING, frame::ACK, 0, &mut self.output);
                    self.output.extend_from_slice(&opaque);
                }
                Ok(())
            }
            frame::GOAWAY => self.goaway(head, payload, sink),
            frame::WINDOW_UPDATE => self.window_update(head, payload, sink),
            _ => Ok(()),
        }
    }

    /// Adds a frame to those since the last one that told something of a response.
    fn count_idle(&mut self, head: Head) -> Result<(), Error> {
        self.idle += frame::HEAD_LEN + head.len;
        if self.idle > limits::IDLE {
            return error(frame::ENHANCE_YOUR_CALM, "1 MB of frames tells nothing of any response");
        }
        Ok(())
    }

    /// Accounts for a DATA frame, whose content of `content` bytes is to come next.
    fn begin_data(&mut self, head: Head, content: usize, sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.check_stream(head)?;
        // Padding counts as well, and so does what comes for a closed stream.
        let len = head.len as u32;
        let end_stream = head.has(frame::END_STREAM);
        if content > 0 {
            self.idle = 0;
        } else {
            self.count_idle(head)?;
        }
        self.received += len;
        if self.received > self.options.connection_window {
            return error(frame::FLOW_CONTROL_ERROR, "DATA exceeds the connection's window");
        }
        if self.received > self.options.connection_window / 2 {
            frame::number(frame::WINDOW_UPDATE, 0, self.received, &mut self.output);
            self.received = 0;
        }
        let mut token = None;
        if let Some(stream) = self.streams.get_mut(head.stream.into()) {
            stream.received += len;
            if stream.received > self.options.stream_window {
                return error(frame::FLOW_CONTROL_ERROR, "DATA exceeds the stream's window");
            }
            if stream.has_head && stream.left.take(content as u64) {
                token = Some(stream.token);
                if !end_stream && stream.received > self.options.stream_window / 2 {
                    frame::number(frame::WINDOW_UPDATE, head.stream, stream.received, &mut self.output);
                    stream.received = 0;
                }
            } else {
                self.malformed(head.stream, frame::PROTOCOL_ERROR, sink);
            }
        }
        self.input.data = Some(Data { stream: head.stream, token, left: content, end_stream });
        Ok(())
    }

    /// Reports what has come of a DATA frame and returns the bytes after it.
    fn pass_on<'a>(&mut self, mut data: Data, bytes: &'a [u8], sink: &mut impl FnMut(Event<'_>)) -> &'a [u8] {
        let (content, rest) = bytes.split_at(data.left.min(bytes.len()));
        data.left -= content.len();
        if let Some(token) = data.token
            && !content.is_empty()
        {
            sink(Event::Data { token, bytes: content });
        }
        if data.left > 0 {
            self.input.data = Some(data);
        } else if data.end_stream {
            self.complete(data.stream, sink);
        }
        rest
    }

    fn headers(&mut self, head: Head, payload: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        self.check_stream(head)?;
        let mut block = unpad(head, payload)?;
        if head.has(frame::WITH_PRIORITY) {
            let Some(after) = block.get(5..) else {
                return error(frame::FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority");
            };
            block = after;
        }
        let end_stream = head.has(frame::END_STREAM);
        if head.has(frame::END_HEADERS) {
            if block.len() > BLOCK_LIMIT {
                return too_long();
            }
            return self.field_section(head.stream, end_stream, block, sink);
        }
        let cost = frame::HEAD_LEN + block.len();
        self.input.block = Some(Block { stream: head.stream, end_stream, bytes: block.to_vec(), cost });
        Ok(())
    }

    fn continuation(&mut self, head: Head, payload: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        let Some(mut block) = self.input.block.take() else {
            return Ok(());
        };
        block.bytes.extend_from_slice(payload);
        block.cost += frame::HEAD_LEN + payload.len();
        if block.cost > BLOCK_LIMIT {
            return too_long();
        }
        if head.has(frame::END_HEADERS) {
            return self.field_section(block.stream, block.end_stream, &block.bytes, sink);
        }
        self.input.block = Some(block);
        Ok(())
    }

    /// A complete header block. It is decoded even for a closed stream: the dynamic table belongs to all.
    fn field_section(
        &mut self,
        id: u32,
        end_stream: bool,
        block: &[u8],
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<(), Error> {
        let stream = self.streams.get_mut(id.into());
        let token = stream.as_ref().map(|stream| stream.token);
        let section = self
            .decoder
            .decode(block, |section, name, value| {
                if let Some(token) = token
                    && !section.is_interim()
                {
                    sink(Event::Field { token, name, value });
                }
            })
            .or_else(|reason| error(frame::COMPRESSION_ERROR, reason))?;
        let Some(stream) = stream else {
            return Ok(());
        };
        let fits = match section.status {
            // Trailers end the stream, and an interim response does not.
            None => stream.has_head && end_stream,
            Some(101) => false,
            Some(_) if section.is_interim() => !stream.has_head && !end_stream,
            Some(_) => !stream.has_head,
        };
        if section.malformed || !fits {
            self.malformed(id, frame::PROTOCOL_ERROR, sink);
            return Ok(());
        }
        if let Some(status) = section.status
            && status >= 200
        {
            let Stream { token, .. } = *stream;
            stream.has_head = true;
            stream.left = section.content(stream.is_head);
            self.idle = 0;
            let header_bytes = block.len() as u32;
            sink(Event::Head { token, status, header_bytes, decoded_bytes: section.decoded_bytes });
        }
        if end_stream {
            self.complete(id, sink);
        }
        Ok(())
    }

    /// The peer has ended a stream.
    fn complete(&mut self, id: u32, sink: &mut impl FnMut(Event<'_>)) {
        if let Some(stream) = self.streams.remove(id.into()) {
            if !stream.left.may_end() {
                return self.fail(id, stream.token, frame::PROTOCOL_ERROR, sink);
            }
            // It does not want the rest of the request; RFC 9113 section 8.1.
            if !self.uploads.is_empty() && self.uploads.remove(id) {
                frame::number(frame::RST_STREAM, id, frame::NO_ERROR, &mut self.output);
            }
            sink(Event::Done { token: stream.token });
        }
    }

    /// A stream error (RFC 9113 section 5.4.2).
    fn malformed(&mut self, id: u32, code: u32, sink: &mut impl FnMut(Event<'_>)) {
        if let Some(stream) = self.streams.remove(id.into()) {
            self.fail(id, stream.token, code, sink);
        }
    }

    fn fail(&mut self, id: u32, token: Token, code: u32, sink: &mut impl FnMut(Event<'_>)) {
        self.reset(id, code);
        sink(Event::Failed { token, kind: FailureKind::Malformed });
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Error> {
        check_connection(head)?;
        if head.has(frame::ACK) {
            return fixed::<0>(payload).map(|_| ());
        }
        let (settings, []) = payload.as_chunks::<6>() else {
            return error(frame::FRAME_SIZE_ERROR, "the length of a SETTINGS frame is no multiple of 6");
        };
        if !self.input.has_settings {
            self.input.has_settings = true;
            self.peer.max_streams = usize::MAX;
        }
        for &[a, b, value @ ..] in settings {
            self.setting(u16::from_be_bytes([a, b]), u32::from_be_bytes(value))?;
        }
        frame::head(0, frame::SETTINGS, frame::ACK, 0, &mut self.output);
        Ok(())
    }

    fn setting(&mut self, name: u16, value: u32) -> Result<(), Error> {
        match name {
            frame::HEADER_TABLE_SIZE => self.encoder.limit(value),
            frame::ENABLE_PUSH if value != 0 => {
                return error(frame::PROTOCOL_ERROR, "a server sets SETTINGS_ENABLE_PUSH");
            }
            frame::MAX_CONCURRENT_STREAMS => self.peer.max_streams = value as usize,
            frame::INITIAL_WINDOW_SIZE => {
                let difference = i64::from(value) - i64::from(self.peer.initial_window);
                if value > frame::MAX_31_BITS || self.uploads.change_initial(difference).is_err() {
                    return error(frame::FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE makes a window too large");
                }
                self.peer.initial_window = value;
            }
            frame::MAX_FRAME_SIZE if frame::FRAME_SIZES.contains(&value) => self.peer.max_frame_size = value,
            frame::MAX_FRAME_SIZE => {
                return error(frame::PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE is out of range");
            }
            _ => {}
        }
        Ok(())
    }

    fn goaway(&mut self, head: Head, payload: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        check_connection(head)?;
        let Some(&[a, b, c, d, code @ ..]) = payload.first_chunk::<8>() else {
            return error(frame::FRAME_SIZE_ERROR, "a GOAWAY frame is shorter than 8 bytes");
        };
        let last = u32::from_be_bytes([a, b, c, d]) & frame::MAX_31_BITS;
        match self.last_stream {
            None => sink(Event::Draining),
            Some(previous) if last > previous => {
                return error(
                    frame::PROTOCOL_ERROR,
                    "a GOAWAY frame has a larger stream identifier than the one before",
                );
            }
            Some(_) => {}
        }
        self.last_stream = Some(last);
        self.fail_above(last, FailureKind::Refused, sink);
        match u32::from_be_bytes(code) {
            frame::NO_ERROR => Ok(()),
            code => Err(Error::ClosedByPeer(code.into())),
        }
    }

    fn window_update(&mut self, head: Head, payload: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), Error> {
        let increment = u32::from_be_bytes(fixed(payload)?) & frame::MAX_31_BITS;
        if head.stream == 0 {
            if increment == 0 {
                return error(frame::PROTOCOL_ERROR, "WINDOW_UPDATE by 0");
            }
            if self.uploads.enlarge(increment).is_err() {
                return error(frame::FLOW_CONTROL_ERROR, "WINDOW_UPDATE makes the connection's window too large");
            }
        } else {
            self.check_stream(head)?;
            let code = if increment == 0 { frame::PROTOCOL_ERROR } else { frame::FLOW_CONTROL_ERROR };
            if increment == 0 || self.uploads.enlarge_stream(head.stream, increment).is_err() {
                self.malformed(head.stream, code, sink);
            }
        }
        Ok(())
    }

    /// A frame of a stream belongs to one that we opened, however long ago.
    fn check_stream(&self, head: Head) -> Result<(), Error> {
        if head.stream % 2 == 1 && head.stream < self.next_stream {
            Ok(())
        } else {
            error(frame::PROTOCOL_ERROR, "a frame belongs to a stream that was never opened")
        }
    }
}

fn too_long() -> Result<(), Error> {
    error(frame::ENHANCE_YOUR_CALM, "a header block is longer than 256 kB")
}

/// Whether a frame's payload is passed on as it comes. Padded DATA is rare: it is collected like other frames.
fn passes_on(head: Head) -> bool {
    head.kind == frame::DATA && !head.has(frame::PADDED)
}

/// Moves bytes from `rest` until `partial` has `len` and returns what is left.
fn collect<'a>(partial: &mut Vec<u8>, len: usize, rest: &'a [u8]) -> &'a [u8] {
    let missing = len.saturating_sub(partial.len()).min(rest.len());
    let (taken, rest) = rest.split_at(missing);
    partial.extend_from_slice(taken);
    rest
}

/// The content of a frame that may be padded.
fn unpad(head: Head, payload: &[u8]) -> Result<&[u8], Error> {
    if !head.has(frame::PADDED) {
        return Ok(payload);
    }
    let Some((&padding, content)) = payload.split_first() else {
        return error(frame::FRAME_SIZE_ERROR, "a padded frame is empty");
    };
    match content.len().checked_sub(padding.into()) {
        Some(len) => Ok(&content[..len]),
        None => error(frame::PROTOCOL_ERROR, "a frame's padding is longer than the frame"),
    }
}

/// A payload that always has the same length.
fn fixed<const N: usize>(payload: &[u8]) -> Result<[u8; N], Error> {
    payload.try_into().or_else(|_| error(frame::FRAME_SIZE_ERROR, "a frame's length is wrong for its type"))
}

fn check_connection(head: Head) -> Result<(), Error> {
    if head.stream == 0 { Ok(()) } else { error(frame::PROTOCOL_ERROR, "a frame of the connection names a stream") }
}
