//! TLS within QUIC (RFC 9001).

use std::any::Any;
use std::io::Cursor;
use std::sync::Arc;

use aws_lc_rs::aead::{self, AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use quinn_proto::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ClientConnection, DirectionalKeys, KeyChange, Secrets, Suite, Version};
use rustls::{CipherSuite, HandshakeKind, NamedGroup, Tls13CipherSuite};

use super::TlsSetup;

/// What a handshake agreed on: the type behind [`crypto::Session::handshake_data`].
#[derive(Clone, Debug)]
pub(crate) struct Agreement {
    pub alpn: Option<Vec<u8>>,
    pub cipher: Option<CipherSuite>,
    pub group: Option<NamedGroup>,
    /// Whether it resumed an earlier session.
    pub resumed: bool,
}

/// Starts the TLS side of QUIC connections.
///
/// quinn-proto has one of these of its own. It tells nothing of a handshake but ALPN, and what this engine reports is
/// what the handshake said.
#[derive(Debug)]
pub(super) struct QuicTls(pub(super) TlsSetup);

/// The suite of Initial packets (RFC 9001 section 5.2), which need not be among those offered.
pub(super) fn initial_suite() -> Option<Suite> {
    TLS13_AES_128_GCM_SHA256.tls13().and_then(Tls13CipherSuite::quic_suite)
}

impl crypto::ClientConfig for QuicTls {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        _server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let (1, Some(initial)) = (version, initial_suite()) else { return Err(ConnectError::UnsupportedVersion) };
        let TlsSetup { config, name, .. } = &self.0;
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let tls = ClientConnection::new(Arc::clone(config), Version::V1, name.clone(), encoded)
            .map_err(|error| ConnectError::InvalidServerName(error.to_string()))?;
        Ok(Box::new(Session { tls, initial, next: None }))
    }
}

/// The TLS side of one connection.
struct Session {
    tls: ClientConnection,
    initial: Suite,
    /// What the keys after the next key update are made of.
    next: Option<Secrets>,
}

impl crypto::Session for Session {
    fn initial_keys(&self, destination: &ConnectionId, side: Side) -> Keys {
        let side = if side.is_client() { rustls::Side::Client } else { rustls::Side::Server };
        keys(self.initial.keys(destination, side, Version::V1))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(Agreement {
            alpn: self.tls.alpn_protocol().map(<[u8]>::to_vec),
            cipher: self.tls.negotiated_cipher_suite().map(|suite| suite.suite()),
            group: self.tls.negotiated_key_exchange_group().map(|group| group.name()),
            resumed: self.tls.handshake_kind() == Some(HandshakeKind::Resumed),
        }))
    }

    /// The server's certificates, as a vector.
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.tls.peer_certificates().map(|chain| Box::new(chain.to_vec()) as Box<dyn Any>)
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let DirectionalKeys { header, packet, .. } = self.tls.zero_rtt_keys()?;
        Some((Box::new(header), Box::new(packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(self.tls.is_early_data_accepted())
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let result = self.tls.read_hs(bytes);
        result.map(|()| false).map_err(|error| match self.tls.alert() {
            Some(alert) => TransportError {
                code: TransportErrorCode::crypto(alert.into()),
                frame: None,
                reason: error.to_string(),
            },
            None => TransportError {
                code: TransportErrorCode::PROTOCOL_VIOLATION,
                frame: None,
                reason: format!("TLS: {error}"),
            },
        })
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let encoded = self.tls.quic_transport_parameters();
        Ok(encoded.map(|encoded| TransportParameters::read(Side::Client, &mut Cursor::new(encoded))).transpose()?)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        match self.tls.write_hs(out)? {
            KeyChange::Handshake { keys: new } => Some(keys(new)),
            KeyChange::OneRtt { keys: new, next } => {
                self.next = Some(next);
                Some(keys(new))
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let rustls::quic::PacketKeySet { local, remote } = self.next.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(local), remote: Box::new(remote) })
    }

    /// RFC 9001 section 5.8.
    fn is_valid_retry(&self, destination: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        const KEY: [u8; 16] = 0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes();
        const NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
        let Some((token, tag)) = payload.split_last_chunk::<{ aead::MAX_TAG_LEN }>() else { return false };
        let Ok(key) = UnboundKey::new(&AES_128_GCM, &KEY) else { return false };
        let length = [destination.len() as u8];
        let packet = [&length[..], destination, header, token].concat();
        let key = LessSafeKey::new(key);
        key.open_in_place(Nonce::assume_unique_for_key(NONCE), Aad::from(packet), &mut tag.to_owned()).is_ok()
    }

    /// Nothing here asks for any.
    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn keys(keys: rustls::quic::Keys) -> Keys {
    let rustls::quic::Keys { local, remote } = keys;
    Keys {
        header: KeyPair { local: Box::new(local.header), remote: Box::new(remote.header) },
        packet: KeyPair { local: Box::new(local.packet), remote: Box::new(remote.packet) },
    }
}

#[cfg(test)]
mod tests {
    use quinn_proto::crypto::Session as _;

    use super::*;

    /// RFC 9001 appendix A.4.
    #[test]
    fn the_sample_retry_is_valid_and_no_other() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let header = hex("ff000000010008f067a5502a4262b5");
        let mut payload = hex("746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
        let destination = ConnectionId::new(&hex("8394c8f03e515708"));
        let setup = TlsSetup::for_tests();
        let tls = ClientConnection::new(setup.config, Version::V1, setup.name, Vec::new()).unwrap();
        let session = Session { tls, initial: initial_suite().unwrap(), next: None };
        assert!(session.is_valid_retry(&destination, &header, &payload));
        payload[0] ^= 1;
        assert!(!session.is_valid_retry(&destination, &header, &payload));
        assert!(!session.is_valid_retry(&destination, &header, &[0; 15]));
    }
}
