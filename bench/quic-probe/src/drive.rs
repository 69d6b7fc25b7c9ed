//! The event loop: sockets, timers, and the count of requests.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::Plan;
use crate::client::{Client, SERVER_NAME};
use crate::http3;

/// Buffers per system call, and bytes per buffer: the longest that the kernel makes by joining datagrams (GRO).
const BUFFERS: usize = 8;
const BUFFER: usize = 64 * 1024;

/// What a run cost.
pub struct Report {
    requests: u64,
    start: Cpu,
    work: Cpu,
    /// System calls while requests ran.
    calls: u64,
    memory_kb: u64,
}

/// One line of JSON; `run` reads it.
impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { requests, start, work, calls, memory_kb } = self;
        let each = |total: f64| total / *requests as f64;
        write!(
            out,
            r#"{{"user_us": {:.3}, "system_us": {:.3}, "start_ms": {:.1}, "calls": {:.3}, "memory_kb": {memory_kb}}}"#,
            each(work.user_us),
            each(work.system_us),
            (start.user_us + start.system_us) / 1000.0,
            each(*calls as f64),
        )
    }
}

struct Lane<C> {
    socket: UdpSocket,
    server: SocketAddr,
    udp: UdpSocketState,
    client: C,
    deadline: Option<Instant>,
    in_flight: usize,
}

/// What all lanes share.
struct Shared {
    buffers: Vec<u8>,
    outgoing: Vec<u8>,
    system_calls: u64,
    /// Requests that nobody has started.
    left: u64,
    request: Bytes,
    streams: usize,
}

/// Runs a plan to its end.
pub fn run<C: Client>(plan: &Plan) -> io::Result<Report> {
    let mut config = C::config();
    let mut poll = Poll::new()?;
    let mut shared = Shared {
        buffers: vec![0; BUFFERS * BUFFER],
        outgoing: Vec::new(),
        system_calls: 0,
        left: 0,
        request: http3::request(SERVER_NAME, &plan.path),
        streams: plan.streams,
    };
    let mut lanes = Vec::with_capacity(plan.connections);
    for index in 0..plan.connections {
        let mut lane: Lane<C> = open(&mut config, plan.server, &poll, Token(index))?;
        lane.flush(&mut shared)?;
        lanes.push(lane);
    }
    turn(&mut poll, &mut lanes, &mut shared, |lanes, _| lanes.iter().all(|lane| lane.client.is_ready()))?;

    let start = Cpu::now()?;
    let calls_before = shared.system_calls;
    shared.left = plan.requests;
    for lane in &mut lanes {
        lane.refill(&mut shared);
        lane.flush(&mut shared)?;
    }
    turn(&mut poll, &mut lanes, &mut shared, |lanes, shared| {
        shared.left == 0 && lanes.iter().all(|lane| lane.in_flight == 0)
    })?;
    let work = Cpu::now()?.since(start);
    let calls = shared.system_calls - calls_before;
    for lane in &mut lanes {
        lane.client.close(Instant::now());
        lane.flush(&mut shared)?;
    }
    Ok(Report { requests: plan.requests, start, work, calls, memory_kb: peak_memory_kb()? })
}

fn open<C: Client>(config: &mut C::Config, server: SocketAddr, poll: &Poll, token: Token) -> io::Result<Lane<C>> {
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let mut socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    poll.registry().register(&mut socket, token, Interest::READABLE)?;
    let udp = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let client = C::connect(config, socket.local_addr()?, server, Instant::now());
    Ok(Lane { socket, server, udp, client, deadline: None, in_flight: 0 })
}

/// Turns the event loop until `done`.
fn turn<C: Client>(
    poll: &mut Poll,
    lanes: &mut [Lane<C>],
    shared: &mut Shared,
    done: impl Fn(&[Lane<C>], &Shared) -> bool,
) -> io::Result<()> {
    let mut events = Events::with_capacity(1024);
    // Deadlines move with nearly every packet, so the earliest is a lower bound, and found anew when it has come.
    let mut earliest = lanes.iter().filter_map(|lane| lane.deadline).min();
    while !done(lanes, shared) {
        let wait = earliest.map(|earliest| earliest.saturating_duration_since(Instant::now()));
        shared.system_calls += 1;
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let lane = &mut lanes[event.token().0];
            lane.receive(shared)?;
            earliest = earliest.into_iter().chain(lane.deadline).min();
        }
        let now = Instant::now();
        if earliest.is_some_and(|earliest| earliest <= now) {
            for lane in lanes.iter_mut().filter(|lane| lane.deadline.is_some_and(|deadline| deadline <= now)) {
                lane.client.on_timeout(now);
                lane.go_on(shared)?;
            }
            earliest = lanes.iter().filter_map(|lane| lane.deadline).min();
        }
    }
    Ok(())
}

impl<C: Client> Lane<C> {
    /// Takes all that the socket has, and lets the connection go on.
    fn receive(&mut self, shared: &mut Shared) -> io::Result<()> {
        loop {
            let mut metas = [RecvMeta::default(); BUFFERS];
            let mut chunks = shared.buffers.chunks_exact_mut(BUFFER);
            let mut slices: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            shared.system_calls += 1;
            let count = match self.udp.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            for (meta, slice) in metas.iter().zip(&mut slices).take(count) {
                for datagram in slice[..meta.len].chunks_mut(meta.stride.max(1)) {
                    self.client.take(now, meta.addr, datagram);
                }
            }
            if count < BUFFERS {
                break;
            }
        }
        self.go_on(shared)
    }

    fn go_on(&mut self, shared: &mut Shared) -> io::Result<()> {
        self.in_flight -= self.client.advance() as usize;
        self.refill(shared);
        self.flush(shared)
    }

    fn refill(&mut self, shared: &mut Shared) {
        while shared.left > 0 && self.in_flight < shared.streams && self.client.start(&shared.request) {
            shared.left -= 1;
            self.in_flight += 1;
        }
    }

    /// Sends what there is to send.
    fn flush(&mut self, shared: &mut Shared) -> io::Result<()> {
        let now = Instant::now();
        while let Some((length, segment)) = self.client.transmit(now, self.udp.max_gso_segments(), &mut shared.outgoing)
        {
            let transmit = Transmit {
                destination: self.server,
                ecn: None,
                contents: &shared.outgoing[..length],
                segment_size: (segment < length).then_some(segment),
                src_ip: None,
            };
            shared.system_calls += 1;
            // What a full socket buffer does not take is as good as lost, and QUIC sends it again.
            match self.udp.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        self.deadline = self.client.timeout();
        Ok(())
    }
}

/// Use of the processor by this process.
#[derive(Clone, Copy)]
struct Cpu {
    user_us: f64,
    system_us: f64,
}

impl Cpu {
    fn now() -> io::Result<Cpu> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let us = |time: TimeVal| time.num_microseconds() as f64;
        Ok(Cpu { user_us: us(usage.user_time()), system_us: us(usage.system_time()) })
    }

    fn since(self, before: Cpu) -> Cpu {
        Cpu { user_us: self.user_us - before.user_us, system_us: self.system_us - before.system_us }
    }
}

/// The largest resident set so far; unlike getrusage's it leaves out the process which forked this one.
fn peak_memory_kb() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other("/proc/self/status does not tell the largest resident set"))
}
