use std::time::Instant;

/// One timer per lane.
///
/// Timers of QUIC move with nearly every packet, almost always to a later time. So the earliest one is only a lower
/// bound: waking up too early now and then is cheaper than keeping order.
#[derive(Debug)]
pub(crate) struct Timers {
    at: Vec<Option<Instant>>,
    earliest: Option<Instant>,
}

impl Timers {
    pub(crate) fn new(lanes: usize) -> Timers {
        Timers { at: vec![None; lanes], earliest: None }
    }

    pub(crate) fn set(&mut self, lane: usize, at: Option<Instant>) {
        self.at[lane] = at;
        self.earliest = self.earliest.into_iter().chain(at).min();
    }

    /// No timer goes off before this.
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Moves the lanes whose time has come to `due`, and their timers are off.
    pub(crate) fn expire(&mut self, now: Instant, due: &mut Vec<usize>) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        for (lane, at) in self.at.iter_mut().enumerate() {
            if at.take_if(|at| *at <= now).is_some() {
                due.push(lane);
            }
        }
        self.earliest = self.at.iter().flatten().min().copied();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn timers_go_off_once_and_never_early() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut timers = Timers::new(3);
        let mut due = Vec::new();
        timers.set(0, Some(after(10)));
        timers.set(1, Some(after(20)));
        timers.set(0, Some(after(30)));
        assert!(timers.earliest().unwrap() <= after(20));
        timers.expire(after(15), &mut due);
        assert!(due.is_empty());
        assert_eq!(timers.earliest(), Some(after(20)));
        timers.expire(after(20), &mut due);
        assert_eq!(due, [1]);
        timers.set(0, None);
        timers.expire(after(99), &mut due);
        assert_eq!(due, [1]);
        assert_eq!(timers.earliest(), None);
    }
}
