use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use measure::{CpuTime, LoadSummary, PageLoad, Protocol};
use wire::{h1, h2};

use crate::channel::Channel;
use crate::channel::quic::{QuicChannel, QuicSettings};
use crate::channel::stream::{StreamChannel, StreamSettings};
use crate::page::Page;
use crate::schedule::{ClosedLoop, split};
use crate::tally::{Tally, micros};
use crate::tls::TlsSetup;
use crate::worker::{Site, Watch, Window, Worker};
use crate::{Amount, LoadError, Plan, descriptors};

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since the start, warm-up included.
    pub elapsed: Duration,
    /// Requests that have ended.
    pub done: u64,
    /// Those of them that failed.
    pub failed: u64,
}

/// Carries the plan out and gives what was measured.
///
/// `observe` is called about ten times a second; when it returns false, the run stops and the summary holds what was
/// measured until then.
///
/// # Errors
/// The plan is refused, it needs more connections than this process may have (the soft limit of open files is raised if
/// that helps), nothing could be connected to, or the server speaks another protocol than the wanted one.
pub fn run(plan: &Plan, observe: &mut dyn FnMut(Progress) -> bool) -> Result<LoadSummary, LoadError> {
    plan.check()?;
    descriptors::provide(plan)?;
    let tls = if plan.protocol.is_encrypted() { Some(TlsSetup::new(plan)?) } else { None };
    let streams = plan.streams as usize;
    match (plan.protocol, tls) {
        (Protocol::H1c | Protocol::H1, tls) => {
            let options = h1::Options { pipeline: streams, ..h1::Options::default() };
            let http = Arc::new(move || h1::Connection::new(options));
            Runner::<StreamChannel<h1::Connection>>::new(plan, StreamSettings { tls, http })?.run(observe)
        }
        (Protocol::H3, Some(tls)) => Runner::<QuicChannel>::new(plan, QuicSettings::new(plan, tls)?)?.run(observe),
        (_, tls) => {
            let options = h2::Options { max_streams: streams, ..h2::Options::default() };
            let http = Arc::new(move || h2::Connection::new(options));
            Runner::<StreamChannel<h2::Connection>>::new(plan, StreamSettings { tls, http })?.run(observe)
        }
    }
}

/// Starts the workers of one kind of channel, waits for them and sums up.
struct Runner<'a, C: Channel> {
    plan: &'a Plan,
    site: Site<C>,
    started: Instant,
    /// CPU time at the beginning of the measurement.
    cpu: CpuTime,
}

impl<'a, C: Channel> Runner<'a, C> {
    fn new(plan: &'a Plan, settings: C::Settings) -> Result<Self, LoadError> {
        let addresses = plan.target.resolve()?;
        let started = Instant::now();
        let window = match plan.amount {
            Amount::Duration { warm_up, length } => Window {
                begins: (!warm_up.is_zero()).then(|| started + warm_up),
                ends: Some(started + warm_up + length),
            },
            Amount::Requests(_) | Amount::Pages(_) => Window::default(),
        };
        let site = Site {
            settings,
            host: plan.target.endpoint(),
            protocol: plan.protocol,
            addresses,
            timeout: plan.timeout,
            streams: plan.streams as usize,
            window,
            watch: Arc::new(Watch::default()),
        };
        Ok(Runner { plan, site, started, cpu: CpuTime::of_this_process() })
    }

    fn run(mut self, observe: &mut dyn FnMut(Progress) -> bool) -> Result<LoadSummary, LoadError> {
        let (tally, pages) = match self.plan.amount {
            Amount::Pages(count) => self.load_pages(count, observe)?,
            Amount::Requests(count) => (self.load(Some(count), observe)?, Vec::new()),
            Amount::Duration { .. } => (self.load(None, observe)?, Vec::new()),
        };
        if tally.connections.completed == 0 {
            return Err(LoadError::Connect {
                host: self.site.host,
                protocol: self.plan.protocol,
                reason: tally.refusal.unwrap_or_else(|| "stopped before there was a connection".to_owned()),
            });
        }
        Ok(self.summary(tally, pages))
    }

    /// One worker per thread in a closed loop.
    fn load(&mut self, requests: Option<u64>, observe: &mut dyn FnMut(Progress) -> bool) -> Result<Tally, LoadError> {
        let connections = u64::from(self.plan.connections);
        let mut shares = match requests {
            Some(requests) => split(requests, connections).map(Some).collect(),
            None => vec![None; connections as usize],
        };
        let mut workers = Vec::new();
        for lanes in split(connections, u64::from(self.plan.threads)) {
            let rest = shares.split_off(lanes as usize);
            let request = self.plan.request(self.plan.target.path());
            workers.push(ClosedLoop::new(request, std::mem::replace(&mut shares, rest)));
        }
        let mut tally = thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            let site = &self.site;
            for (schedule, lanes) in workers.into_iter().zip(split(connections, u64::from(self.plan.threads))) {
                let sender = sender.clone();
                scope.spawn(move || {
                    let result = Worker::<C, _>::new(site, lanes as usize, schedule)
                        .map_err(LoadError::from)
                        .and_then(Worker::run);
                    // The receiver waits for every worker, so it is there.
                    let _ = sender.send(result.map(|(tally, _)| tally));
                });
            }
            drop(sender);
            watch_over(site, self.started, &mut self.cpu, &results, observe)
        })?
        .into_iter()
        .reduce(|mut sum, tally| {
            sum.merge(tally);
            sum
        })
        .unwrap_or_default();
        tally.requests.total = requests.unwrap_or(tally.requests.started);
        Ok(tally)
    }

    /// Page loads, one after the other, each as cold as the first.
    fn load_pages(
        &mut self,
        count: u32,
        observe: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(Tally, Vec<PageLoad>), LoadError> {
        let mut sum = Tally::default();
        let mut pages = Vec::new();
        let warm = self.site.settings.clone();
        for number in 1..=count {
            if self.site.watch.stop.load(Ordering::Relaxed) {
                break;
            }
            self.site.settings = C::cold(&warm);
            let (plan, site) = (self.plan, &self.site);
            let finished = thread::scope(|scope| {
                let (sender, results) = mpsc::channel();
                scope.spawn(move || {
                    let page = Page::new(plan, Instant::now());
                    let result = Worker::<C, _>::new(site, plan.connections as usize, page)
                        .map_err(LoadError::from)
                        .and_then(Worker::run);
                    // The receiver waits for the worker, so it is there.
                    let _ = sender.send(result);
                });
                watch_over(site, self.started, &mut self.cpu, &results, observe)
            })?;
            for (mut tally, page) in finished {
                tally.requests.total = page.requests() as u64;
                match page_load(&tally, &page) {
                    Ok(load) => pages.push(load),
                    Err(failure) => tally.blame(&format!("page load {number} failed: {failure}"), 1),
                }
                sum.merge(tally);
            }
        }
        Ok((sum, pages))
    }

    fn summary(self, tally: Tally, pages: Vec<PageLoad>) -> LoadSummary {
        let plan = self.plan;
        let cpu = CpuTime::of_this_process().since(self.cpu);
        let duration = match (tally.first, tally.last) {
            (Some(first), Some(last)) => micros(last.saturating_duration_since(first)),
            _ => 0,
        };
        let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let available = duration * processors.min(u64::from(plan.threads));
        let (tls, congestion_control) =
            tally.description.map_or_else(Default::default, |known| (known.tls, known.congestion_control));
        LoadSummary {
            schema: LoadSummary::SCHEMA,
            url: plan.target.url().to_string(),
            protocol: plan.protocol,
            connections_limit: plan.connections,
            streams_limit: plan.streams,
            threads: plan.threads,
            duration_us: duration,
            requests: tally.requests,
            status: tally.status,
            traffic: tally.traffic,
            connections: tally.connections,
            tls,
            congestion_control,
            initial_window_packets: (plan.protocol == Protocol::H3).then_some(plan.initial_window_packets),
            quic: tally.quic,
            request_time: tally.request_time,
            connect_time: tally.connect_time,
            first_byte_time: tally.first_byte_time,
            queue_time: tally.queue_time,
            pages,
            cpu,
            errors: tally.errors,
            client_bound: available > 0 && cpu.total_us() * 10 >= available * 9,
        }
    }
}

/// Waits for all workers, tells the observer how they are doing, and stops them when it says so.
fn watch_over<C: Channel, T>(
    site: &Site<C>,
    started: Instant,
    cpu: &mut CpuTime,
    results: &mpsc::Receiver<Result<T, LoadError>>,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<Vec<T>, LoadError> {
    const PERIOD: Duration = Duration::from_millis(100);
    let mut finished = Vec::new();
    let mut failure = None;
    let mut warm_up_ends = site.window.begins;
    loop {
        let until_warm = warm_up_ends.map_or(PERIOD, |ends| ends.saturating_duration_since(Instant::now()));
        match results.recv_timeout(PERIOD.min(until_warm)) {
            Ok(Ok(result)) => finished.push(result),
            Ok(Err(error)) => {
                failure.get_or_insert(error);
                site.watch.stop.store(true, Ordering::Relaxed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if warm_up_ends.take_if(|ends| *ends <= Instant::now()).is_some() {
            *cpu = CpuTime::of_this_process();
        }
        let progress = Progress {
            elapsed: started.elapsed(),
            done: site.watch.done.load(Ordering::Relaxed),
            failed: site.watch.failed.load(Ordering::Relaxed),
        };
        if !observe(progress) {
            site.watch.stop.store(true, Ordering::Relaxed);
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(finished),
    }
}

/// What one page load measured, or why it failed.
fn page_load(tally: &Tally, page: &Page<'_>) -> Result<PageLoad, String> {
    let (first_byte, last_byte) = page.outcome()?;
    let Some(started) = tally.first else { return Err("it was not started".to_owned()) };
    if tally.requests.failed > 0 {
        return Err(format!("{} requests failed", tally.requests.failed));
    }
    Ok(PageLoad {
        duration_us: micros(last_byte.saturating_duration_since(started)),
        first_byte_us: micros(first_byte.saturating_duration_since(started)),
        objects: page.requests() as u32 - 1,
        data_bytes: tally.traffic.data_bytes,
        connections: tally.connections.used as u32,
    })
}
