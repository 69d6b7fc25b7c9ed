//! Header compression: HPACK (RFC 7541) and QPACK without a dynamic table (RFC 9204).
//!
//! A load client asks little of a response head: its status, and how long it is uncompressed. So strings stay as they
//! came, possibly Huffman-coded ([`Text`]), and are decoded only to be kept in HPACK's dynamic table or if the driver
//! wants to see them. And as servers repeat themselves, the last block's meaning is remembered ([`Memo`]).
//!
//! ```text
//!   block ──> Reader ──> Text, Text ──> Section { status, decoded_bytes }
//!                │           │
//!                └── hpack ── dynamic table
//! ```

mod dynamic;
pub(crate) mod hpack;
mod huffman;
pub(crate) mod qpack;
mod reader;
mod section;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod writer;

use reader::Reader;
pub(crate) use section::Section;
use section::{Known, Memo, Scratch};
use text::Text;

/// Why a field section cannot be decoded. The connection cannot go on after it.
pub(crate) type Reason = &'static str;
