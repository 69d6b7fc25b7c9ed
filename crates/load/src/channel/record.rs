use std::mem;

use rustls::HandshakeKind;
use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError};

use super::Broken;
use crate::tls::{TlsSetup, cipher_name, group_name};
use measure::TlsFacts;

/// The TLS side of a byte stream. Records are decrypted straight from the worker's read buffer; only an incomplete
/// one is kept with the connection.
pub(super) struct Records {
    tls: UnbufferedClientConnection,
    /// The beginning of a record whose rest has not arrived.
    incomplete: Vec<u8>,
    handshaking: bool,
    peer_closed: bool,
    /// Whether TLS has failed, after which it must not be asked for anything.
    failed: bool,
}

impl Records {
    pub(super) fn new(setup: &TlsSetup) -> Result<Records, Broken> {
        let tls = UnbufferedClientConnection::new(setup.config.clone(), setup.name.clone())?;
        Ok(Records { tls, incomplete: Vec::new(), handshaking: true, peer_closed: false, failed: false })
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.handshaking
    }

    /// Whether the peer said that it sends no more.
    pub(super) fn is_closed_by_peer(&self) -> bool {
        self.peer_closed
    }

    /// Copies the incomplete record to the front of the buffer, so that what is read next continues it. Gives its
    /// length; [`Records::receive`] wants it back with what follows.
    pub(super) fn restore(&self, buffer: &mut [u8]) -> usize {
        buffer[..self.incomplete.len()].copy_from_slice(&self.incomplete);
        self.incomplete.len()
    }

    /// Takes what arrived after [`Records::restore`], calls `plaintext` for each decrypted piece, and appends handshake
    /// messages to `out`.
    pub(super) fn receive(
        &mut self,
        mut bytes: &mut [u8],
        out: &mut Vec<u8>,
        plaintext: &mut impl FnMut(&[u8]) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        self.incomplete.clear();
        loop {
            let status = self.tls.process_tls_records(bytes);
            let mut discard = status.discard;
            let mut blocked = false;
            let mut result = Ok(());
            match status.state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        result = result.and_then(|()| plaintext(record.payload));
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let start = out.len();
                    let length = match message.encode(&mut []) {
                        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                            out.resize(start + required_size, 0);
                            message.encode(&mut out[start..]).map_err(|error| setup_error(&error))?
                        }
                        result => result.map_err(|error| setup_error(&error))?,
                    };
                    out.truncate(start + length);
                }
                // What was encoded goes out with the next flush; from here on it is the socket's.
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::WriteTraffic(_)) => {
                    self.handshaking = false;
                    blocked = true;
                }
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                Ok(_) => blocked = true,
                Err(error) => {
                    self.alert(&mut bytes[discard..], out);
                    self.failed = true;
                    return Err(error.into());
                }
            }
            bytes = &mut mem::take(&mut bytes)[discard..];
            if blocked || result.is_err() {
                self.incomplete.extend_from_slice(bytes);
                return result;
            }
        }
    }

    /// Encrypts plaintext at the end of `out`.
    pub(super) fn seal(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.failed {
            return Err(setup_error(&"it has failed before"));
        }
        let start = out.len();
        // Each record of up to 16 KiB gains a header, a nonce (TLS 1.2) and a tag.
        const OVERHEAD: usize = 64;
        out.resize(start + plaintext.len() + (plaintext.len() / 16_384 + 1) * OVERHEAD, 0);
        let sealed = match self.tls.process_tls_records(&mut self.incomplete).state? {
            ConnectionState::WriteTraffic(mut traffic) => traffic.encrypt(plaintext, &mut out[start..]),
            state => return Err(setup_error(&format!("cannot send in the state {state:?}"))),
        };
        let length = sealed.map_err(|error: EncryptError| setup_error(&error))?;
        out.truncate(start + length);
        Ok(())
    }

    /// Appends the alert that tells the peer that the connection ends, if TLS is in a state to do so.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        if !self.handshaking && !self.failed {
            let mut incomplete = mem::take(&mut self.incomplete);
            self.alert(&mut incomplete, out);
        }
    }

    /// Appends the alert that TLS has ready or, when nothing is wrong, the one that closes the connection. TLS refers
    /// to bytes it has not discarded, so it must see them again.
    fn alert(&mut self, incomplete: &mut [u8], out: &mut Vec<u8>) {
        let start = out.len();
        const ALERT: usize = 256;
        out.resize(start + ALERT, 0);
        let length = match self.tls.process_tls_records(incomplete).state {
            Ok(ConnectionState::EncodeTlsData(mut message)) => message.encode(&mut out[start..]).unwrap_or(0),
            Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                traffic.queue_close_notify(&mut out[start..]).unwrap_or(0)
            }
            _ => 0,
        };
        out.truncate(start + length);
    }

    pub(super) fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) fn facts(&self, verification: String) -> TlsFacts {
        let version = self.tls.protocol_version().and_then(|version| version.as_str().map(str::to_owned));
        TlsFacts {
            version: version.unwrap_or_default().replace("v1_", "v1."),
            cipher: self.tls.negotiated_cipher_suite().map_or_else(String::new, |suite| cipher_name(suite.suite())),
            key_exchange: self
                .tls
                .negotiated_key_exchange_group()
                .map_or_else(String::new, |group| group_name(group.name())),
            alpn: self.alpn().map(|name| String::from_utf8_lossy(name).into_owned()),
            verification,
        }
    }
}

fn setup_error(error: &dyn std::fmt::Display) -> Broken {
    Broken::Tls(rustls::Error::General(error.to_string()))
}
