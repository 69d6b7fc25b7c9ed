//! Limits and ends that a server sets, by a server that sees every frame.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::frames::{GOAWAY, SETTINGS, Scripted, WINDOW_UPDATE};
use super::run;

const MAX_CONCURRENT_STREAMS: u16 = 3;

#[test]
fn the_limit_of_concurrent_streams_is_reached_and_never_exceeded() {
    for limit in [1, 3] {
        let most = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&most);
        let server = Scripted::new(move |peer| {
            peer.settings(&[(MAX_CONCURRENT_STREAMS, limit)])?;
            loop {
                let request = peer.next_request()?;
                if peer.open.len() as u32 > limit {
                    assert!(!peer.acknowledged, "more than {limit} streams although the limit is known");
                    peer.refuse()?;
                } else {
                    seen.fetch_max(peer.open.len() as u64, Ordering::SeqCst);
                }
                if request.is_none() && !peer.open.is_empty() {
                    peer.answer()?;
                }
            }
        });
        server.run(20, 30);
        assert_eq!(most.load(Ordering::SeqCst), u64::from(limit), "the limit was used");
    }
}

#[test]
fn without_a_limit_the_plan_sets_it() {
    let server = Scripted::new(|peer| {
        peer.settings(&[])?;
        loop {
            peer.next_request()?;
            if peer.open.len() == 150 {
                while !peer.open.is_empty() {
                    peer.answer()?;
                }
            }
        }
    });
    assert_eq!(server.run(150, 450).connections.max_streams, 150);
}

#[test]
fn a_limit_that_is_lowered_holds_from_then_on() {
    let server = Scripted::new(|peer| {
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 6)])?;
        let mut limit = 6;
        while peer.answered.load(Ordering::SeqCst) < 60 {
            let request = peer.next_request()?;
            if peer.answered.load(Ordering::SeqCst) == 20 && limit == 6 {
                limit = 2;
                peer.settings(&[(MAX_CONCURRENT_STREAMS, limit)])?;
                while !peer.acknowledged {
                    peer.read()?;
                }
                continue;
            }
            assert!(request.is_none() || !peer.acknowledged || peer.open.len() as u32 <= limit);
            if peer.open.len() as u32 > limit && request.is_some() {
                peer.refuse()?;
            } else if request.is_none() && !peer.open.is_empty() {
                peer.answer()?;
            }
        }
        peer.next_request().map(drop)
    });
    server.run(6, 60);
}

#[test]
fn a_server_that_allows_no_stream_is_given_up() {
    let server = Scripted::new(|peer| {
        peer.settings(&[(MAX_CONCURRENT_STREAMS, 0)])?;
        loop {
            // What came before the limit was known is never answered.
            peer.next_request()?;
        }
    });
    let mut plan = server.plan(2, 6);
    plan.timeout = std::time::Duration::from_millis(300);
    let summary = run(&plan).unwrap();
    assert_eq!((summary.requests.succeeded, summary.requests.failed), (0, 6));
    let reason = "the server allowed no request within the timeout";
    assert!(summary.errors.contains_key(reason), "{:?}", summary.errors);
}

#[test]
fn refused_streams_are_sent_again_and_counted() {
    let refused = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refused);
    let server = Scripted::new(move |peer| {
        peer.settings(&[])?;
        for number in 1_u64.. {
            while peer.next_request()?.is_none() {}
            if number % 3 == 0 {
                count.fetch_add(1, Ordering::SeqCst);
                peer.refuse()?;
            } else {
                peer.answer()?;
            }
        }
        Ok(())
    });
    let summary = server.run(4, 50);
    assert_eq!(summary.requests.retried, refused.load(Ordering::SeqCst));
    assert_eq!((summary.requests.retried, summary.connections.opened), (24, 1));
}

#[test]
fn a_graceful_end_in_two_steps_loses_nothing() {
    let lost = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&lost);
    let server = Scripted::new(move |peer| {
        peer.settings(&[])?;
        for _ in 0..3 {
            peer.gather(4)?;
            peer.answer()?;
        }
        peer.gather(4)?;
        // First that it is about to end, then what it will still answer.
        peer.goaway(u32::MAX >> 1)?;
        while peer.next_request()?.is_some() {}
        let kept = peer.open.len().min(2);
        count.fetch_add((peer.open.len() - kept) as u64, Ordering::SeqCst);
        peer.goaway(peer.open[kept - 1])?;
        peer.open.truncate(kept);
        while !peer.open.is_empty() {
            peer.answer()?;
        }
        assert!(peer.next_request().is_err(), "the client leaves and sends nothing more");
        Ok(())
    });
    let summary = server.run(4, 50);
    assert_eq!(summary.requests.retried, lost.load(Ordering::SeqCst));
    assert!(summary.requests.retried > 0);
    assert!(summary.connections.opened >= 10, "at most five requests each");
    assert_eq!(summary.connections.used, summary.connections.opened);
}

#[test]
fn a_connection_that_ends_with_an_error_costs_what_was_in_flight() {
    let server = Scripted::new(|peer| {
        peer.settings(&[])?;
        for _ in 0..5 {
            while peer.next_request()?.is_none() {}
            peer.answer()?;
        }
        while peer.open.len() < 2 {
            peer.next_request()?;
        }
        // INTERNAL_ERROR, with a last stream below which everything may have been processed.
        let last = peer.open[1];
        peer.write(GOAWAY, 0, 0, &[last.to_be_bytes(), 2_u32.to_be_bytes()].concat())
    });
    let summary = run(&server.plan(2, 21)).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.done, counts.succeeded, counts.errored), (21, 15, 6), "{:?}", summary.errors);
    assert_eq!(summary.connections.opened, 3);
}

#[test]
fn the_first_settings_are_those_of_the_plan() {
    let seen = Arc::new(Mutex::new(None));
    let found = Arc::clone(&seen);
    let server = Scripted::new(move |peer| {
        peer.settings(&[])?;
        let settings = peer.read()?;
        let update = peer.read()?;
        assert_eq!((settings.kind, settings.flags, update.kind, update.stream), (SETTINGS, 0, WINDOW_UPDATE, 0));
        *found.lock().unwrap() = Some((settings.payload, update.payload));
        loop {
            if peer.next_request()?.is_some() {
                peer.answer()?;
            }
        }
    });
    let mut plan = server.plan(1, 1);
    plan.transport.stream_window = 1_000;
    plan.transport.connection_window = 70_000;
    plan.transport.max_frame_size = 20_000;
    plan.transport.header_table_size = 100;
    let summary = run(&plan).unwrap();
    assert_eq!(summary.requests.succeeded, 1, "{:?}", summary.errors);
    let (settings, update) = seen.lock().unwrap().take().unwrap();
    let setting = |name: u16| {
        let mut settings = settings.chunks(6).filter(|setting| setting[..2] == name.to_be_bytes());
        u32::from_be_bytes(settings.next().unwrap()[2..].try_into().unwrap())
    };
    assert_eq!((setting(1), setting(2), setting(4), setting(5)), (100, 0, 1_000, 20_000));
    assert_eq!(u32::from_be_bytes(update.try_into().unwrap()), 70_000 - 65_535);
}
