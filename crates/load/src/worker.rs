use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use measure::Protocol;
use mio::{Events, Poll, Token as EventToken};
use wire::{FailureKind, Token};

use crate::LoadError;
use crate::channel::{Broken, Channel, chosen};
use crate::lane::{Lane, Recorder};
use crate::schedule::{Outcome, Schedule};
use crate::tally::{Tally, micros};
use crate::timers::Timers;

/// What all workers of a run share.
pub(crate) struct Site<C: Channel> {
    pub settings: C::Settings,
    /// Host and port, for messages.
    pub host: String,
    pub protocol: Protocol,
    pub addresses: Vec<SocketAddr>,
    pub timeout: Duration,
    pub streams: usize,
    pub window: Window,
    pub watch: Arc<Watch>,
}

/// When to measure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// The end of the warm-up.
    pub begins: Option<Instant>,
    /// When no further request starts.
    pub ends: Option<Instant>,
}

/// What a run and the outside world tell each other while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Set from outside: stop now.
    pub stop: AtomicBool,
    /// Requests that have ended.
    pub done: AtomicU64,
    /// Those of them that failed.
    pub failed: AtomicU64,
}

/// One event loop with its connections.
///
/// Sockets are registered once, edge-triggered. When one has something to say, the worker takes everything, refills
/// the connection with requests, and writes once.
pub(crate) struct Worker<'a, C: Channel, S> {
    site: &'a Site<C>,
    poll: Poll,
    lanes: Vec<Lane<C>>,
    timers: Timers,
    scratch: C::Scratch,
    schedule: S,
    /// The schedule's requests, encoded, as far as they have been sent.
    prepared: Vec<C::Prepared>,
    tally: Tally,
    /// Index of the address that connections go to.
    address: usize,
    /// Requests in flight over all lanes.
    in_flight: usize,
    failed: Vec<(Token, FailureKind)>,
    /// No request or connection attempt exceeds the timeout before this.
    next_sweep: Instant,
    /// Why nothing more can be done.
    hopeless: Option<LoadError>,
    reported: (u64, u64),
}

/// Connections in a row without a response after which a lane gives up, and the pause before the second of them; each
/// later pause is twice as long. Together 300 ms.
const FRUITLESS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Refused requests in a row, without a response between them, after which a connection is given up. More than a server
/// refuses because it had not yet said how many streams it allows.
const REFUSALS: u32 = 1000;

/// Longest time without a look at the stop flag.
const TICK: Duration = Duration::from_millis(100);

/// How long requests in flight at the end of a timed run may go on.
const GRACE: Duration = Duration::from_secs(1);

impl<'a, C: Channel, S: Schedule> Worker<'a, C, S> {
    pub(crate) fn new(site: &'a Site<C>, lanes: usize, schedule: S) -> io::Result<Self> {
        let now = Instant::now();
        Ok(Worker {
            site,
            poll: Poll::new()?,
            lanes: (0..lanes).map(|_| Lane::new(site.streams, now)).collect(),
            timers: Timers::new(lanes),
            scratch: C::Scratch::default(),
            schedule,
            prepared: Vec::new(),
            tally: Tally::default(),
            address: 0,
            in_flight: 0,
            failed: Vec::new(),
            next_sweep: now + site.timeout,
            hopeless: None,
            reported: (0, 0),
        })
    }

    /// Runs until the schedule has nothing more, the window ends or the run is stopped.
    pub(crate) fn run(mut self) -> Result<(Tally, S), LoadError> {
        let mut events = Events::with_capacity(1024);
        let mut due = Vec::new();
        let mut now = Instant::now();
        let mut window = self.site.window;
        let mut grace_ends = None;
        self.tally.first = Some(now);
        self.dispatch(now);
        while !self.is_finished() && self.hopeless.is_none() {
            let wake = [self.timers.earliest(), window.begins, window.ends, grace_ends, Some(self.next_sweep)];
            let wake = wake.into_iter().flatten().min().map_or(TICK, |wake| wake.saturating_duration_since(now));
            match self.poll.poll(&mut events, Some(wake.min(TICK))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in &events {
                self.on_ready(event.token().0, event.is_read_closed() || event.is_error());
            }
            now = Instant::now();
            self.timers.expire(now, &mut due);
            for lane in due.drain(..) {
                self.on_timer(lane, now);
            }
            if now >= self.next_sweep {
                self.sweep(now);
            }
            if S::SHARED {
                self.dispatch(now);
            }
            self.report();
            if window.begins.take_if(|begins| *begins <= now).is_some() {
                self.lanes.iter_mut().for_each(|lane| lane.collect(&mut self.tally));
                self.tally.restart(now, self.in_flight as u64);
            }
            if window.ends.take_if(|ends| *ends <= now).is_some() {
                self.schedule.stop();
                self.tally.last = Some(now);
                grace_ends = Some(now + GRACE);
            }
            if grace_ends.is_some_and(|end| end <= now) || self.site.watch.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        self.finish(now)
    }

    fn finish(mut self, now: Instant) -> Result<(Tally, S), LoadError> {
        for index in 0..self.lanes.len() {
            self.part(index, now);
        }
        self.report();
        match self.hopeless {
            Some(error) => Err(error),
            None => Ok((self.tally, self.schedule)),
        }
    }

    /// Whether nothing is in flight and no lane that works has anything to do.
    fn is_finished(&self) -> bool {
        self.in_flight == 0
            && !self
                .lanes
                .iter()
                .enumerate()
                .any(|(index, lane)| !lane.given_up && self.schedule.wants_connection(index, 0))
    }

    /// Tells the outside how far the run has come.
    fn report(&mut self) {
        let now = (self.tally.requests.done, self.tally.requests.failed);
        self.site.watch.done.fetch_add(now.0.saturating_sub(self.reported.0), Ordering::Relaxed);
        self.site.watch.failed.fetch_add(now.1.saturating_sub(self.reported.1), Ordering::Relaxed);
        self.reported = now;
    }

    /// Gives work to every lane that has room, and connections to lanes that need one.
    fn dispatch(&mut self, now: Instant) {
        let mut connecting = self.lanes.iter().filter(|lane| lane.is_connecting() || lane.waiting).count();
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if lane.ready {
                self.serve(index, now);
            } else if lane.channel.is_none()
                && !lane.waiting
                && !lane.given_up
                && self.schedule.wants_connection(index, connecting)
            {
                self.open(index, now);
                connecting += 1;
            }
        }
    }

    fn open(&mut self, index: usize, now: Instant) {
        self.tally.connections.opened += 1;
        let address = self.site.addresses[self.address];
        let lane = &mut self.lanes[index];
        match C::open(&self.site.settings, address, self.poll.registry(), EventToken(index), now) {
            Ok(channel) => {
                lane.occupy(channel, self.address, now);
                // QUIC's first packet goes out now; a stream has to wait for its socket.
                self.serve(index, now);
            }
            Err(broken) => {
                lane.waiting = false;
                self.down(index, broken, now);
            }
        }
    }

    fn on_ready(&mut self, index: usize, closed: bool) {
        let result = self.listen(index, |channel, scratch, sink| channel.receive(scratch, closed, sink));
        if let Some((result, now)) = result {
            self.settle(index, result, now);
        }
    }

    fn on_timer(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        if lane.channel.is_none() {
            if std::mem::take(&mut lane.waiting) && self.schedule.wants_connection(index, 0) {
                self.open(index, now);
            }
            return;
        }
        if let Some((result, _)) = self.listen(index, |channel, _, sink| channel.on_timer(now, sink)) {
            self.settle(index, result, now);
        }
    }

    /// Lets a lane's channel speak. Gives its verdict and the time of the last bytes that it took.
    fn listen(
        &mut self,
        index: usize,
        speak: impl FnOnce(&mut C, &mut C::Scratch, &mut Recorder<'_, S>) -> Result<(), Broken>,
    ) -> Option<(Result<(), Broken>, Instant)> {
        let lane = &mut self.lanes[index];
        let channel = lane.channel.as_mut()?;
        let before = lane.slots.in_flight();
        let mut recorder = Recorder {
            slots: &mut lane.slots,
            opened: lane.opened,
            answered: &mut lane.answered,
            tally: &mut self.tally,
            schedule: &mut self.schedule,
            failed: &mut self.failed,
            now: Instant::now(),
        };
        let result = speak(channel, &mut self.scratch, &mut recorder);
        let now = recorder.now;
        self.in_flight -= before - lane.slots.in_flight();
        Some((result, now))
    }

    /// Draws the conclusions from what a channel said, and lets it go on.
    fn settle(&mut self, index: usize, result: Result<(), Broken>, now: Instant) {
        self.check_ready(index, now);
        self.settle_failures(index, result.as_ref().err(), now);
        match result {
            Err(broken) => self.down(index, broken, now),
            Ok(()) if self.lanes[index].slots.refusals >= REFUSALS => self.down(index, Broken::Refusing, now),
            Ok(()) => self.serve(index, now),
        }
    }

    fn settle_failures(&mut self, index: usize, broken: Option<&Broken>, now: Instant) {
        let mut failed = std::mem::take(&mut self.failed);
        for (token, kind) in failed.drain(..) {
            match (kind, broken) {
                (FailureKind::Refused, _) => self.take_back(index, token),
                (FailureKind::Reset(code), _) => {
                    self.give_up_request(index, token, &format!("stream reset with error code {code:#x}"), now);
                }
                (FailureKind::Malformed, _) => self.give_up_request(index, token, "malformed response", now),
                (FailureKind::Truncated, Some(broken)) => {
                    self.give_up_request(index, token, &broken.to_string(), now);
                }
                (FailureKind::Truncated, None) => self.give_up_request(index, token, "response cut short", now),
            }
        }
        self.failed = failed;
    }

    fn check_ready(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        let Some(channel) = lane.channel.as_ref().filter(|channel| !lane.ready && channel.is_ready()) else { return };
        lane.ready = true;
        let connections = &mut self.tally.connections;
        connections.completed += 1;
        self.tally.connect_time.record_us(micros(now - lane.opened));
        connections.handshakes += u64::from(self.site.protocol.is_encrypted());
        connections.resumed += u64::from(channel.is_resumed());
    }

    /// Refills a connection and sends what it has to say.
    fn serve(&mut self, index: usize, now: Instant) {
        self.refill(index, now);
        let lane = &mut self.lanes[index];
        let Some(channel) = &mut lane.channel else { return };
        if let Err(broken) = channel.flush(&mut self.scratch, now) {
            return self.down(index, broken, now);
        }
        let idle = lane.slots.in_flight() == 0;
        // A lane with requests of its own is done when they are; one that shares them may get more.
        let done = !S::SHARED && !self.schedule.wants_connection(index, 0);
        if lane.ready && idle && (channel.is_draining() || done) {
            return self.down(index, Broken::Ended, now);
        }
        let timer = channel.timer();
        self.timers.set(index, timer);
    }

    fn refill(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        let Some(channel) = lane.channel.as_mut().filter(|_| lane.ready) else { return };
        while lane.slots.has_free() && channel.has_room() {
            let Some(job) = self.schedule.next(index, now) else { break };
            while self.prepared.len() <= job.request {
                self.prepared.push(C::Prepared::from(self.schedule.request(self.prepared.len())));
            }
            let token = lane.slots.take(job, now);
            channel.start(token, &self.prepared[job.request]);
            self.in_flight += 1;
            self.tally.requests.started += 1;
            self.tally.queue_time.record_us(micros(now - job.due));
            if !std::mem::replace(&mut lane.used, true) {
                self.tally.connections.used += 1;
            }
        }
        let connections = &mut self.tally.connections;
        connections.max_streams = connections.max_streams.max(lane.slots.in_flight() as u32);
    }

    /// A request that the server certainly did not process goes back to the schedule.
    fn take_back(&mut self, index: usize, token: Token) {
        let slots = &mut self.lanes[index].slots;
        slots.refusals += 1;
        if let Some(slot) = slots.release(token) {
            self.in_flight -= 1;
            self.tally.requests.started = self.tally.requests.started.saturating_sub(1);
            self.schedule.put_back(index, slot.job);
        }
    }

    fn give_up_request(&mut self, index: usize, token: Token, reason: &str, now: Instant) {
        if let Some(slot) = self.lanes[index].slots.release(token) {
            self.in_flight -= 1;
            self.tally.errored(reason);
            self.schedule.end(slot.job.request, Outcome::Failed, now);
        }
    }

    /// A connection is over. Its place gets another one if there is work for it and hope.
    fn down(&mut self, index: usize, broken: Broken, now: Instant) {
        let reason = broken.to_string();
        let live: Vec<Token> = self.lanes[index].slots.live().map(|(token, _)| token).collect();
        for token in live {
            self.give_up_request(index, token, &reason, now);
        }
        let was_ready = self.part(index, now);
        if !was_ready {
            self.tally.refusal = Some(reason.clone());
        }
        if let Broken::WrongProtocol(alpn) = &broken {
            let protocol = self.site.protocol;
            self.hopeless = Some(LoadError::WrongProtocol {
                host: self.site.host.clone(),
                protocol,
                offered: String::from_utf8_lossy(protocol.alpn().unwrap_or_default()).into_owned(),
                chosen: chosen(alpn.as_deref()),
            });
            return;
        }
        if !self.schedule.wants_connection(index, 0) {
            return;
        }
        let lane = &mut self.lanes[index];
        let mut pause = Duration::ZERO;
        if lane.answered {
            lane.fruitless = 0;
        } else if !was_ready && self.tally.connections.completed == 0 && self.next_address(index) {
            // Another address has not had its chance yet.
        } else {
            let lane = &mut self.lanes[index];
            lane.fruitless += 1;
            if lane.fruitless >= FRUITLESS || (!was_ready && broken.is_final()) {
                return self.give_up_lane(index, &format!("no connection: {reason}"));
            }
            pause = PAUSE * (1 << (lane.fruitless - 1));
        }
        self.lanes[index].waiting = true;
        self.timers.set(index, Some(now + pause));
    }

    /// Closes a lane's connection and writes down what is left to know of it. Gives whether it was ready.
    fn part(&mut self, index: usize, now: Instant) -> bool {
        let lane = &mut self.lanes[index];
        if let Some(channel) = &mut lane.channel {
            channel.close(&mut self.scratch, now);
            if lane.ready {
                self.tally.description = Some(channel.describe());
            }
        }
        lane.collect(&mut self.tally);
        lane.channel = None;
        self.timers.set(index, None);
        std::mem::take(&mut lane.ready)
    }

    /// Whether there is another address to try than the one that this lane has failed with.
    fn next_address(&mut self, index: usize) -> bool {
        if self.lanes[index].address == self.address && self.address + 1 < self.site.addresses.len() {
            self.address += 1;
        }
        self.lanes[index].address < self.address
    }

    fn give_up_lane(&mut self, index: usize, reason: &str) {
        self.lanes[index].given_up = true;
        let shared = S::SHARED && !self.lanes.iter().all(|lane| lane.given_up);
        match if shared { 0 } else { self.schedule.abandon(index) } {
            // Nobody knows how many requests a timed run would have made here; that it made none must show.
            0 => self.tally.blame(reason, 1),
            lost => self.tally.lost(lost, reason),
        }
    }

    /// Gives up what has exceeded the timeout, and finds out when to look again: what starts after this sweep cannot
    /// exceed it before `now + timeout`.
    fn sweep(&mut self, now: Instant) {
        let timeout = self.site.timeout;
        let mut next = now + timeout;
        let mut late = Vec::new();
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if lane.is_connecting() {
                if lane.opened + timeout <= now {
                    self.down(index, Broken::TimedOut, now);
                } else {
                    next = next.min(lane.opened + timeout);
                }
                continue;
            }
            for (token, sent) in lane.slots.live() {
                if sent + timeout <= now {
                    late.push(token);
                } else {
                    next = next.min(sent + timeout);
                }
            }
            if !late.is_empty() {
                late.drain(..).for_each(|token| self.time_out(index, token, now));
                self.serve(index, now);
            }
        }
        self.next_sweep = next;
    }

    fn time_out(&mut self, index: usize, token: Token, now: Instant) {
        let lane = &mut self.lanes[index];
        if let (Some(slot), Some(channel)) = (lane.slots.release(token), &mut lane.channel) {
            channel.cancel(token);
            self.in_flight -= 1;
            self.tally.timed_out();
            self.schedule.end(slot.job.request, Outcome::Failed, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use wire::{Request, h1};

    use super::*;
    use crate::channel::stream::{StreamChannel, StreamSettings};
    use crate::schedule::ClosedLoop;

    #[test]
    fn the_next_address_is_tried_when_one_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
            }
        });
        let site = Site::<StreamChannel<h1::Connection>> {
            settings: StreamSettings { tls: None, http: Arc::new(|| h1::Connection::new(h1::Options::default())) },
            host: "host".to_owned(),
            protocol: Protocol::H1c,
            addresses: vec![closed, closed, open],
            timeout: Duration::from_secs(30),
            streams: 1,
            window: Window::default(),
            watch: Arc::new(Watch::default()),
        };
        let request = Request {
            method: "GET".to_owned(),
            scheme: "http".to_owned(),
            authority: "host".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        };
        let schedule = ClosedLoop::new(request, vec![Some(2), Some(2)]);
        let (tally, _) = Worker::new(&site, 2, schedule).unwrap().run().unwrap();
        assert_eq!((tally.requests.succeeded, tally.requests.failed), (4, 0));
        assert_eq!((tally.connections.completed, tally.connections.opened), (4, 8));
        assert_eq!(site.watch.done.load(Ordering::Relaxed), 4);
    }
}
