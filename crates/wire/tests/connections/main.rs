//! The three protocols through the public interface: rule by rule with bytes made by hand, and against a server of
//! another implementation.

mod abuse;
mod h1;
mod h2;
mod h2_server;
mod h2_uploads;
mod h3;
mod mutations;
mod properties;
mod replay;
mod support;
