use std::time::Instant;

use wire::Request;

/// One request to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Which request, an index into [`Schedule::request`].
    pub request: usize,
    /// Since when it could have been sent: the start of its time in the client's queue.
    pub due: Instant,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A complete response with this status.
    Answered(u16),
    /// No complete response.
    Failed,
}

/// Decides which request goes out next, and where. A worker has one and asks it whenever a lane has room.
pub(crate) trait Schedule {
    /// Whether all lanes draw from one queue; otherwise each lane has requests of its own.
    const SHARED: bool;

    /// A request by its index.
    fn request(&self, index: usize) -> &Request;

    /// Takes the next request for a lane that has room for it.
    fn next(&mut self, lane: usize, now: Instant) -> Option<Job>;

    /// Takes back a request that the server certainly did not process, to be sent again.
    fn put_back(&mut self, lane: usize, job: Job);

    /// Whether a lane that has no connection should make one while `connecting` others are at it.
    fn wants_connection(&self, lane: usize, connecting: usize) -> bool;

    /// No request will ever go over this lane again. Gives the number of requests that are lost with it.
    fn abandon(&mut self, lane: usize) -> u64;

    /// Starts no further requests.
    fn stop(&mut self);

    /// The head of a response arrived.
    fn head(&mut self, _request: usize, _now: Instant) {}

    /// A piece of a response's body arrived.
    fn data(&mut self, _request: usize, _bytes: &[u8], _now: Instant) {}

    /// Whether a response with this status is what the request was for.
    fn accepts(&self, _request: usize, status: u16) -> bool {
        status < 400
    }

    /// A request ended.
    fn end(&mut self, _request: usize, _outcome: Outcome, _now: Instant) {}
}

/// As soon as a request ends, the next one goes out on the same connection.
///
/// Each lane has its own share of the requests, as in h2load, so that every connection is used whatever the others
/// do.
#[derive(Debug)]
pub(crate) struct ClosedLoop {
    request: Request,
    /// Requests that each lane has yet to take; `None` is as many as it can make.
    left: Vec<Option<u64>>,
    put_back: Vec<Vec<Job>>,
}

impl ClosedLoop {
    /// A schedule that gives each lane its number of requests; `None` is as many as it can make.
    pub(crate) fn new(request: Request, shares: Vec<Option<u64>>) -> ClosedLoop {
        ClosedLoop { request, put_back: vec![Vec::new(); shares.len()], left: shares }
    }
}

impl Schedule for ClosedLoop {
    const SHARED: bool = false;

    fn request(&self, _index: usize) -> &Request {
        &self.request
    }

    fn next(&mut self, lane: usize, now: Instant) -> Option<Job> {
        if let Some(job) = self.put_back[lane].pop() {
            return Some(job);
        }
        if let Some(left) = &mut self.left[lane] {
            *left = left.checked_sub(1)?;
        }
        Some(Job { request: 0, due: now })
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

    fn stop(&mut self) {
        self.left.fill(Some(0));
        self.put_back.iter_mut().for_each(Vec::clear);
    }
}

/// Splits `total` over `parts` as evenly as integers allow; the first parts get the remainder.
pub(crate) fn split(total: u64, parts: u64) -> impl Iterator<Item = u64> {
    (0..parts).map(move |part| total / parts + u64::from(part < total % parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            method: "GET".to_owned(),
            scheme: "http".to_owned(),
            authority: "host".to_owned(),
            path: "/".to_owned(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
        }
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(split(10, 4).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(split(2, 3).collect::<Vec<_>>(), [1, 1, 0]);
    }

    #[test]
    fn each_lane_takes_its_share_and_what_was_put_back() {
        let mut schedule = ClosedLoop::new(request(), vec![Some(2), Some(1)]);
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
        let mut schedule = ClosedLoop::new(request(), vec![None]);
        let job = schedule.next(0, Instant::now()).unwrap();
        schedule.put_back(0, job);
        assert_eq!(schedule.abandon(0), 1);
        let mut schedule = ClosedLoop::new(request(), vec![None]);
        schedule.stop();
        assert_eq!(schedule.next(0, Instant::now()), None);
    }
}
