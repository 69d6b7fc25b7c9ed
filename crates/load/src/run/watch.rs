use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use measure::{CpuTime, Histogram, Interval};

use crate::LoadError;
use crate::worker::{Second, Watch, Window};

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Time since the start, warm-up included.
    pub elapsed: Duration,
    /// Requests that have ended, those of the warm-up included.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// What was measured in a second, each told once: its figures and its latencies in microseconds, since the intended
    /// start where there is one.
    pub second: Option<(&'a Interval, &'a Histogram)>,
}

/// What a worker's thread tells.
pub(super) enum FromWorker<T> {
    /// A second is over.
    Second(Second),
    /// The worker is done.
    Finished(Result<T, LoadError>),
}

/// Waits for workers, tells the observer how they are doing, and stops them when it says so.
pub(super) struct Watcher {
    window: Window,
    watch: Arc<Watch>,
    /// Workers that run at once.
    workers: usize,
    /// CPU time at the beginning of the measurement.
    cpu: CpuTime,
    warm_up_ends: Option<Instant>,
    /// Seconds that not every worker has told of, and how many have.
    pending: BTreeMap<u64, (usize, Second)>,
    intervals: Vec<Interval>,
}

/// What was watched over a whole run.
pub(super) struct Watched {
    pub cpu: CpuTime,
    pub intervals: Vec<Interval>,
    /// Whether the run ended before its warm-up.
    pub is_warming_up: bool,
}

impl Watcher {
    pub(super) fn new(window: Window, watch: Arc<Watch>, workers: usize) -> Watcher {
        Watcher {
            window,
            watch,
            workers,
            cpu: CpuTime::of_this_process(),
            warm_up_ends: window.begins,
            pending: BTreeMap::new(),
            intervals: Vec::new(),
        }
    }

    /// Until all senders are gone. Gives what the workers finished with, or the first failure.
    pub(super) fn watch<T>(
        &mut self,
        messages: &Receiver<FromWorker<T>>,
        observe: &mut dyn FnMut(&Progress<'_>) -> bool,
    ) -> Result<Vec<T>, LoadError> {
        const PERIOD: Duration = Duration::from_millis(100);
        let mut finished = Vec::new();
        let mut failure = None;
        let mut next = Instant::now() + PERIOD;
        loop {
            let wake = self.warm_up_ends.into_iter().chain([next]).min().unwrap_or(next);
            match messages.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(FromWorker::Second(second)) => self.add(second, observe),
                Ok(FromWorker::Finished(Ok(result))) => finished.push(result),
                Ok(FromWorker::Finished(Err(error))) => {
                    failure.get_or_insert(error);
                    self.watch.stop.store(true, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = Instant::now();
            if self.warm_up_ends.take_if(|ends| *ends <= now).is_some() {
                self.cpu = CpuTime::of_this_process();
            }
            if now >= next {
                next = now + PERIOD;
                self.tell(None, observe);
            }
        }
        // Workers that ended early have not told of every second.
        while let Some((_, (_, second))) = self.pending.pop_first() {
            self.complete(&second, observe);
        }
        self.tell(None, observe);
        failure.map_or(Ok(finished), Err)
    }

    pub(super) fn finish(self) -> Watched {
        Watched {
            cpu: CpuTime::of_this_process().since(self.cpu),
            intervals: self.intervals,
            is_warming_up: self.warm_up_ends.is_some(),
        }
    }

    fn tell(&self, second: Option<(&Interval, &Histogram)>, observe: &mut dyn FnMut(&Progress<'_>) -> bool) {
        let progress = Progress {
            elapsed: self.window.starts.elapsed(),
            done: self.watch.done.load(Ordering::Relaxed),
            failed: self.watch.failed.load(Ordering::Relaxed),
            in_flight: self.watch.in_flight.load(Ordering::Relaxed),
            second,
        };
        if !observe(&progress) {
            self.watch.stop.store(true, Ordering::Relaxed);
        }
    }

    fn add(&mut self, second: Second, observe: &mut dyn FnMut(&Progress<'_>) -> bool) {
        let number = second.number;
        match self.pending.get_mut(&number) {
            None => {
                self.pending.insert(number, (1, second));
            }
            Some((workers, sum)) => {
                *workers += 1;
                sum.length = sum.length.max(second.length);
                sum.done += second.done;
                sum.failed += second.failed;
                sum.in_flight += second.in_flight;
                sum.latency.merge(&second.latency);
            }
        }
        while let Some(first) = self.pending.first_entry()
            && first.get().0 >= self.workers
        {
            let (_, second) = first.remove();
            self.complete(&second, observe);
        }
    }

    fn complete(&mut self, second: &Second, observe: &mut dyn FnMut(&Progress<'_>) -> bool) {
        let interval = Interval {
            end_s: (Duration::from_secs(second.number) + second.length).as_secs_f64(),
            length_s: second.length.as_secs_f64(),
            done: second.done,
            failed: second.failed,
            in_flight: second.in_flight,
            p50_us: second.latency.quantile_us(0.5),
            p99_us: second.latency.quantile_us(0.99),
        };
        self.tell(Some((&interval, &second.latency)), observe);
        self.intervals.push(interval);
    }
}
