use std::time::Instant;

use wire::Token;

use super::Worker;
use super::site::Site;
use crate::channel::{Broken, Channel};
use crate::lane::Slot;
use crate::schedule::{Job, Outcome, Schedule};
use crate::tally::{TIMED_OUT, Tally};

/// How requests go out, and how they end without a response.
impl<C: Channel, S: Schedule> Worker<'_, C, S> {
    /// Something is due on a lane that has requests of its own.
    pub(super) fn attend(&mut self, index: usize, now: Instant) {
        let lane = &self.lanes[index];
        if lane.channel.is_some() {
            self.serve(index, now);
        } else if !lane.waiting && !lane.given_up && self.schedule.wants_connection(index, 0) {
            self.open_in_turn(index, now);
        }
    }

    /// Gives the requests of a shared schedule to lanes that have room, and connections to lanes that need one.
    pub(super) fn dispatch(&mut self, now: Instant) {
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
    pub(super) fn has_room(&mut self, index: usize) -> bool {
        let lane = &mut self.lanes[index];
        let spent = !self.site.keep_alive && lane.requests > 0;
        let Some(channel) = &mut lane.channel else { return false };
        (lane.ready || channel.takes_early_data()) && !spent && lane.slots.has_free() && channel.has_room()
    }

    /// Notes that a lane may have room for requests of a shared schedule.
    pub(super) fn list(&mut self, index: usize) {
        if S::SHARED && !self.lanes[index].listed {
            self.lanes[index].listed = true;
            self.places.push_back(index);
        }
    }

    /// Refills a connection and sends what it has to say.
    pub(super) fn serve(&mut self, index: usize, now: Instant) {
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
            let request = self.schedule.request(self.prepared.len());
            self.prepared.push((C::Prepared::from(request), request.uncompressed_bytes()));
        }
        let lane = &mut self.lanes[index];
        let Some(channel) = &mut lane.channel else { return };
        let token = lane.slots.take(job, now);
        let (request, uncompressed) = &self.prepared[job.request];
        let head_bytes = channel.start(token, request);
        lane.requests += 1;
        self.in_flight += 1;
        let Tally { requests, connections, traffic, .. } = &mut self.tally;
        traffic.sent_header_bytes += u64::from(head_bytes);
        // HTTP/1.1 compresses nothing.
        let uncompressed = if self.site.protocol.multiplexes() { *uncompressed } else { head_bytes };
        traffic.sent_header_bytes_uncompressed += u64::from(uncompressed);
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
    pub(super) fn take_back(&mut self, index: usize, token: Token) {
        let slots = &mut self.lanes[index].slots;
        slots.refusals += 1;
        if let Some(slot) = slots.release(token) {
            self.in_flight -= 1;
            self.tally.requests.retried += 1;
            self.schedule.put_back(index, slot.job);
        }
    }

    pub(super) fn give_up_request(&mut self, index: usize, token: Token, reason: &str, now: Instant) {
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

    /// The connection that a request of this lane was meant for could not be made.
    pub(super) fn fail_unsent(&mut self, index: usize, reason: &str, now: Instant) {
        if S::SHARED {
            // What the schedule holds may go over another connection.
            self.tally.blame(reason, 1);
        } else if let Some(job) = self.schedule.next(index, now) {
            self.tally.requests.started += 1;
            self.tally.errored(reason);
            self.in_flight += 1;
            self.fail(index, &Slot::new(job, now), reason, now);
        }
    }

    /// Gives up what has exceeded the timeout, and finds out when to look again: what starts after this sweep cannot
    /// exceed it before `now + timeout`.
    pub(super) fn sweep(&mut self, now: Instant) {
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
            if self.is_stalled(index, now) {
                self.part(index, now);
                self.give_up_lane(index, "the server allowed no request within the timeout");
            }
        }
        self.next_sweep = next;
    }

    /// Whether a connection has had no room for a request for so long that it will have none.
    fn is_stalled(&mut self, index: usize, now: Instant) -> bool {
        let timeout = self.site.timeout;
        let lane = &mut self.lanes[index];
        let is_idle = lane.ready && lane.slots.in_flight() == 0 && lane.busy + timeout <= now;
        is_idle
            && self.schedule.wants_connection(index, 0)
            && lane.channel.as_mut().is_some_and(|channel| !channel.has_room())
    }

    fn time_out(&mut self, index: usize, token: Token, now: Instant) {
        let lane = &mut self.lanes[index];
        if let (Some(slot), Some(channel)) = (lane.slots.release(token), &mut lane.channel) {
            channel.cancel(token);
            lane.busy = now;
            self.tally.timed_out();
            self.fail(index, &slot, TIMED_OUT, now);
        }
    }
}
