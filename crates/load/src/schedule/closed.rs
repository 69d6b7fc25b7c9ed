use std::time::Instant;

use wire::Request;

use super::{Job, Mix, Schedule};

/// As soon as a request ends, the next one goes out on the same connection.
///
/// Each lane has its own share of the requests, as in h2load, so that every connection is used whatever the others
/// do.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    mix: Mix,
    /// Requests that each lane has yet to take; `None` is as many as it can make.
    left: Vec<Option<u64>>,
    put_back: Vec<Vec<Job>>,
    dropped: u64,
}

impl ClosedLoop {
    /// A schedule that gives each lane its number of requests; `None` is as many as it can make.
    pub(crate) fn new(mix: Mix, shares: Vec<Option<u64>>) -> ClosedLoop {
        ClosedLoop { mix, put_back: vec![Vec::new(); shares.len()], left: shares, dropped: 0 }
    }
}

impl Schedule for ClosedLoop {
    const SHARED: bool = false;

    fn request(&self, index: usize) -> &Request {
        self.mix.request(index)
    }

    fn next(&mut self, lane: usize, now: Instant) -> Option<Job> {
        if let Some(job) = self.put_back[lane].pop() {
            return Some(job);
        }
        if let Some(left) = &mut self.left[lane] {
            *left = left.checked_sub(1)?;
        }
        Some(Job { request: self.mix.choose(), due: now })
    }

    fn put_back(&mut self, lane: usize, job: Job) {
        self.put_back[lane].push(job);
    }

    fn wants_connection(&self, lane: usize, _connecting: usize) -> bool {
        self.left[lane] != Some(0) || !self.put_back[lane].is_empty()
    }

    fn abandon(&mut self, lane: usize) -> u64 {
        // Without a fixed number of requests, only those that were tried are lost.
        let untried = self.left[lane].replace(0).unwrap_or(0);
        untried + self.put_back[lane].drain(..).count() as u64
    }

    fn stop(&mut self, _now: Instant) {
        self.left.fill(Some(0));
        self.dropped += self.put_back.iter_mut().map(|jobs| jobs.drain(..).count() as u64).sum::<u64>();
    }

    fn take_dropped(&mut self, _now: Instant) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix::one;
    use super::*;

    #[test]
    fn each_lane_takes_its_share_and_what_was_put_back() {
        let mut schedule = ClosedLoop::new(one(), vec![Some(2), Some(1)]);
        let now = Instant::now();
        let job = schedule.next(1, now).unwrap();
        assert_eq!(schedule.next(1, now), None);
        assert!(!schedule.wants_connection(1, 0));
        schedule.put_back(1, job);
        assert!(schedule.wants_connection(1, 0));
        assert_eq!(schedule.next(1, now), Some(job));
        assert_eq!(schedule.abandon(0), 2);
        assert_eq!(schedule.next(0, now), None);
    }

    #[test]
    fn an_endless_lane_loses_only_what_was_tried() {
        let now = Instant::now();
        let mut schedule = ClosedLoop::new(one(), vec![None]);
        let job = schedule.next(0, now).unwrap();
        schedule.put_back(0, job);
        assert_eq!(schedule.abandon(0), 1);
        let mut schedule = ClosedLoop::new(one(), vec![None]);
        schedule.stop(now);
        assert_eq!(schedule.next(0, now), None);
    }
}
