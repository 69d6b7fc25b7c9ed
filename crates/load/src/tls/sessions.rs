//! What connections remember of earlier ones.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls_pki_types::ServerName;

/// The sessions of one client with its one server. The library's own store keeps eight tickets, and so a hundred
/// connections that are replaced at once would hardly ever resume.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The newest one last. Each is used once (RFC 8446 appendix C.4).
    tls13: Vec<Tls13ClientSessionValue>,
}

/// Most tickets that are kept, each with the server's certificate.
const TICKETS: usize = 256;

impl Sessions {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is held, and each change is complete in itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _server: ServerName<'static>, group: NamedGroup) {
        self.known().group = Some(group);
    }

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        self.known().group
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.known().tls12 = Some(session);
    }

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.known().tls12.clone()
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {
        self.known().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let tickets = &mut self.known().tls13;
        if tickets.len() == TICKETS {
            tickets.remove(0);
        }
        tickets.push(ticket);
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.known().tls13.pop()
    }
}
