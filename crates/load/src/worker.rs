use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use measure::{Histogram, Protocol};
use mio::{Events, Poll, Token as EventToken};
use nix::sys::prctl::set_timerslack;
use wire::{FailureKind, Token};

use crate::LoadError;
use crate::alarm::Alarm;
use crate::channel::socket::Address;
use crate::channel::{Broken, Channel, in_words};
use crate::lane::{Lane, Recorder, Slot};
use crate::moderation::Moderation;
use crate::plan::Expectation;
use crate::request_log::{LogLines, RequestLog};
use crate::schedule::{Job, Outcome, Schedule};
use crate::tally::{TIMED_OUT, Tally, micros};
use crate::timers::Timers;

/// What all workers of a client share.
pub(crate) struct Site<C: Channel> {
    pub settings: C::Settings,
    /// Host and port, for messages.
    pub host: String,
    pub protocol: Protocol,
    pub addresses: Vec<Address>,
    pub timeout: Duration,
    pub connect_timeout: Duration,
    pub streams: usize,
    pub keep_alive: bool,
    /// Time between two connection attempts of a worker, at least.
    pub connection_gap: Duration,
    pub expect: Expectation,
    pub window: Window,
    pub request_log: Option<Arc<RequestLog>>,
    pub watch: Arc<Watch>,
}

impl<C: Channel> Site<C> {
    /// The same for a client that has made no connection yet.
    pub(crate) fn of_another_client(&self) -> Site<C> {
        Site {
            settings: C::cold(&self.settings),
            host: self.host.clone(),
            addresses: self.addresses.clone(),
            expect: self.expect.clone(),
            request_log: self.request_log.clone(),
            watch: Arc::clone(&self.watch),
            ..*self
        }
    }
}

/// When to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// When the run, its warm-up included, starts.
    pub starts: Instant,
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
    /// Requests in flight.
    pub in_flight: AtomicU64,
}

/// What a worker measured in one second of the run, or in what was left of one at its end.
#[derive(Debug)]
pub(crate) struct Second {
    /// Which second, from 0.
    pub number: u64,
    /// How much of it passed before the run ended.
    pub length: Duration,
    pub done: u64,
    pub failed: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Latency since the intended start where there is one, else since the sending.
    pub latency: Histogram,
}

/// One event loop with its connections.
///
/// Sockets are registered once, edge-triggered. When one has something to say, the worker takes everything, refills
/// the connection with requests, and writes once.
pub(crate) struct Worker<'a, C: Channel, S> {
    site: &'a Site<C>,
    poll: Poll,
    /// Wakes the poll more precisely than its own timeout does.
    alarm: Alarm,
    lanes: Vec<Lane<C>>,
    /// Lanes that may have room, for schedules that are shared.
    places: VecDeque<usize>,
    /// Lanes without a connection and without a plan to get one, for schedules that are shared.
    vacant: Vec<usize>,
    timers: Timers,
    scratch: C::Scratch,
    schedule: S,
    /// The schedule's requests, encoded, as far as they have been sent.
    prepared: Vec<C::Prepared>,
    /// What was measured in the present second, and before it.
    tally: Tally,
    earlier: Tally,
    second: u64,
    log: Option<LogLines<'a>>,
    /// Index of the address that connections go to.
    address: usize,
    /// When the next connection may be opened.
    next_open: Instant,
    /// Connections that are being made, and lanes that wait until there are fewer.
    connecting: usize,
    queue: VecDeque<usize>,
    /// Requests in flight over all lanes.
    in_flight: usize,
    failed: Vec<(Token, FailureKind)>,
    /// No request or connection attempt exceeds the timeout before this.
    next_sweep: Instant,
    /// Why nothing more can be done.
    hopeless: Option<LoadError>,
    reported: Reported,
}

/// What the outside has been told.
#[derive(Default)]
struct Reported {
    done: u64,
    failed: u64,
    in_flight: u64,
}

/// Connections in a row without a response after which a lane gives up, and the pause before the second of them; each
/// later pause is twice as long. Together 300 ms.
const FRUITLESS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Refused requests in a row, without a response between them, after which a connection is given up. More than a server
/// refuses because it had not yet said how many streams it allows.
const REFUSALS: u32 = 1000;

/// Connections that a worker makes at once; others wait. A thousand first packets in one burst are more than the receive
/// buffers of servers hold, and each that is lost costs a second.
const AT_ONCE: usize = 100;

/// Longest time without a look at the stop flag.
const TICK: Duration = Duration::from_millis(100);

/// How long requests in flight at the end of a timed run may go on.
const GRACE: Duration = Duration::from_secs(1);

impl<'a, C: Channel, S: Schedule> Worker<'a, C, S> {
    pub(crate) fn new(site: &'a Site<C>, lanes: usize, schedule: S) -> io::Result<Self> {
        let now = Instant::now();
        let poll = Poll::new()?;
        Ok(Worker {
            site,
            alarm: Alarm::new(poll.registry())?,
            poll,
            lanes: (0..lanes).map(|_| Lane::new(site.streams, now)).collect(),
            places: VecDeque::new(),
            vacant: if S::SHARED { (0..lanes).rev().collect() } else { Vec::new() },
            timers: Timers::new(lanes),
            scratch: C::Scratch::default(),
            schedule,
            prepared: Vec::new(),
            tally: Tally::default(),
            earlier: Tally::default(),
            second: 0,
            log: site.request_log.as_deref().map(RequestLog::lines),
            address: 0,
            next_open: now,
            connecting: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            failed: Vec::new(),
            next_sweep: now + site.timeout.min(site.connect_timeout),
            hopeless: None,
            reported: Reported::default(),
        })
    }

    /// Runs until the schedule has nothing more, the window ends or the run is stopped. `tell` gets what was measured in
    /// each second.
    pub(crate) fn run(mut self, tell: &mut dyn FnMut(Second)) -> Result<(Tally, S), LoadError> {
        let mut events = Events::with_capacity(1024);
        let mut lanes = Vec::new();
        let mut now = Instant::now();
        let mut window = self.site.window;
        let mut grace_ends = None;
        let mut moderation = self.moderation(now);
        self.tally.first = Some(now);
        if !S::SHARED {
            lanes.extend(0..self.lanes.len());
        }
        loop {
            self.schedule.due(now, &mut lanes);
            for lane in lanes.drain(..) {
                self.attend(lane, now);
            }
            self.dispatch(now);
            self.open_queued(now);
            let ended = self.report(now);
            if self.is_finished() || self.hopeless.is_some() {
                break;
            }
            if let Some(pause) = moderation.as_mut().and_then(|it| it.pause(now, ended, self.in_flight)) {
                thread::sleep(pause);
            }
            let second_ends = self.second_ends();
            let wake = [self.timers.earliest(), window.begins, window.ends, grace_ends, Some(self.next_sweep)];
            let wake = wake.into_iter().flatten().chain([second_ends, now + TICK]).min();
            self.alarm.set(self.schedule.wake().filter(|at| *at > now), now)?;
            match self.poll.poll(&mut events, wake.map(|wake| wake.saturating_duration_since(now))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            for event in events.iter().filter(|event| event.token() != Alarm::TOKEN) {
                self.on_ready(event.token().0, event.is_read_closed() || event.is_error());
            }
            now = Instant::now();
            self.timers.expire(now, &mut lanes);
            for lane in lanes.drain(..) {
                self.on_timer(lane, now);
            }
            if now >= self.next_sweep {
                self.sweep(now);
            }
            if now >= second_ends {
                self.report(now);
                self.end_second(now, tell);
            }
            if window.begins.take_if(|begins| *begins <= now).is_some() {
                self.report(now);
                self.begin_measurement(now);
            }
            if window.ends.take_if(|ends| *ends <= now).is_some() {
                self.schedule.stop(now);
                self.tally.last = Some(now);
                grace_ends = Some(now + if S::TIMED { self.site.timeout } else { GRACE });
            }
            if grace_ends.is_some_and(|end| end <= now) || self.site.watch.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        self.finish(now, tell)
    }

    fn finish(mut self, now: Instant, tell: &mut dyn FnMut(Second)) -> Result<(Tally, S), LoadError> {
        let in_flight = self.in_flight;
        for index in 0..self.lanes.len() {
            self.part(index, now);
        }
        // After a stop from outside, what was due until then is dropped; at the end of a window it has been before.
        self.schedule.stop(now);
        self.report(now);
        self.in_flight = in_flight;
        self.end_second(now, tell);
        match self.hopeless {
            Some(error) => Err(error),
            None => Ok((self.earlier, self.schedule)),
        }
    }

    /// Whether nothing is in flight, nothing will be due, and no lane that works has anything to do.
    fn is_finished(&self) -> bool {
        self.in_flight == 0
            && self.schedule.wake().is_none()
            && !self
                .lanes
                .iter()
                .enumerate()
                .any(|(index, lane)| !lane.given_up && self.schedule.wants_connection(index, 0))
    }

    /// Responses may gather where the only wish is to keep several requests per connection in flight.
    fn moderation(&self, now: Instant) -> Option<Moderation> {
        if S::SHARED || self.site.streams == 1 {
            return None;
        }
        // Otherwise the kernel makes every pause some 50 us longer.
        set_timerslack(1).is_ok().then(|| Moderation::new(now))
    }

    /// Tells the outside how far the run has come. Gives how many requests have ended since the last time.
    fn report(&mut self, now: Instant) -> u64 {
        self.tally.requests.dropped += self.schedule.take_dropped(now);
        let Watch { done, failed, in_flight, .. } = &*self.site.watch;
        let requests = &self.tally.requests;
        let ended = requests.done - self.reported.done;
        done.fetch_add(ended, Ordering::Relaxed);
        failed.fetch_add(requests.failed - self.reported.failed, Ordering::Relaxed);
        // Wraps round when it has become less, and so does the sum.
        in_flight.fetch_add((self.in_flight as u64).wrapping_sub(self.reported.in_flight), Ordering::Relaxed);
        self.reported = Reported { done: requests.done, failed: requests.failed, in_flight: self.in_flight as u64 };
        ended
    }

    fn second_ends(&self) -> Instant {
        self.site.window.starts + Duration::from_secs(self.second + 1)
    }

    /// Puts the present second to the earlier ones.
    fn end_second(&mut self, now: Instant, tell: &mut dyn FnMut(Second)) {
        let passed = now.saturating_duration_since(self.site.window.starts);
        let mut tally = std::mem::take(&mut self.tally);
        self.reported = Reported { in_flight: self.reported.in_flight, ..Reported::default() };
        let latency = if S::TIMED { &tally.intended_latency } else { &tally.latency };
        tell(Second {
            number: self.second,
            length: passed.saturating_sub(Duration::from_secs(self.second)).min(Duration::from_secs(1)),
            done: tally.requests.done,
            failed: tally.requests.failed,
            in_flight: self.in_flight as u64,
            latency: latency.clone(),
        });
        self.second = passed.as_secs().max(self.second + 1);
        self.lanes.iter_mut().for_each(|lane| lane.collect(&mut tally));
        self.earlier.merge(tally);
    }

    /// The warm-up is over.
    fn begin_measurement(&mut self, now: Instant) {
        self.lanes.iter_mut().for_each(|lane| lane.collect(&mut self.tally));
        self.earlier.merge(std::mem::take(&mut self.tally));
        self.earlier.restart(now, self.in_flight as u64);
        self.reported = Reported { in_flight: self.reported.in_flight, ..Reported::default() };
    }

    /// Something is due on a lane that has requests of its own.
    fn attend(&mut self, index: usize, now: Instant) {
        let lane = &self.lanes[index];
        if lane.channel.is_some() {
            self.serve(index, now);
        } else if !lane.waiting && !lane.given_up && self.schedule.wants_connection(index, 0) {
            self.open_in_turn(index, now);
        }
    }

    /// Gives the requests of a shared schedule to lanes that have room, and connections to lanes that need one.
    fn dispatch(&mut self, now: Instant) {
        if !S::SHARED {
            return;
        }
        let mut touched = Vec::new();
        while let Some(index) = if S::SPREAD { self.places.pop_front() } else { self.places.pop_back() } {
            self.lanes[index].listed = false;
            if !self.has_room(index) {
                continue;
            }
            let job = self.schedule.next(index, now);
            if let Some(job) = job {
                self.start(index, job, now);
                touched.push(index);
            }
            self.list(index);
            if job.is_none() {
                break;
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for index in touched {
            self.send(index, now);
        }
        if self.vacant.last().is_some_and(|index| self.schedule.wants_connection(*index, 0)) {
            let mut connecting = self.lanes.iter().filter(|lane| lane.is_connecting() || lane.waiting).count();
            while let Some(index) = self.vacant.pop_if(|index| self.schedule.wants_connection(*index, connecting)) {
                self.open_in_turn(index, now);
                connecting += 1;
            }
        }
    }

    /// Whether a request can start on a lane.
    fn has_room(&mut self, index: usize) -> bool {
        let lane = &mut self.lanes[index];
        let spent = !self.site.keep_alive && lane.requests > 0;
        let Some(channel) = &mut lane.channel else { return false };
        (lane.ready || channel.takes_early_data()) && !spent && lane.slots.has_free() && channel.has_room()
    }

    /// Notes that a lane may have room for requests of a shared schedule.
    fn list(&mut self, index: usize) {
        if S::SHARED && !self.lanes[index].listed {
            self.lanes[index].listed = true;
            self.places.push_back(index);
        }
    }

    /// Opens a connection as soon as the rate of connections allows it.
    fn open_in_turn(&mut self, index: usize, now: Instant) {
        match self.turn(now) {
            at if at <= now => self.open(index, now),
            at => self.open_later(index, at),
        }
    }

    /// The first instant, not before `earliest`, at which a connection may be opened; it is taken by that.
    fn turn(&mut self, earliest: Instant) -> Instant {
        let at = self.next_open.max(earliest);
        self.next_open = at + self.site.connection_gap;
        at
    }

    fn open_later(&mut self, index: usize, at: Instant) {
        self.lanes[index].waiting = true;
        self.timers.set(index, Some(at));
    }

    /// Opens a connection, or lets it wait for one that is being made.
    fn open(&mut self, index: usize, now: Instant) {
        if self.connecting >= AT_ONCE {
            self.lanes[index].waiting = true;
            return self.queue.push_back(index);
        }
        self.connecting += 1;
        self.tally.connections.opened += 1;
        let address = &self.site.addresses[self.address];
        let lane = &mut self.lanes[index];
        match C::open(&self.site.settings, address, self.poll.registry(), EventToken(index), now) {
            Ok(channel) => {
                lane.occupy(channel, self.address, now);
                // QUIC's first packet goes out now; a stream has to wait for its socket.
                self.serve(index, now);
            }
            Err(broken) => {
                lane.waiting = false;
                self.connecting -= 1;
                self.down(index, broken, now);
            }
        }
    }

    /// Opens connections that have waited for others to be made.
    fn open_queued(&mut self, now: Instant) {
        while self.connecting < AT_ONCE
            && let Some(index) = self.queue.pop_front()
        {
            self.lanes[index].waiting = false;
            if self.schedule.wants_connection(index, 0) {
                self.open(index, now);
            } else {
                self.vacate(index);
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
            if std::mem::take(&mut lane.waiting) {
                if self.schedule.wants_connection(index, 0) {
                    self.open(index, now);
                } else {
                    self.vacate(index);
                }
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
        speak: impl FnOnce(&mut C, &mut C::Scratch, &mut Recorder<'_, 'a, S>) -> Result<(), Broken>,
    ) -> Option<(Result<(), Broken>, Instant)> {
        let lane = &mut self.lanes[index];
        let channel = lane.channel.as_mut()?;
        let before = lane.slots.in_flight();
        let mut recorder = Recorder {
            lane: index,
            slots: &mut lane.slots,
            answers: &mut lane.answers,
            tally: &mut self.tally,
            schedule: &mut self.schedule,
            expect: &self.site.expect,
            log: &mut self.log,
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
        self.connecting -= 1;
        let connections = &mut self.tally.connections;
        connections.completed += 1;
        self.tally.connect.record_us(micros(now - lane.opened));
        connections.handshakes += u64::from(self.site.protocol.is_encrypted());
        connections.resumed += u64::from(channel.is_resumed());
        match channel.early_data_accepted() {
            Some(true) => connections.early_data_accepted += 1,
            Some(false) => connections.early_data_rejected += 1,
            None => {}
        }
    }

    /// Refills a connection and sends what it has to say.
    fn serve(&mut self, index: usize, now: Instant) {
        if S::SHARED {
            self.list(index);
        } else {
            while self.has_room(index) {
                let Some(job) = self.schedule.next(index, now) else { break };
                self.start(index, job, now);
            }
        }
        self.send(index, now);
    }

    /// Starts a request on a lane that has room.
    fn start(&mut self, index: usize, job: Job, now: Instant) {
        while self.prepared.len() <= job.request {
            self.prepared.push(C::Prepared::from(self.schedule.request(self.prepared.len())));
        }
        let lane = &mut self.lanes[index];
        let Some(channel) = &mut lane.channel else { return };
        let token = lane.slots.take(job, now);
        channel.start(token, &self.prepared[job.request]);
        lane.requests += 1;
        self.in_flight += 1;
        let Tally { requests, connections, .. } = &mut self.tally;
        requests.started += 1;
        match lane.requests {
            1 => connections.used += 1,
            2 => connections.reused += 1,
            _ => {}
        }
        connections.max_streams = connections.max_streams.max(lane.slots.in_flight() as u32);
        self.tally.max_in_flight = self.tally.max_in_flight.max(self.in_flight as u64);
    }

    /// Sends what a connection has to say.
    fn send(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        let Some(channel) = &mut lane.channel else { return };
        if let Err(broken) = channel.flush(&mut self.scratch, now) {
            return self.down(index, broken, now);
        }
        let idle = lane.slots.in_flight() == 0;
        let spent = channel.is_draining() || (!self.site.keep_alive && lane.requests > 0);
        // A lane with requests of its own is done when they are; one that shares them may get more.
        let done = !S::SHARED && !self.schedule.wants_connection(index, 0);
        if lane.ready && idle && (spent || done) {
            return self.down(index, Broken::Ended, now);
        }
        let timer = channel.timer();
        self.timers.set(index, timer);
    }

    /// A request that the server certainly did not process goes back to the schedule.
    fn take_back(&mut self, index: usize, token: Token) {
        let slots = &mut self.lanes[index].slots;
        slots.refusals += 1;
        if let Some(slot) = slots.release(token) {
            self.in_flight -= 1;
            self.tally.requests.retried += 1;
            self.schedule.put_back(index, slot.job);
        }
    }

    fn give_up_request(&mut self, index: usize, token: Token, reason: &str, now: Instant) {
        if let Some(slot) = self.lanes[index].slots.release(token) {
            self.tally.errored(reason);
            self.fail(index, &slot, reason, now);
        }
    }

    /// A request that has given its slot back ended without a complete response.
    fn fail(&mut self, index: usize, slot: &Slot, reason: &str, now: Instant) {
        self.in_flight -= 1;
        if let Some(log) = &mut self.log {
            log.write(self.schedule.request(slot.job.request), index, slot, now, Some(reason));
        }
        self.schedule.end(index, slot.job.request, Outcome::Failed, now);
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
        if let Broken::WrongProtocol { offered, chosen } = broken {
            let (host, protocol) = (self.site.host.clone(), self.site.protocol);
            let chosen = in_words(chosen.as_deref());
            self.hopeless = Some(LoadError::WrongProtocol { host, protocol, offered, chosen });
            return;
        }
        if !self.schedule.wants_connection(index, 0) {
            return self.vacate(index);
        }
        let lane = &mut self.lanes[index];
        let mut pause = Duration::ZERO;
        if lane.answers > 0 {
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
        let at = self.turn(now + pause);
        self.open_later(index, at);
    }

    /// A lane needs no connection for now.
    fn vacate(&mut self, index: usize) {
        if S::SHARED {
            self.vacant.push(index);
        }
    }

    /// Closes a lane's connection and writes down what is left to know of it. Gives whether it was ready.
    fn part(&mut self, index: usize, now: Instant) -> bool {
        let lane = &mut self.lanes[index];
        if let Some(channel) = &mut lane.channel {
            channel.close(&mut self.scratch, now);
            if !lane.ready {
                self.connecting -= 1;
            } else {
                self.tally.description = Some(channel.describe());
                self.tally.add_connection(lane.answers, now - lane.opened);
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
        let Site { timeout, connect_timeout, .. } = *self.site;
        let mut next = now + timeout.min(connect_timeout);
        let mut late = Vec::new();
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            if lane.is_connecting() {
                if lane.opened + connect_timeout <= now {
                    self.down(index, Broken::TimedOut, now);
                } else {
                    next = next.min(lane.opened + connect_timeout);
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
            self.tally.timed_out();
            self.fail(index, &slot, TIMED_OUT, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use wire::{Request, h1};

    use super::*;
    use crate::channel::socket::Sockets;
    use crate::channel::stream::{StreamChannel, StreamSettings};
    use crate::schedule::{ClosedLoop, Mix};

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
            settings: StreamSettings {
                tls: None,
                http: Arc::new(|| h1::Connection::new(h1::Options::default())),
                sockets: Sockets::default(),
            },
            host: "host".to_owned(),
            protocol: Protocol::H1c,
            addresses: [closed, closed, open].map(Address::Ip).into(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(30),
            streams: 1,
            keep_alive: true,
            connection_gap: Duration::ZERO,
            expect: Expectation::default(),
            window: Window { starts: Instant::now(), begins: None, ends: None },
            request_log: None,
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
        let schedule = ClosedLoop::new(Mix::new([(request, 1.0)]), vec![Some(2), Some(2)]);
        let (tally, _) = Worker::new(&site, 2, schedule).unwrap().run(&mut |_| {}).unwrap();
        assert_eq!((tally.requests.succeeded, tally.requests.failed), (4, 0));
        assert_eq!((tally.connections.completed, tally.connections.opened), (4, 8));
        assert_eq!(site.watch.done.load(Ordering::Relaxed), 4);
    }
}
