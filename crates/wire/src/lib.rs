//! The client side of HTTP/1.1, HTTP/2 and HTTP/3 as pure state machines (sans-IO).
//!
//! A connection takes the bytes that a transport received and tells its driver what they mean; it takes requests and
//! gives the bytes to send. It knows no socket, no TLS, no clock and no QUIC: those belong to the driver.
//!
//! ```text
//!   Request ──from()──> Prepared ──start()──>  ┌────────────┐ ──output()──> bytes to the transport
//!                                              │ Connection │
//!             bytes from the transport ──receive()──>       │ ──Event──> the driver's closure
//!                                              └────────────┘
//! ```
//!
//! A request is encoded once, `h2::Prepared::from(&request)`, and then started any number of times on any connection of
//! that protocol: `connection.start(token, &prepared)`. HTTP/1.1 and HTTP/2 run over one byte stream and implement
//! [`Connection`], whose `Prepared` is an associated type; HTTP/3 runs over QUIC's many streams and has the same verbs
//! with a stream identifier ([`h3::Connection`]).
//!
//! Beside the connections, [`trace`] tells people what the bytes of one say.

mod fields;
pub mod h1;
pub mod h2;
pub mod h3;
mod length;
mod limits;
mod message;
mod streams;
pub mod trace;

pub use message::{Connection, Error, Event, FailureKind, Request, Token};
