//! What a peer can make a connection hold or do, common to all protocols.

/// Output below which bodies of requests are added to it, in bytes: enough for a large write, little for a connection.
pub(crate) const UPLOAD_ROOM: usize = 64 << 10;

/// Output above which no further request starts, in bytes. A peer that answers what it has not read could otherwise
/// make a closed loop of requests fill the memory.
pub(crate) const BACKLOG: usize = 1 << 20;

/// Most bytes that a peer may send without telling anything of a response: interim responses, pings, empty frames.
pub(crate) const IDLE: usize = 1 << 20;
