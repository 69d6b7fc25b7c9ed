use std::time::{Duration, Instant};

use wire::Request;

use super::arrivals::ArrivalTimes;
use super::{Job, Mix, Schedule};

/// Requests are due at times that do not depend on the responses. What finds no place waits; what has waited for too
/// long is dropped and counted.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    mix: Mix,
    times: ArrivalTimes,
    start: Instant,
    /// When the first arrival that has not been taken is due; `None` after the last.
    next: Option<Instant>,
    /// Arrivals that may still be taken; `None` for all.
    left: Option<u64>,
    /// Longest wait for a place.
    patience: Duration,
    put_back: Vec<Job>,
    dropped: u64,
}

impl OpenLoop {
    /// At most `limit` arrivals, from `start` on.
    pub(crate) fn new(
        mix: Mix,
        mut times: ArrivalTimes,
        start: Instant,
        limit: Option<u64>,
        patience: Duration,
    ) -> OpenLoop {
        let next = times.next().filter(|_| limit != Some(0)).map(|offset| start + offset);
        OpenLoop { mix, times, start, next, left: limit, patience, put_back: Vec::new(), dropped: 0 }
    }

    /// Takes the first arrival.
    fn advance(&mut self) {
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        let next = if self.left == Some(0) { None } else { self.times.next() };
        self.next = next.map(|offset| self.start + offset);
    }

    /// Drops what was due before `limit`.
    fn drop_before(&mut self, limit: Instant) {
        while self.next.is_some_and(|due| due < limit) {
            self.dropped += 1;
            self.advance();
        }
        let waiting = self.put_back.len();
        self.put_back.retain(|job| job.due >= limit);
        self.dropped += (waiting - self.put_back.len()) as u64;
    }
}

impl Schedule for OpenLoop {
    const SHARED: bool = true;
    const SPREAD: bool = true;
    const TIMED: bool = true;

    fn request(&self, index: usize) -> &Request {
        self.mix.request(index)
    }

    fn next(&mut self, _lane: usize, now: Instant) -> Option<Job> {
        if let Some(job) = self.put_back.pop() {
            return Some(job);
        }
        if let Some(limit) = now.checked_sub(self.patience) {
            self.drop_before(limit);
        }
        let due = self.next.filter(|due| *due <= now)?;
        self.advance();
        Some(Job { request: self.mix.choose(), due })
    }

    fn put_back(&mut self, _lane: usize, job: Job) {
        self.put_back.push(job);
    }

    /// All connections are there before the first request needs them, and stay while there may be more.
    fn wants_connection(&self, _lane: usize, _connecting: usize) -> bool {
        self.next.is_some() || !self.put_back.is_empty()
    }

    fn wake(&self) -> Option<Instant> {
        self.next
    }

    fn abandon(&mut self, _lane: usize) -> u64 {
        // No lane is left: nothing more can be sent.
        self.next = None;
        self.left = Some(0);
        self.put_back.drain(..).count() as u64
    }

    fn stop(&mut self, now: Instant) {
        self.drop_before(now);
        self.next = None;
        self.left = Some(0);
        self.dropped += self.put_back.drain(..).count() as u64;
    }

    fn take_dropped(&mut self, now: Instant) -> u64 {
        if let Some(limit) = now.checked_sub(self.patience) {
            self.drop_before(limit);
        }
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix::one;
    use super::*;
    use crate::plan::{Arrivals, Stage};

    fn ten_per_second(start: Instant, limit: Option<u64>, patience: u64) -> OpenLoop {
        let stages =
            [Stage { length: Duration::ZERO, level: 10.0 }, Stage { length: Duration::from_secs(2), level: 10.0 }];
        let times = ArrivalTimes::new(&stages, Arrivals::Uniform, 1, 0, 1);
        OpenLoop::new(one(), times, start, limit, Duration::from_millis(patience))
    }

    #[test]
    fn requests_keep_the_time_at_which_they_were_due() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut schedule = ten_per_second(start, None, 10_000);
        assert_eq!(schedule.next(0, after(49)), None);
        assert_eq!(schedule.wake(), Some(after(50)));
        let late: Vec<Instant> = std::iter::from_fn(|| schedule.next(0, after(260))).map(|job| job.due).collect();
        assert_eq!(late, [after(50), after(150), after(250)]);
        assert!(schedule.wants_connection(0, 0));
        assert_eq!(schedule.take_dropped(after(260)), 0);
    }

    #[test]
    fn what_cannot_start_is_dropped_and_counted() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut schedule = ten_per_second(start, None, 500);
        // Due at 50, 150, 250, 350 ms, and nobody had room for them until 860 ms.
        assert_eq!(schedule.next(0, after(860)).unwrap().due, after(450));
        assert_eq!(schedule.take_dropped(after(860)), 4);
        // The end of the run drops what is due (550 to 950 ms) and nothing that lies ahead.
        schedule.stop(after(1000));
        assert_eq!(schedule.take_dropped(after(1000)), 5);
        assert_eq!((schedule.next(0, after(1100)), schedule.wants_connection(0, 0)), (None, false));
    }

    #[test]
    fn a_number_of_requests_ends_it() {
        let start = Instant::now();
        let mut schedule = ten_per_second(start, Some(3), 10_000);
        let later = start + Duration::from_secs(2);
        assert_eq!(std::iter::from_fn(|| schedule.next(0, later)).count(), 3);
        assert_eq!((schedule.wake(), schedule.wants_connection(0, 0)), (None, false));
    }
}
