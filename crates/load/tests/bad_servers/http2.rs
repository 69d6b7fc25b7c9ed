//! What servers of HTTP/2 get wrong.

use std::io;
use std::thread;
use std::time::Duration;

use super::frames::{DATA, END_STREAM, Peer, RST_STREAM, Scripted, WINDOW_UPDATE};
use super::{end_with_reset, impatient, read_on, run, run_in_vain};

/// A server that lets `answer` answer each request.
fn answering(answer: impl Fn(&mut Peer) -> io::Result<()> + Send + Sync + 'static) -> Scripted {
    Scripted::new(move |peer| {
        peer.settings(&[])?;
        loop {
            if peer.next_request()?.is_some() {
                answer(peer)?;
            }
        }
    })
}

#[test]
fn a_length_that_is_not_that_of_the_body_is_malformed() {
    let long = answering(|peer| {
        let stream = peer.head("5", 0)?;
        peer.write(DATA, END_STREAM, stream, b"ok")
    });
    let short = answering(|peer| {
        let stream = peer.head("1", 0)?;
        peer.write(DATA, END_STREAM, stream, b"ok")
    });
    let early = answering(|peer| peer.head("5", END_STREAM).map(drop));
    let nonsense = answering(|peer| peer.head("five", END_STREAM).map(drop));
    for server in [long, short, early, nonsense] {
        let summary = run(&server.plan(3, 30)).unwrap();
        assert_eq!((summary.requests.done, summary.requests.errored), (30, 30), "{:?}", summary.errors);
        assert_eq!(summary.errors["malformed response"], 30, "{:?}", summary.errors);
        assert_eq!(summary.connections.opened, 1, "it is the fault of the response alone");
    }
}

#[test]
fn a_reset_in_the_middle_of_a_response_is_named() {
    const INTERNAL_ERROR: u32 = 2;
    let server = answering(|peer| {
        let stream = peer.head("5", 0)?;
        peer.write(DATA, 0, stream, b"ok")?;
        peer.write(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes())
    });
    let summary = run(&server.plan(3, 30)).unwrap();
    assert_eq!((summary.requests.done, summary.requests.errored), (30, 30));
    assert_eq!(summary.errors["stream reset with error code 0x2"], 30, "{:?}", summary.errors);
    assert_eq!(summary.connections.opened, 1);
}

#[test]
fn a_body_that_stops_times_out_and_the_connection_goes_on() {
    let server = answering(|peer| {
        let stream = peer.head("5", 0)?;
        peer.write(DATA, 0, stream, b"ok")
    });
    let summary = run(&impatient(server.plan(3, 6))).unwrap();
    assert_eq!((summary.requests.timed_out, summary.requests.failed), (6, 6), "{:?}", summary.errors);
    assert_eq!(summary.connections.opened, 1);
}

#[test]
fn a_connection_that_ends_within_a_body_is_called_so() {
    for (with_reset, part) in [(false, "the server closed the connection"), (true, "reset by peer")] {
        let server = Scripted::new(move |peer| {
            if with_reset {
                end_with_reset(&peer.stream);
            }
            peer.settings(&[])?;
            peer.gather(2)?;
            let stream = peer.head("5", 0)?;
            peer.write(DATA, 0, stream, b"ok")?;
            // All that the client sends is read: otherwise the connection would be reset in any case.
            while !peer.acknowledged {
                peer.read()?;
            }
            Ok(())
        });
        let reasons = run_in_vain(&server.plan(2, 20), 0);
        assert!(reasons.iter().all(|reason| reason.contains(part)), "{reasons:?}");
    }
}

#[test]
fn a_server_that_never_sends_settings_is_named() {
    let eager = Scripted::new(|peer| {
        peer.gather(1)?;
        peer.answer()?;
        while peer.read().is_ok() {}
        Ok(())
    });
    let reasons = run_in_vain(&eager.plan(1, 10), 0);
    for reason in &reasons {
        assert!(reason.contains("the first frame is not SETTINGS; is it an HTTP/2 server?"), "{reasons:?}");
    }
    let mute = Scripted::new(|peer| {
        read_on(&mut peer.stream);
        Ok(())
    });
    assert_eq!(run_in_vain(&impatient(mute.plan(5, 5)), 5).len(), 1);
}

#[test]
fn a_byte_a_second_is_too_slow() {
    let server = answering(|peer| {
        let stream = peer.head("500", 0)?;
        loop {
            peer.write(DATA, 0, stream, b"x")?;
            thread::sleep(Duration::from_secs(1));
        }
    });
    assert_eq!(run_in_vain(&impatient(server.plan(2, 4)), 4).len(), 1);
}

#[test]
fn an_upload_that_nobody_reads_times_out() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let server = Scripted::new(|peer| {
        peer.settings(&[(INITIAL_WINDOW_SIZE, u32::MAX >> 1)])?;
        peer.write(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes())?;
        loop {
            thread::park();
        }
    });
    let mut plan = impatient(server.plan(1, 2));
    plan.requests[0].method = "POST".to_owned();
    plan.requests[0].body = vec![b'b'; 50_000_000].into();
    assert_eq!(run_in_vain(&plan, 2).len(), 1);
}
