use std::fs;
use std::time::{Duration, Instant};

/// How long an origin that has only a UDP socket may take to listen on TCP too, before it counts as one of UDP alone.
const TCP_GRACE: Duration = Duration::from_millis(250);

/// Watches for a listener on a port of the calling thread's network namespace.
///
/// It reads the kernel's socket tables and makes no connection, so the link sees nothing of it.
pub struct PortWatch {
    port: u16,
    udp_since: Option<Instant>,
}

impl PortWatch {
    /// Watches `port`.
    pub fn new(port: u16) -> PortWatch {
        PortWatch { port, udp_since: None }
    }

    /// Whether something listens: on TCP, or for a while on nothing but UDP.
    pub fn is_listening(&mut self) -> bool {
        const LISTEN: &str = "0A";
        const UNCONNECTED: &str = "07";
        if self.has("tcp", LISTEN) {
            return true;
        }
        if self.has("udp", UNCONNECTED) {
            return self.udp_since.get_or_insert_with(Instant::now).elapsed() >= TCP_GRACE;
        }
        false
    }

    fn has(&self, transport: &str, state: &str) -> bool {
        ["", "6"].into_iter().any(|family| {
            let table = fs::read_to_string(format!("/proc/thread-self/net/{transport}{family}")).unwrap_or_default();
            table.lines().skip(1).any(|line| is_bound(line, self.port, state))
        })
    }
}

/// Whether a line of `/proc/net/tcp` or `udp` (`proc_pid_net(5)`) is a socket on this port in this state.
fn is_bound(line: &str, port: u16, state: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1).and_then(|address| address.rsplit(':').next());
    local.and_then(|port| u16::from_str_radix(port, 16).ok()) == Some(port) && fields.nth(1) == Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_a_listener_from_a_connection_and_another_port() {
        let listener = "   0: 00000000:20FB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1";
        let connection =
            "   1: 02004D0A:20FB 01004D0A:8000 01 00000000:00000000 00:00000000 00000000     0        0 2 1";
        assert!(is_bound(listener, 8443, "0A"));
        assert!(!is_bound(listener, 8444, "0A"));
        assert!(!is_bound(connection, 8443, "0A"));
        let six = "   0: 00000000000000000000000000000000:20FB 00000000000000000000000000000000:0000 07 0 0 0 0";
        assert!(is_bound(six, 8443, "07"));
        assert!(!is_bound("", 8443, "0A"));
    }
}
