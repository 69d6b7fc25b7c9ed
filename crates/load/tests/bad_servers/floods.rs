//! Servers that send without end what is no response, and may or may not read what they are answered.

use std::io::Write as _;
use std::thread;

use load::Amount;
use measure::Protocol;

use super::frames::{PING, Peer, SETTINGS, Scripted};
use super::{plan, read_on, run_in_vain, serve};

/// Sends frames of one kind until the client has gone.
fn flood(peer: &mut Peer, kind: u8, payload: &[u8], reads: bool) -> std::io::Result<()> {
    peer.settings(&[])?;
    if reads {
        let mut stream = peer.stream.try_clone()?;
        thread::spawn(move || read_on(&mut stream));
    }
    loop {
        peer.write(kind, 0, 0, payload)?;
    }
}

#[test]
fn a_flood_of_frames_ends_the_connection() {
    for (kind, payload) in [(PING, &[0; 8][..]), (SETTINGS, &[])] {
        for reads in [false, true] {
            let server = Scripted::new(move |peer| flood(peer, kind, payload, reads));
            let reasons = run_in_vain(&server.plan(4, 40), 0);
            for reason in &reasons {
                assert!(reason.contains("HTTP/2 connection error 0xb: "), "{reasons:?}");
            }
        }
    }
}

#[test]
fn a_flood_of_interim_responses_ends_the_connection() {
    let (port, _) = serve(|mut stream| {
        let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
        super::read_request(&mut stream);
        while stream.write_all(many.as_bytes()).is_ok() {}
    });
    let reasons = run_in_vain(&plan(Protocol::H1c, port, Amount::Requests(10)), 0);
    assert!(reasons.iter().all(|reason| reason.ends_with("1 MB of interim responses")), "{reasons:?}");
}
