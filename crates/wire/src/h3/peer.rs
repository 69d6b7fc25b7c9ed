//! The unidirectional streams that the peer opens (RFC 9114 section 6.2, RFC 9204 section 4.2).

use super::frame::{self, Frames, Piece, error, varint};
use crate::Error;

pub(super) const CONTROL: u64 = 0;
const PUSH: u64 = 1;
const QPACK_ENCODER: u64 = 2;
const QPACK_DECODER: u64 = 3;

/// Settings of HTTP/2 that HTTP/3 must not have (RFC 9114 section 7.2.4.1).
const RESERVED_SETTINGS: [u64; 5] = [0x0, 0x2, 0x3, 0x4, 0x5];

/// "Set Dynamic Table Capacity" to 0, the only instruction for a table that has no capacity (RFC 9204 section 4.3.1).
const NO_CAPACITY: u8 = 0x20;

/// The peer's streams.
#[derive(Debug, Default)]
pub(super) struct PeerStreams {
    streams: Vec<(u64, Kind)>,
    control: Control,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// What has come of the type.
    Unknown(Vec<u8>),
    Known(u64),
}

#[derive(Debug, Default)]
struct Control {
    frames: Frames,
    has_settings: bool,
    /// The identifier of the last GOAWAY frame.
    goaway: Option<u64>,
}

impl PeerStreams {
    /// Takes the next bytes of a stream, and reports the stream identifier of each GOAWAY frame.
    pub(super) fn receive(
        &mut self,
        id: u64,
        bytes: &[u8],
        fin: bool,
        goaway: &mut impl FnMut(u64),
    ) -> Result<(), Error> {
        let index = self.streams.iter().position(|(other, _)| *other == id).unwrap_or_else(|| {
            self.streams.push((id, Kind::Unknown(Vec::new())));
            self.streams.len() - 1
        });
        match &mut self.streams[index].1 {
            Kind::Unknown(partial) => {
                partial.extend_from_slice(bytes);
                let bytes = std::mem::take(partial);
                let mut rest = bytes.as_slice();
                if let Some(kind) = varint(&mut rest) {
                    self.open(kind)?;
                    self.streams[index].1 = Kind::Known(kind);
                    self.take(kind, rest, goaway)?;
                } else {
                    *partial = bytes;
                }
            }
            Kind::Known(kind) => {
                let kind = *kind;
                self.take(kind, bytes, goaway)?;
            }
        }
        if fin { self.end(id) } else { Ok(()) }
    }

    /// A stream has ended or was reset.
    pub(super) fn end(&mut self, id: u64) -> Result<(), Error> {
        if let Some(index) = self.streams.iter().position(|(other, _)| *other == id)
            && let (_, Kind::Known(CONTROL | QPACK_ENCODER | QPACK_DECODER)) = self.streams.swap_remove(index)
        {
            return error(frame::CLOSED_CRITICAL_STREAM, "the peer ends its control stream or a QPACK stream");
        }
        Ok(())
    }

    /// Checks whether there may be a (further) stream of this type.
    fn open(&self, kind: u64) -> Result<(), Error> {
        let is_critical = matches!(kind, CONTROL | QPACK_ENCODER | QPACK_DECODER);
        if is_critical && self.streams.iter().any(|(_, other)| *other == Kind::Known(kind)) {
            return error(frame::STREAM_CREATION_ERROR, "a second control stream or QPACK stream of one kind");
        }
        if kind == PUSH {
            return error(frame::ID_ERROR, "a push stream although no push was allowed");
        }
        Ok(())
    }

    /// Applies bytes of a stream whose type is known. Those of unknown types are ignored, and so is what the peer's
    /// QPACK decoder says: nothing that we send needs its acknowledgement.
    fn take(&mut self, kind: u64, bytes: &[u8], goaway: &mut impl FnMut(u64)) -> Result<(), Error> {
        match kind {
            CONTROL => self.control.receive(bytes, goaway),
            QPACK_ENCODER if bytes.iter().any(|&byte| byte != NO_CAPACITY) => {
                error(frame::QPACK_ENCODER_STREAM_ERROR, "the peer uses the dynamic table, whose capacity is 0")
            }
            _ => Ok(()),
        }
    }
}

impl Control {
    fn receive(&mut self, mut bytes: &[u8], goaway: &mut impl FnMut(u64)) -> Result<(), Error> {
        while let Some(piece) = self.frames.next(&mut bytes)? {
            match piece {
                Piece::Begin(kind, _) => {
                    if !self.has_settings && kind != frame::SETTINGS {
                        return error(frame::MISSING_SETTINGS, "the control stream does not begin with SETTINGS");
                    }
                    admit(kind, self.has_settings)?;
                    self.has_settings = true;
                }
                Piece::Whole(frame::SETTINGS, payload) => check_settings(payload)?,
                Piece::Whole(_, mut payload) => {
                    let (Some(id), []) = (varint(&mut payload), payload) else {
                        return error(frame::FRAME_ERROR, "a GOAWAY frame does not hold one integer");
                    };
                    if !id.is_multiple_of(4) || self.goaway.is_some_and(|previous| id > previous) {
                        return error(frame::ID_ERROR, "a GOAWAY frame has a wrong or increasing stream identifier");
                    }
                    self.goaway = Some(id);
                    goaway(id);
                }
                Piece::Data(_) => {}
            }
        }
        Ok(())
    }
}

/// Checks whether a frame of this type may come on the control stream.
fn admit(kind: u64, has_settings: bool) -> Result<(), Error> {
    match kind {
        frame::SETTINGS if has_settings => error(frame::FRAME_UNEXPECTED, "a second SETTINGS frame"),
        frame::DATA | frame::HEADERS | frame::PUSH_PROMISE | frame::MAX_PUSH_ID => {
            error(frame::FRAME_UNEXPECTED, "a frame that does not belong on a server's control stream")
        }
        frame::CANCEL_PUSH => error(frame::ID_ERROR, "CANCEL_PUSH although no push was allowed"),
        _ if frame::RESERVED.contains(&kind) => error(frame::FRAME_UNEXPECTED, "a frame of HTTP/2"),
        _ => Ok(()),
    }
}

/// Checks the form of SETTINGS. None of them concerns a client that sends no large header and uses no dynamic table.
fn check_settings(mut payload: &[u8]) -> Result<(), Error> {
    let mut names = Vec::new();
    while !payload.is_empty() {
        let (Some(name), Some(_)) = (varint(&mut payload), varint(&mut payload)) else {
            return error(frame::FRAME_ERROR, "a SETTINGS frame ends in the middle of a setting");
        };
        names.push(name);
    }
    names.sort_unstable();
    if names.iter().any(|name| RESERVED_SETTINGS.contains(name)) || names.windows(2).any(|two| two[0] == two[1]) {
        return error(frame::SETTINGS_ERROR, "a setting of HTTP/2, or one that comes twice");
    }
    Ok(())
}
