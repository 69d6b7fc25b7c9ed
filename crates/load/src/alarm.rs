use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Wakes a poll at an instant, within tens of microseconds: the poll's own timeout counts whole milliseconds.
pub(crate) struct Alarm {
    timer: TimerFd,
    at: Option<Instant>,
}

impl Alarm {
    /// The token of its events, which mean nothing but that the time has come.
    pub(crate) const TOKEN: Token = Token(usize::MAX);

    pub(crate) fn new(registry: &Registry) -> io::Result<Alarm> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        registry.register(&mut SourceFd(&timer.as_fd().as_raw_fd()), Alarm::TOKEN, Interest::READABLE)?;
        Ok(Alarm { timer, at: None })
    }

    /// Goes off at this instant and no other; an alarm that is set to what it was costs nothing.
    pub(crate) fn set(&mut self, at: Option<Instant>, now: Instant) -> io::Result<()> {
        if self.at == at {
            return Ok(());
        }
        self.at = at;
        match at {
            // A time of zero would disarm it.
            Some(at) => {
                let left = at.saturating_duration_since(now).max(Duration::from_nanos(1));
                let once = Expiration::OneShot(TimeSpec::from_duration(left));
                Ok(self.timer.set(once, TimerSetTimeFlags::empty())?)
            }
            None => Ok(self.timer.unset()?),
        }
    }
}
