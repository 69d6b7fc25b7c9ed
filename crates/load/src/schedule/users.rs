use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use wire::Request;

use super::{Job, Mix, Schedule};

/// Virtual users: each lane is one, with a connection and a loop of its own: a request, its response, a pause.
#[derive(Debug)]
pub(crate) struct Users {
    mix: Mix,
    users: Vec<User>,
    think: Duration,
    /// When users think no more, and which.
    thinking: BinaryHeap<Reverse<(Instant, usize)>>,
    /// When how many users are active, the next change last.
    changes: Vec<(Instant, usize)>,
}

#[derive(Clone, Debug, Default)]
struct User {
    active: bool,
    /// Whether the next request may go out.
    ready: bool,
    /// Requests that it has yet to make; `None` is as many as it can.
    left: Option<u64>,
    put_back: Option<Job>,
}

impl Users {
    /// One user per share, each with its number of requests; `None` is as many as it can make. `changes` says when how
    /// many of them are active, in ascending order of time.
    pub(crate) fn new(
        mix: Mix,
        shares: Vec<Option<u64>>,
        think: Duration,
        mut changes: Vec<(Instant, usize)>,
    ) -> Users {
        changes.reverse();
        let user = |left| User { active: false, ready: true, left, put_back: None };
        Users { mix, users: shares.into_iter().map(user).collect(), think, thinking: BinaryHeap::new(), changes }
    }
}

impl Schedule for Users {
    const SHARED: bool = false;

    fn request(&self, index: usize) -> &Request {
        self.mix.request(index)
    }

    fn next(&mut self, lane: usize, now: Instant) -> Option<Job> {
        let user = &mut self.users[lane];
        if let Some(job) = user.put_back.take() {
            return Some(job);
        }
        if !user.active || !user.ready {
            return None;
        }
        if let Some(left) = &mut user.left {
            *left = left.checked_sub(1)?;
        }
        user.ready = false;
        Some(Job { request: self.mix.choose(), due: now })
    }

    fn put_back(&mut self, lane: usize, job: Job) {
        self.users[lane].put_back = Some(job);
    }

    /// A user that thinks keeps its connection and makes no new one until it is ready.
    fn wants_connection(&self, lane: usize, _connecting: usize) -> bool {
        let user = &self.users[lane];
        user.put_back.is_some() || (user.active && user.left != Some(0))
    }

    fn wake(&self) -> Option<Instant> {
        let thought = self.thinking.peek().map(|Reverse((at, _))| *at);
        thought.into_iter().chain(self.changes.last().map(|(at, _)| *at)).min()
    }

    fn due(&mut self, now: Instant, lanes: &mut Vec<usize>) {
        while let Some((_, active)) = self.changes.pop_if(|(at, _)| *at <= now) {
            for (lane, user) in self.users.iter_mut().enumerate() {
                if std::mem::replace(&mut user.active, lane < active) != user.active {
                    lanes.push(lane);
                }
            }
        }
        while let Some(&Reverse((_, lane))) = self.thinking.peek().filter(|Reverse((at, _))| *at <= now) {
            self.thinking.pop();
            self.users[lane].ready = true;
            lanes.push(lane);
        }
    }

    fn abandon(&mut self, lane: usize) -> u64 {
        let user = &mut self.users[lane];
        let untried = user.left.replace(0).unwrap_or(0);
        untried + u64::from(user.put_back.take().is_some())
    }

    fn stop(&mut self, _now: Instant) {
        self.changes.clear();
        self.thinking.clear();
        for user in &mut self.users {
            *user = User { left: Some(0), ..User::default() };
        }
    }

    fn end(&mut self, lane: usize, _request: usize, _outcome: super::Outcome, now: Instant) {
        if self.think.is_zero() {
            self.users[lane].ready = true;
        } else {
            self.thinking.push(Reverse((now + self.think, lane)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::super::mix::one;
    use super::*;

    #[test]
    fn users_come_think_and_go() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let changes = vec![(start, 1), (after(100), 2), (after(200), 1)];
        let mut users = Users::new(one(), vec![None, None], Duration::from_millis(30), changes);
        let mut lanes = Vec::new();
        assert_eq!(users.next(0, start), None);
        users.due(start, &mut lanes);
        assert_eq!(std::mem::take(&mut lanes), [0]);
        assert!(users.wants_connection(0, 0) && !users.wants_connection(1, 0));
        assert!(users.next(0, start).is_some() && users.next(0, start).is_none());
        users.end(0, 0, Outcome::Answered(200), after(80));
        assert_eq!((users.wake(), users.next(0, after(90))), (Some(after(100)), None));
        users.due(after(110), &mut lanes);
        assert_eq!(std::mem::take(&mut lanes), [1, 0]);
        assert!(users.next(0, after(110)).is_some() && users.next(1, after(110)).is_some());
        users.due(after(200), &mut lanes);
        assert_eq!(lanes, [1]);
        users.end(1, 0, Outcome::Failed, after(200));
        users.due(after(300), &mut lanes);
        assert_eq!((users.next(1, after(300)), users.wants_connection(1, 0)), (None, false));
    }

    #[test]
    fn a_user_with_a_number_of_requests_ends() {
        let start = Instant::now();
        let mut users = Users::new(one(), vec![Some(2)], Duration::ZERO, vec![(start, 1)]);
        users.due(start, &mut Vec::new());
        for left in [true, false] {
            let job = users.next(0, start).unwrap();
            users.put_back(0, job);
            assert_eq!(users.next(0, start), Some(job), "it is sent again");
            users.end(0, 0, Outcome::Answered(200), start);
            assert_eq!(users.wants_connection(0, 0), left);
        }
        assert_eq!(users.next(0, start), None);
    }
}
