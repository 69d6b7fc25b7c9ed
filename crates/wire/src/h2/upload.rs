//! Bodies of requests under the peer's flow control (RFC 9113 section 5.2).

use std::collections::VecDeque;

use bytes::Bytes;

use super::frame;
use crate::limits::UPLOAD_ROOM;

/// What is still to be sent of the bodies, and how much the peer lets us send.
#[derive(Debug)]
pub(super) struct Uploads {
    /// Send window of the connection.
    window: i64,
    queue: VecDeque<Upload>,
}

#[derive(Debug)]
struct Upload {
    stream: u32,
    /// Send window of the stream; negative after the peer has reduced its initial window.
    window: i64,
    /// What is left of the body, never empty.
    body: Bytes,
}

/// A window has become larger than 2^31-1 bytes.
pub(super) struct Overflow;

impl Uploads {
    pub(super) fn new() -> Self {
        Self { window: i64::from(frame::DEFAULT_WINDOW), queue: VecDeque::new() }
    }

    /// Adds a body that is not empty.
    pub(super) fn push(&mut self, stream: u32, window: u32, body: Bytes) {
        self.queue.push_back(Upload { stream, window: window.into(), body });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Forgets a stream; whether something of it was left to send.
    pub(super) fn remove(&mut self, stream: u32) -> bool {
        let before = self.queue.len();
        self.queue.retain(|upload| upload.stream != stream);
        self.queue.len() < before
    }

    /// Forgets all streams above `last`.
    pub(super) fn remove_above(&mut self, last: u32) {
        self.queue.retain(|upload| upload.stream <= last);
    }

    /// Enlarges the window of the connection.
    pub(super) fn enlarge(&mut self, increment: u32) -> Result<(), Overflow> {
        enlarge(&mut self.window, increment.into())
    }

    /// Enlarges the window of a stream, if there is still something to send on it.
    pub(super) fn enlarge_stream(&mut self, stream: u32, increment: u32) -> Result<(), Overflow> {
        match self.queue.iter_mut().find(|upload| upload.stream == stream) {
            Some(upload) => enlarge(&mut upload.window, increment.into()),
            None => Ok(()),
        }
    }

    /// Applies a change of the peer's initial window (RFC 9113 section 6.9.2).
    pub(super) fn change_initial(&mut self, difference: i64) -> Result<(), Overflow> {
        self.queue.iter_mut().try_for_each(|upload| enlarge(&mut upload.window, difference))
    }

    /// Writes as much as the windows and the room in `out` allow, in frames of at most `max_frame` bytes.
    pub(super) fn send(&mut self, max_frame: u32, out: &mut Vec<u8>) {
        let connection = &mut self.window;
        let max_frame = max_frame.min(UPLOAD_ROOM as u32);
        self.queue.retain_mut(|upload| {
            while upload.window > 0 && *connection > 0 && out.len() < UPLOAD_ROOM {
                let allowed = upload.window.min(*connection).min(max_frame.into()) as usize;
                let piece = upload.body.split_to(upload.body.len().min(allowed));
                let ends = upload.body.is_empty();
                frame::head(piece.len(), frame::DATA, if ends { frame::END_STREAM } else { 0 }, upload.stream, out);
                out.extend_from_slice(&piece);
                upload.window -= piece.len() as i64;
                *connection -= piece.len() as i64;
                if ends {
                    return false;
                }
            }
            true
        });
    }
}

fn enlarge(window: &mut i64, increment: i64) -> Result<(), Overflow> {
    *window += increment;
    if *window > i64::from(frame::MAX_31_BITS) { Err(Overflow) } else { Ok(()) }
}
