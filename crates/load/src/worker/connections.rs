use std::time::{Duration, Instant};

use mio::Token as EventToken;
use wire::Token;

use super::Worker;
use crate::LoadError;
use crate::channel::{Broken, Channel, in_words};
use crate::schedule::Schedule;
use crate::tally::micros;

/// Connections in a row without a response after which a lane gives up that has never seen the server answer, and the
/// pause before the second of them; each later pause is twice as long. Together 300 ms.
const FRUITLESS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// The longest pause, of a server that has answered before and may come back.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How connections come and go.
impl<C: Channel, S: Schedule> Worker<'_, C, S> {
    /// Opens a connection as soon as the rate of connections allows it.
    pub(super) fn open_in_turn(&mut self, index: usize, now: Instant) {
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
    pub(super) fn open(&mut self, index: usize, now: Instant) {
        if self.connecting >= C::AT_ONCE {
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
    pub(super) fn open_queued(&mut self, now: Instant) {
        while self.connecting < C::AT_ONCE
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

    pub(super) fn check_ready(&mut self, index: usize, now: Instant) {
        let lane = &mut self.lanes[index];
        let Some(channel) = lane.channel.as_ref().filter(|channel| !lane.ready && channel.is_ready()) else { return };
        lane.ready = true;
        lane.busy = now;
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

    /// A connection is over. Its place gets another one if there is work for it and hope.
    pub(super) fn down(&mut self, index: usize, broken: Broken, now: Instant) {
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
            lane.fruitless_since = now;
        } else if !was_ready && self.tally.connections.completed == 0 && self.next_address(index) {
            // Another address has not had its chance yet.
        } else {
            let has_answered = self.has_answered();
            let lane = &mut self.lanes[index];
            lane.fruitless += 1;
            let give_up = match has_answered {
                true => lane.fruitless_since + self.site.connect_timeout <= now,
                false => lane.fruitless >= FRUITLESS || (!was_ready && broken.is_final()),
            };
            pause = LONGEST_PAUSE.min(PAUSE * (1 << (lane.fruitless - 1).min(10)));
            let reason = match was_ready {
                true => format!("no response over a whole connection: {reason}"),
                false => format!("no connection: {reason}"),
            };
            if give_up {
                return self.give_up_lane(index, &reason);
            }
            if !was_ready && has_answered {
                self.fail_unsent(index, &reason, now);
            }
        }
        let at = self.turn(now + pause);
        self.open_later(index, at);
    }

    /// A lane needs no connection for now.
    pub(super) fn vacate(&mut self, index: usize) {
        if S::SHARED {
            self.vacant.push(index);
        }
    }

    /// Closes a lane's connection and writes down what is left to know of it. Gives whether it was ready.
    pub(super) fn part(&mut self, index: usize, now: Instant) -> bool {
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

    /// Whether the server has answered anything yet.
    fn has_answered(&self) -> bool {
        self.earlier.latency.count() + self.tally.latency.count() > 0
    }

    /// No request will go over this lane again.
    pub(super) fn give_up_lane(&mut self, index: usize, reason: &str) {
        self.lanes[index].given_up = true;
        let shared = S::SHARED && !self.lanes.iter().all(|lane| lane.given_up);
        match if shared { 0 } else { self.schedule.abandon(index) } {
            // Nobody knows how many requests a timed run would have made here; that it made none must show.
            0 => self.tally.blame(reason, 1),
            lost => self.tally.lost(lost, reason),
        }
    }
}
