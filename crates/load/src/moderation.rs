//! How a worker lets responses gather, as a network card lets packets gather before it raises an interrupt.
//!
//! The engine is faster than most servers, so with many requests in flight each response would wake it up alone: one
//! turn of the event loop and one packet per request, for the server too. After a wake-up that brought few responses
//! it therefore pauses, under bounds that keep both the offered load and the figures what they are:
//!
//! - It never pauses longer than [`LONGEST`], which bounds by how much any single request's time can be too long.
//! - At the rate of late, at most a quarter of the requests in flight are answered during a pause: the server never
//!   runs out of work. With its throughput unchanged, the mean time of a closed loop is too (Little's law).
//! - It does not pause when fewer than two responses can be expected meanwhile (a slow server, few requests), nor after
//!   a wake-up that brought enough of them (a client that is itself the bottleneck).

use std::time::{Duration, Instant};

/// Longest pause.
pub(crate) const LONGEST: Duration = Duration::from_micros(50);

/// Responses per wake-up beyond which one more saves next to nothing.
const ENOUGH: u32 = 32;

/// The estimate of when the next responses come.
#[derive(Debug)]
pub(crate) struct Moderation {
    /// The last wake-up with a response.
    last: Instant,
    /// Time from response to response, a moving average. At most [`LONGEST`]: above that there are no pauses.
    spacing: Duration,
}

impl Moderation {
    pub(crate) fn new(now: Instant) -> Moderation {
        Moderation { last: now, spacing: LONGEST }
    }

    /// How long to pause after a wake-up at `now` that brought so many responses, with `in_flight` requests sent.
    pub(crate) fn pause(&mut self, now: Instant, responses: u64, in_flight: usize) -> Option<Duration> {
        let responses = u32::try_from(responses).unwrap_or(u32::MAX);
        let each = now.saturating_duration_since(self.last).checked_div(responses)?;
        self.last = now;
        self.spacing = (self.spacing * 7 + each.min(LONGEST)) / 8;
        let wanted = ENOUGH.min(in_flight as u32 / 4).saturating_sub(responses);
        Some((self.spacing * wanted).min(LONGEST)).filter(|pause| *pause >= self.spacing * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses of a worker that is woken up by every `responses` responses, which are `spacing_us` apart.
    fn settled(spacing_us: u64, responses: u64, in_flight: usize) -> Option<Duration> {
        let mut now = Instant::now();
        let mut moderation = Moderation::new(now);
        let mut pause = None;
        for _ in 0..100 {
            now += Duration::from_micros(spacing_us * responses);
            pause = moderation.pause(now, responses, in_flight);
        }
        pause
    }

    #[test]
    fn a_pause_is_bounded_by_time_and_by_the_work_that_the_server_has() {
        assert_eq!(settled(10, 1, 100), Some(LONGEST));
        let pause = settled(2, 1, 40).unwrap();
        assert!(pause <= Duration::from_micros(2) * 10, "{pause:?} is more than a quarter of 40 requests");
        assert!(pause >= Duration::from_micros(2) * 8, "{pause:?}");
    }

    #[test]
    fn there_is_none_when_nothing_would_gather() {
        assert_eq!(settled(30, 1, 100), None, "a slow server");
        assert_eq!(settled(10, 1, 8), None, "few requests in flight");
        assert_eq!(settled(1, 40, 1000), None, "a busy client");
        assert_eq!(settled(10, 0, 100), None, "a wake-up without a response");
    }

    #[test]
    fn a_stall_is_soon_forgotten() {
        let mut now = Instant::now();
        let mut moderation = Moderation::new(now);
        now += Duration::from_secs(3);
        assert_eq!(moderation.pause(now, 1, 100), None);
        let pauses = (0..30).filter(|_| {
            now += Duration::from_micros(5);
            moderation.pause(now, 1, 100).is_some()
        });
        assert!(pauses.count() > 20);
    }
}
