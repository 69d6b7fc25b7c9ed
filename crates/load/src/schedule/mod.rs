//! What decides which request goes out next, when, and where.
//!
//! Every schedule is pure: it is asked with the time as an argument, and told how requests end.

mod arrivals;
mod closed;
mod mix;
mod open;
mod pool;
mod steps;
mod users;

use std::time::Instant;

use wire::Request;

pub(crate) use self::arrivals::ArrivalTimes;
pub(crate) use self::closed::ClosedLoop;
pub(crate) use self::mix::Mix;
pub(crate) use self::open::OpenLoop;
pub(crate) use self::pool::Pool;
pub(crate) use self::steps::steps;
pub(crate) use self::users::Users;

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

/// Decides which request goes out next. A worker has one and asks it whenever a lane has room.
pub(crate) trait Schedule {
    /// Whether all lanes draw from one queue; otherwise each lane has requests of its own.
    const SHARED: bool;

    /// Whether requests go round all lanes, each of them connected from the start. Otherwise the lane that had room last
    /// is first, and a connection is made when one is missing. Only for shared queues.
    const SPREAD: bool = false;

    /// Whether a request's time counts from the instant at which it was due, too.
    const TIMED: bool = false;

    /// A request by its index.
    fn request(&self, index: usize) -> &Request;

    /// Takes the next request for a lane that has room for it.
    fn next(&mut self, lane: usize, now: Instant) -> Option<Job>;

    /// Takes back a request that the server certainly did not process, to be sent again.
    fn put_back(&mut self, lane: usize, job: Job);

    /// Whether a lane that has no connection should make one while `connecting` others are at it.
    fn wants_connection(&self, lane: usize, connecting: usize) -> bool;

    /// When something becomes due by time alone.
    fn wake(&self) -> Option<Instant> {
        None
    }

    /// Adds to `lanes` those that have become due; for a shared queue there is nothing to tell.
    fn due(&mut self, _now: Instant, _lanes: &mut Vec<usize>) {}

    /// No request will ever go over this lane again. Gives the number of requests that are lost with it.
    fn abandon(&mut self, lane: usize) -> u64;

    /// Starts no further requests.
    fn stop(&mut self, now: Instant);

    /// Takes how many requests were due and given up unsent since the last call.
    fn take_dropped(&mut self, _now: Instant) -> u64 {
        0
    }

    /// The head of a response arrived.
    fn head(&mut self, _request: usize, _now: Instant) {}

    /// A piece of a response's body arrived.
    fn data(&mut self, _request: usize, _bytes: &[u8], _now: Instant) {}

    /// Whether a response that is otherwise as expected is of use for what the request was for.
    fn accepts(&self, _request: usize, _status: u16) -> bool {
        true
    }

    /// A request that a lane had taken ended.
    fn end(&mut self, _lane: usize, _request: usize, _outcome: Outcome, _now: Instant) {}
}

/// Splits `total` over `parts` as evenly as integers allow; the first parts get the remainder.
pub(crate) fn split(total: u64, parts: u64) -> impl Iterator<Item = u64> {
    (0..parts).map(move |part| total / parts + u64::from(part < total % parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!(split(10, 4).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(split(2, 3).collect::<Vec<_>>(), [1, 1, 0]);
    }
}
