//! What servers of HTTP/1.1 get wrong.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use load::{Amount, Plan};
use measure::{LoadSummary, Protocol};

use super::{RESPONSE, end_with_reset, impatient, plan, read_on, read_request, run, run_in_vain, serve};

/// What a server does after its answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It waits for the next request.
    GoesOn,
    /// It closes the connection.
    Closes,
    /// It waits for the client to go.
    Waits,
}

/// A plan for a server that gives this answer to every request.
fn answering(answer: &'static str, then: Then, requests: u64) -> Plan {
    let (port, _) = serve(move |mut stream| {
        while read_request(&mut stream) && stream.write_all(answer.as_bytes()).is_ok() && then == Then::GoesOn {}
        if then == Then::Waits {
            read_on(&mut stream);
        }
    });
    plan(Protocol::H1c, port, Amount::Requests(requests))
}

fn run_well(plan: &Plan) -> LoadSummary {
    let summary = run(plan).unwrap();
    let Amount::Requests(requests) = plan.amount else { panic!("{:?} is no number of requests", plan.amount) };
    assert_eq!((summary.requests.succeeded, summary.requests.failed), (requests, 0), "{:?}", summary.errors);
    summary
}

#[test]
fn an_empty_reason_is_a_reason() {
    for answer in [
        "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let summary = run_well(&answering(answer, Then::GoesOn, 20));
        assert_eq!((summary.traffic.data_bytes, summary.connections.used), (40, 1));
    }
}

#[test]
fn http_1_0_is_spoken() {
    let lasting = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok";
    assert_eq!(run_well(&answering(lasting, Then::GoesOn, 20)).connections.used, 1);
    for (answer, then) in [
        ("HTTP/1.0 200 OK\r\n\r\nok", Then::Closes),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Closes),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", Then::Waits),
    ] {
        let summary = run_well(&answering(answer, then, 20));
        assert_eq!((summary.traffic.data_bytes, summary.connections.used), (40, 20));
    }
}

#[test]
fn a_body_that_stops_is_not_whole() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-le",
    ] {
        let reasons = run_in_vain(&answering(answer, Then::Closes, 8), 0);
        for reason in &reasons {
            assert!(reason.ends_with("the server closed the connection"), "{answer}: {reasons:?}");
        }
        let plan = impatient(answering(answer, Then::Waits, 2));
        assert_eq!(run_in_vain(&plan, 2).len(), 1);
    }
}

#[test]
fn what_comes_after_a_body_is_the_fault_of_the_server() {
    // One byte too many with the body: nobody asked for it, and the connection is not used again.
    let summary = run(&answering("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nok", Then::GoesOn, 10)).unwrap();
    assert_eq!((summary.requests.succeeded, summary.requests.failed), (10, 0), "{:?}", summary.errors);
    assert_eq!(summary.connections.used, 10);
    let reason = "malformed HTTP/1.1 response: bytes come although no request is in flight";
    assert_eq!(summary.errors[reason], 10, "{:?}", summary.errors);
    // It comes when the next request is under way: that is answered with nonsense.
    let (port, _) = serve(|mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\no");
        read_request(&mut stream);
        let _ = stream.write_all(b"kHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\no");
        read_on(&mut stream);
    });
    let summary = run(&plan(Protocol::H1c, port, Amount::Requests(10))).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.done, counts.succeeded, counts.errored), (10, 5, 5), "{:?}", summary.errors);
    assert_eq!(summary.errors["malformed HTTP/1.1 response: the status line"], 5, "{:?}", summary.errors);
}

#[test]
fn chunks_that_are_none_are_named() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\nok\r\n0\r\n\r\n";
    let reasons = run_in_vain(&answering(answer, Then::GoesOn, 8), 0);
    assert!(reasons.iter().all(|reason| reason.contains("malformed HTTP/1.1 response: ")), "{reasons:?}");
}

/// Sends a byte a second until the client goes.
fn trickle(stream: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes {
        if stream.write_all(std::slice::from_ref(byte)).is_err() {
            return;
        }
        thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_byte_a_second_is_too_slow() {
    for at_once in [0, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n".len()] {
        let (port, _) = serve(move |mut stream| {
            read_request(&mut stream);
            let (soon, slowly) = RESPONSE.split_at(at_once);
            let _ = stream.write_all(soon);
            trickle(&mut stream, slowly);
        });
        let plan = impatient(Plan { connections: 2, ..plan(Protocol::H1c, port, Amount::Requests(4)) });
        assert_eq!(run_in_vain(&plan, 4).len(), 1);
    }
}

#[test]
fn an_upload_that_nobody_reads_times_out() {
    let (port, _) = serve(|_stream| {
        loop {
            thread::park();
        }
    });
    let mut plan = impatient(plan(Protocol::H1c, port, Amount::Requests(2)));
    plan.requests[0].method = "POST".to_owned();
    plan.requests[0].body = vec![b'b'; 50_000_000].into();
    assert_eq!(run_in_vain(&plan, 2).len(), 1);
}

#[test]
fn a_reset_connection_costs_the_request_in_flight_and_is_replaced() {
    let (port, _) = serve(|mut stream| {
        end_with_reset(&stream);
        read_request(&mut stream);
        let _ = stream.write_all(RESPONSE);
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok");
    });
    let summary = run(&plan(Protocol::H1c, port, Amount::Requests(10))).unwrap();
    let counts = &summary.requests;
    assert_eq!((counts.done, counts.succeeded, counts.errored), (10, 5, 5), "{:?}", summary.errors);
    assert_eq!((summary.connections.opened, summary.connections.reused), (5, 5));
    assert!(summary.errors.keys().all(|reason| reason.contains("reset")), "{:?}", summary.errors);
}
