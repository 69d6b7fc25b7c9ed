use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use wire::Request;

use super::{Job, Mix, Outcome, Schedule};

/// Workers of an application that share a pool of connections: each makes one request at a time over whichever
/// connection has a free place. The wait for one is the job's time in the queue.
#[derive(Debug)]
pub(crate) struct Pool {
    mix: Mix,
    /// Requests of workers that wait for a place.
    queue: VecDeque<Job>,
    /// Requests that may still be begun; `None` is as many as fit.
    left: Option<u64>,
    think: Duration,
    /// When workers are done thinking.
    thinking: BinaryHeap<Reverse<Instant>>,
}

impl Pool {
    /// So many workers, all of them ready now; `limit` requests in all, `None` is as many as they can make.
    pub(crate) fn new(mix: Mix, workers: u32, think: Duration, limit: Option<u64>, now: Instant) -> Pool {
        let mut pool = Pool { mix, queue: VecDeque::new(), left: limit, think, thinking: BinaryHeap::new() };
        (0..workers).for_each(|_| pool.begin(now));
        pool
    }

    /// A worker is ready for its next request.
    fn begin(&mut self, due: Instant) {
        if let Some(left) = &mut self.left {
            match left.checked_sub(1) {
                Some(rest) => *left = rest,
                None => return,
            }
        }
        let request = self.mix.choose();
        self.queue.push_back(Job { request, due });
    }
}

impl Schedule for Pool {
    const SHARED: bool = true;

    fn request(&self, index: usize) -> &Request {
        self.mix.request(index)
    }

    fn next(&mut self, _lane: usize, _now: Instant) -> Option<Job> {
        self.queue.pop_front()
    }

    fn put_back(&mut self, _lane: usize, job: Job) {
        self.queue.push_front(job);
    }

    fn wants_connection(&self, _lane: usize, connecting: usize) -> bool {
        self.queue.len() > connecting
    }

    fn wake(&self) -> Option<Instant> {
        self.thinking.peek().map(|Reverse(at)| *at)
    }

    fn due(&mut self, now: Instant, _lanes: &mut Vec<usize>) {
        while let Some(&Reverse(at)) = self.thinking.peek().filter(|Reverse(at)| *at <= now) {
            self.thinking.pop();
            self.begin(at);
        }
    }

    fn abandon(&mut self, _lane: usize) -> u64 {
        self.thinking.clear();
        self.left.replace(0).unwrap_or(0) + self.queue.drain(..).count() as u64
    }

    fn stop(&mut self, _now: Instant) {
        self.queue.clear();
        self.thinking.clear();
        self.left = Some(0);
    }

    fn end(&mut self, _lane: usize, _request: usize, _outcome: Outcome, now: Instant) {
        if self.think.is_zero() {
            self.begin(now);
        } else if self.left != Some(0) {
            self.thinking.push(Reverse(now + self.think));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mix::one;
    use super::*;

    #[test]
    fn each_worker_has_one_request_at_a_time() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut pool = Pool::new(one(), 2, Duration::from_millis(10), Some(3), start);
        assert!(pool.wants_connection(0, 1) && !pool.wants_connection(0, 2));
        assert!(pool.next(0, start).is_some() && pool.next(5, start).is_some() && pool.next(0, start).is_none());
        pool.end(0, 0, Outcome::Answered(200), after(5));
        pool.end(5, 0, Outcome::Failed, after(6));
        assert_eq!(pool.wake(), Some(after(15)));
        pool.due(after(20), &mut Vec::new());
        // The third is the last, and has waited since its worker was done thinking.
        assert_eq!(pool.next(0, after(20)).unwrap().due, after(15));
        assert_eq!((pool.next(0, after(20)), pool.wake()), (None, None));
    }
}
