use std::mem;

use rustls::client::UnbufferedClientConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError};
use rustls::{CommonState, HandshakeKind};

use super::Broken;
use crate::tls::TlsSetup;

/// Early data (0-RTT, RFC 8446 section 2.3) of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Early {
    /// Nobody has asked TLS yet.
    Undecided,
    /// There is no session that allows it, or nothing to send, or it is too late.
    Impossible,
    /// The first flight waits for it.
    Possible,
    /// These bytes went out with the first flight.
    Sent(Vec<u8>),
    Accepted,
    /// So many bytes went out again.
    Rejected(usize),
}

/// Most plaintext in a record, and what a record of TLS 1.3 adds to it: header, content type and tag.
const LARGEST_RECORD: usize = 16_384;
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

/// The length of the record that ends early data which the server accepted (RFC 8446 section 4.5). The unbuffered API of
/// the TLS library does not tell of the acceptance; this message does, the only one of a handshake without content.
const END_OF_EARLY_DATA: usize = 4 + RECORD_OVERHEAD;

/// The TLS side of a byte stream. Records are decrypted straight from the worker's read buffer; only an incomplete
/// one is kept with the connection.
pub(super) struct Records {
    tls: UnbufferedClientConnection,
    /// The beginning of a record whose rest has not arrived.
    incomplete: Vec<u8>,
    handshaking: bool,
    peer_closed: bool,
    early: Early,
    /// Whether TLS has failed, after which it must not be asked for anything.
    failed: bool,
}

impl Records {
    pub(super) fn new(setup: &TlsSetup) -> Result<Records, Broken> {
        let tls = UnbufferedClientConnection::new(setup.config.clone(), setup.name.clone())?;
        Ok(Records {
            tls,
            incomplete: Vec::new(),
            handshaking: true,
            peer_closed: false,
            early: Early::Undecided,
            failed: false,
        })
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
                    if let Early::Sent(_) = self.early
                        && length == END_OF_EARLY_DATA
                    {
                        self.early = Early::Accepted;
                    }
                }
                // The first flight goes out when it is known what early data goes with it.
                Ok(ConnectionState::TransmitTlsData(mut transmit)) if self.early == Early::Undecided => {
                    if transmit.may_encrypt_early_data().is_some() {
                        self.early = Early::Possible;
                        blocked = true;
                    } else {
                        self.early = Early::Impossible;
                        transmit.done();
                    }
                }
                // What was encoded goes out with the next flush; from here on it is the socket's.
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    self.handshaking = false;
                    blocked = true;
                    if let Early::Sent(bytes) = &mut self.early {
                        let bytes = mem::take(bytes);
                        self.early = Early::Rejected(bytes.len());
                        let start = begin_sealing(&bytes, out);
                        let length = traffic.encrypt(&bytes, &mut out[start..]).map_err(|error| setup_error(&error))?;
                        out.truncate(start + length);
                    }
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

    /// Whether plaintext can go out with the first flight.
    pub(super) fn takes_early_data(&self) -> bool {
        self.early == Early::Possible
    }

    /// Whether the server accepted what went out with the first flight; `None` when nothing did, or the answer has not
    /// come yet.
    pub(super) fn early_data_accepted(&self) -> Option<bool> {
        match self.early {
            Early::Accepted => Some(true),
            Early::Rejected(_) => Some(false),
            _ => None,
        }
    }

    /// Bytes of plaintext that were sent a second time.
    pub(super) fn repeated(&self) -> usize {
        if let Early::Rejected(bytes) = self.early { bytes } else { 0 }
    }

    /// Completes the first flight with plaintext from the front of `plaintext`, as much as the session allows. Gives the
    /// number of bytes. If the server rejects them, they are sent again.
    pub(super) fn seal_early(&mut self, plaintext: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<usize, Broken> {
        let mut sent = 0;
        self.early = Early::Impossible;
        let Ok(ConnectionState::TransmitTlsData(mut transmit)) = self.tls.process_tls_records(&mut []).state else {
            return Err(setup_error(&"the first flight is gone"));
        };
        if let Some(mut early) = transmit.may_encrypt_early_data() {
            // A record at a time: TLS tells the length of what it wrote, but not how much of the plaintext that holds.
            for record in plaintext.chunks(LARGEST_RECORD) {
                let start = begin_sealing(record, out);
                let length = early.encrypt(record, &mut out[start..]).map_err(|error| setup_error(&error))?;
                out.truncate(start + length);
                let taken = length.saturating_sub(RECORD_OVERHEAD);
                sent += taken;
                if taken < record.len() {
                    break;
                }
            }
        }
        transmit.done();
        if sent > 0 {
            self.early = Early::Sent(plaintext.drain(..sent).collect());
        }
        Ok(sent)
    }

    /// Encrypts plaintext at the end of `out`.
    pub(super) fn seal(&mut self, plaintext: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.failed {
            return Err(setup_error(&"it has failed before"));
        }
        let start = begin_sealing(plaintext, out);
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

    /// What TLS has agreed on.
    pub(super) fn state(&self) -> &CommonState {
        &self.tls
    }
}

/// Makes room for sealed plaintext at the end of `out`. Gives where it begins.
fn begin_sealing(plaintext: &[u8], out: &mut Vec<u8>) -> usize {
    // Each record gains a header, a nonce (TLS 1.2) and a tag.
    const OVERHEAD: usize = 64;
    let start = out.len();
    out.resize(start + plaintext.len() + (plaintext.len() / LARGEST_RECORD + 1) * OVERHEAD, 0);
    start
}

fn setup_error(error: &dyn std::fmt::Display) -> Broken {
    Broken::Tls(rustls::Error::General(error.to_string()))
}
