//! A worker: one event loop, and the connections that it keeps busy as a schedule wants it.

mod connections;
mod requests;
mod site;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use nix::sys::prctl::set_timerslack;
use wire::{FailureKind, Token};

pub(crate) use self::site::{Second, Site, Watch, Window};
use crate::LoadError;
use crate::alarm::Alarm;
use crate::channel::{Broken, Channel};
use crate::lane::{Lane, Recorder};
use crate::moderation::Moderation;
use crate::request_log::{LogLines, RequestLog};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::timers::Timers;

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
    /// The schedule's requests, encoded, as far as they have been sent, and the uncompressed bytes of their heads.
    prepared: Vec<(C::Prepared, u32)>,
    /// What was measured in the present second, and before it.
    tally: Tally,
    earlier: Tally,
    second: u64,
    second_ends: Instant,
    /// When the outside is told next how far the run has come.
    next_report: Instant,
    /// Requests of the present second whose end the moderation has seen.
    seen: u64,
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
    /// When the window ended.
    ended: Option<Instant>,
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

/// Refused requests in a row, without a response between them, after which a connection is given up. More than a server
/// refuses because it had not yet said how many streams it allows.
const REFUSALS: u32 = 1000;

/// Time between two looks of the outside at how far the run has come.
const REPORT: Duration = Duration::from_millis(50);

/// Longest time without a look at the stop flag.
const TICK: Duration = Duration::from_millis(100);

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
            second_ends: site.window.starts + Duration::from_secs(1),
            next_report: now,
            seen: 0,
            log: site.request_log.as_deref().map(RequestLog::lines),
            address: 0,
            next_open: now,
            connecting: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            failed: Vec::new(),
            next_sweep: now + site.timeout.min(site.connect_timeout),
            ended: None,
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
            if now >= self.next_report {
                self.report(now);
                self.next_report = now + REPORT;
            }
            if self.is_finished() || self.hopeless.is_some() {
                break;
            }
            if let Some(moderation) = &mut moderation {
                let ended = self.tally.requests.done - std::mem::replace(&mut self.seen, self.tally.requests.done);
                if let Some(pause) = moderation.pause(now, ended, self.in_flight) {
                    thread::sleep(pause);
                }
            }
            let wake = [self.timers.earliest(), window.begins, window.ends, Some(self.next_sweep)];
            let wake = wake.into_iter().flatten().chain([self.second_ends, now + TICK]).min();
            self.alarm.set(self.schedule.wake().filter(|at| *at > now), now)?;
            match self.poll.poll(&mut events, wake.map(|wake| wake.saturating_duration_since(now))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            now = Instant::now();
            for event in events.iter().filter(|event| event.token() != Alarm::TOKEN) {
                self.on_ready(event.token().0, event.is_read_closed() || event.is_error(), now);
            }
            if S::SHARED {
                // Requests may have become due meanwhile.
                now = Instant::now();
            }
            self.timers.expire(now, &mut lanes);
            for lane in lanes.drain(..) {
                self.on_timer(lane, now);
            }
            if now >= self.next_sweep {
                self.sweep(now);
            }
            if now >= self.second_ends {
                self.report(now);
                self.end_second(now, tell);
            }
            if window.begins.take_if(|begins| *begins <= now).is_some() {
                self.report(now);
                self.begin_measurement(now);
            }
            if window.ends.take_if(|ends| *ends <= now).is_some() {
                // What is in flight may end, or exceed the timeout; the rate is that until now.
                self.schedule.stop(now);
                self.ended = Some(now);
                self.tally.in_time = Some(self.earlier.latency.count() + self.tally.latency.count());
            }
            if self.site.watch.stop.load(Ordering::Relaxed) {
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
        self.earlier.last = self.ended.or(self.earlier.last);
        // A request that was sent again has started once.
        let requests = &mut self.earlier.requests;
        requests.started -= requests.retried.min(requests.started);
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

    /// Tells the outside how far the run has come.
    fn report(&mut self, now: Instant) {
        self.tally.requests.dropped += self.schedule.take_dropped(now);
        let Watch { done, failed, in_flight, .. } = &*self.site.watch;
        let requests = &self.tally.requests;
        done.fetch_add(requests.done - self.reported.done, Ordering::Relaxed);
        failed.fetch_add(requests.failed - self.reported.failed, Ordering::Relaxed);
        // Wraps round when it has become less, and so does the sum.
        in_flight.fetch_add((self.in_flight as u64).wrapping_sub(self.reported.in_flight), Ordering::Relaxed);
        self.reported = Reported { done: requests.done, failed: requests.failed, in_flight: self.in_flight as u64 };
    }

    /// Puts the present second to the earlier ones.
    fn end_second(&mut self, now: Instant, tell: &mut dyn FnMut(Second)) {
        let passed = now.saturating_duration_since(self.site.window.starts);
        let mut tally = std::mem::take(&mut self.tally);
        self.reported = Reported { in_flight: self.reported.in_flight, ..Reported::default() };
        self.seen = 0;
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
        self.second_ends = self.site.window.starts + Duration::from_secs(self.second + 1);
        self.lanes.iter_mut().for_each(|lane| lane.collect(&mut tally));
        self.earlier.merge(tally);
    }

    /// The warm-up is over.
    fn begin_measurement(&mut self, now: Instant) {
        self.lanes.iter_mut().for_each(|lane| lane.collect(&mut self.tally));
        self.earlier.merge(std::mem::take(&mut self.tally));
        self.earlier.restart(now, self.in_flight as u64);
        self.reported = Reported { in_flight: self.reported.in_flight, ..Reported::default() };
        self.seen = 0;
    }

    fn on_ready(&mut self, index: usize, closed: bool, now: Instant) {
        let result = self.listen(index, now, |channel, scratch, sink| channel.receive(scratch, closed, sink));
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
        if let Some((result, _)) = self.listen(index, now, |channel, _, sink| channel.on_timer(now, sink)) {
            self.settle(index, result, now);
        }
    }

    /// Lets a lane's channel speak. Gives its verdict and the time of the last bytes that it took.
    fn listen(
        &mut self,
        index: usize,
        now: Instant,
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
            now,
        };
        let result = speak(channel, &mut self.scratch, &mut recorder);
        let now = recorder.now;
        if lane.slots.in_flight() < before {
            lane.busy = now;
        }
        self.in_flight -= before - lane.slots.in_flight();
        Some((result, now))
    }

    /// Draws the conclusions from what a channel said, and lets it go on.
    fn settle(&mut self, index: usize, result: Result<(), Broken>, now: Instant) {
        self.check_ready(index, now);
        let lane = &self.lanes[index];
        if let Err(broken @ (Broken::Http(_) | Broken::Tls(_))) = &result
            && lane.ready
            && lane.slots.in_flight() == 0
        {
            // No request fails by this, and it must show all the same.
            self.tally.blame(&broken.to_string(), 1);
        }
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
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::Arc;

    use measure::Protocol;
    use wire::{Request, h1};

    use super::*;
    use crate::Expectation;
    use crate::channel::socket::Address;
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
