use std::net::IpAddr;
use std::path::PathBuf;

use measure::{CongestionControl, Protocol};
use wire::h2;

use super::bad;
use crate::{LoadError, Target};

/// What happens below HTTP requests: flow control, congestion control, sockets.
#[derive(Clone, Debug)]
pub struct TransportPlan {
    /// Congestion control of QUIC. That of TCP belongs to the kernel.
    pub congestion_control: CongestionControl,
    /// Initial congestion window of QUIC in packets of 1448 bytes; 10 is the default of Linux for TCP (RFC 6928).
    pub initial_window_packets: u32,
    /// Receive window of each stream in bytes, 1 to 2^31-1, for HTTP/2 and QUIC alike.
    pub stream_window: u32,
    /// Receive window of each connection in bytes, 65,535 to 2^31-1, for HTTP/2 and QUIC alike.
    pub connection_window: u32,
    /// Largest HTTP/2 frame that the server may send, 16,384 to 16,777,215 bytes.
    pub max_frame_size: u32,
    /// Largest HPACK dynamic table that the server may use, in bytes.
    pub header_table_size: u32,
    /// Connections that each client opens per second at most; `None` for as fast as possible.
    pub connection_rate: Option<f64>,
    /// Addresses that connections come from, one after the other as far as they fit the address that is connected to
    /// (IPv4, IPv6); empty leaves it to the kernel.
    pub sources: Vec<IpAddr>,
    /// Directory for a qlog file per QUIC connection, `connection-1.sqlog` and so on in the order in which they are
    /// opened (JSON-SEQ, draft-ietf-quic-qlog-main-schema). It is made if it is not there; files in it are replaced.
    pub qlog: Option<PathBuf>,
}

impl Default for TransportPlan {
    fn default() -> Self {
        let h2::Options { stream_window, connection_window, max_frame_size, header_table_size, .. } =
            h2::Options::default();
        TransportPlan {
            congestion_control: CongestionControl::Cubic,
            initial_window_packets: 10,
            stream_window,
            connection_window,
            max_frame_size,
            header_table_size,
            connection_rate: None,
            sources: Vec::new(),
            qlog: None,
        }
    }
}

/// Windows and their end, RFC 9113 sections 6.5.2 and 6.9.1.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;
const SMALLEST_CONNECTION_WINDOW: u32 = 65_535;

impl TransportPlan {
    pub(super) fn check(&self, target: &Target, protocol: Protocol) -> Result<(), LoadError> {
        self.check_flow_control(protocol)?;
        if let Some(rate) = self.connection_rate
            && !(rate > 0.0 && rate.is_finite())
        {
            return bad(format!("--connection-rate {rate} opens nothing; give a number above 0"));
        }
        if self.qlog.is_some() && protocol != Protocol::H3 {
            return bad(format!("--qlog is a log of QUIC, which {protocol} does not use; leave it out, or use h3"));
        }
        match target.socket() {
            Some(path) if protocol == Protocol::H3 => bad(format!(
                "h3 needs UDP, and {} is a socket for byte streams; use h1 or h2, or leave --unix-socket out",
                path.display()
            )),
            Some(_) if !self.sources.is_empty() => {
                bad("--source is for connections over IP; leave out that or --unix-socket".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn check_flow_control(&self, protocol: Protocol) -> Result<(), LoadError> {
        let default = TransportPlan::default();
        let is_h2 = matches!(protocol, Protocol::H2c | Protocol::H2);
        let stream = self.stream_window != default.stream_window;
        let connection = self.connection_window != default.connection_window;
        if !protocol.multiplexes() && (stream || connection) {
            let flag = if stream { "--window-bits" } else { "--connection-window-bits" };
            return bad(format!("{flag} is about the windows of streams, and {protocol} has none; leave it out"));
        }
        let only_h2 = [
            ("--max-frame-size", self.max_frame_size != default.max_frame_size),
            ("--header-table-size", self.header_table_size != default.header_table_size),
        ];
        if let (false, Some((flag, _))) = (is_h2, only_h2.iter().find(|(_, changed)| *changed)) {
            return bad(format!("{flag} is a setting of HTTP/2, which {protocol} does not have; leave it out"));
        }
        if !(1..=LARGEST_WINDOW).contains(&self.stream_window) {
            return bad(format!("a stream's window of {} bytes cannot be; give 1 to 2147483647", self.stream_window));
        }
        if !(SMALLEST_CONNECTION_WINDOW..=LARGEST_WINDOW).contains(&self.connection_window) {
            return bad(format!(
                "a connection's window of {} bytes cannot be; it begins with 65535 and only grows: give 65535 to \
                 2147483647",
                self.connection_window
            ));
        }
        if !(1 << 14..1 << 24).contains(&self.max_frame_size) {
            return bad(format!("frames of at most {} bytes cannot be; give 16384 to 16777215", self.max_frame_size));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(protocol: Protocol, plan: &TransportPlan) -> String {
        let target = Target::parse(&format!("{}://host/", protocol.scheme()), None).unwrap();
        plan.check(&target, protocol).unwrap_err().to_string()
    }

    #[test]
    fn windows_and_sizes_stay_within_the_protocol() {
        let default = TransportPlan::default;
        let small = TransportPlan { connection_window: 65_534, ..default() };
        assert!(refused(Protocol::H2, &small).contains("65535 to 2147483647"));
        assert!(refused(Protocol::H3, &small).contains("65535 to 2147483647"));
        let none = TransportPlan { stream_window: 0, ..default() };
        assert!(refused(Protocol::H3, &none).contains("1 to 2147483647"));
        assert!(refused(Protocol::H1, &none).contains("h1 has none"));
        let frames = TransportPlan { max_frame_size: 16_383, ..default() };
        assert!(refused(Protocol::H2c, &frames).contains("16384 to 16777215"));
        assert!(refused(Protocol::H3, &frames).contains("a setting of HTTP/2"));
        let table = TransportPlan { header_table_size: 0, ..default() };
        assert!(refused(Protocol::H1c, &table).contains("a setting of HTTP/2"));
        let target = Target::parse("http://host/", None).unwrap();
        assert!(table.check(&target, Protocol::H2c).is_ok());
        let rate = TransportPlan { connection_rate: Some(0.0), ..default() };
        assert!(refused(Protocol::H1c, &rate).contains("a number above 0"));
    }

    #[test]
    fn what_belongs_to_one_transport_is_refused_for_another() {
        let qlog = TransportPlan { qlog: Some("logs".into()), ..TransportPlan::default() };
        assert!(refused(Protocol::H2, &qlog).contains("use h3"));
        let target = Target::parse("https://host/", None).unwrap().through_socket("/run/socket".into());
        let plain = TransportPlan::default();
        assert!(plain.check(&target, Protocol::H2).is_ok());
        assert!(plain.check(&target, Protocol::H3).unwrap_err().to_string().contains("h3 needs UDP"));
        let from = TransportPlan { sources: vec!["127.0.0.2".parse().unwrap()], ..plain };
        assert!(from.check(&target, Protocol::H2).unwrap_err().to_string().contains("leave out that or"));
    }
}
