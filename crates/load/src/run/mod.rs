//! Starts the workers of a plan, watches over them and sums up what they measured.

mod page;
mod summary;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use measure::{LoadSummary, PageLoad, Protocol};
use wire::{h1, h2};

pub use self::watch::Progress;
use self::watch::{FromWorker, Watcher};
use crate::channel::Channel;
use crate::channel::quic::{QuicChannel, QuicSettings};
use crate::channel::socket::{Address, Sockets};
use crate::channel::stream::{StreamChannel, StreamSettings};
use crate::plan::{Model, Stage};
use crate::request_log::RequestLog;
use crate::schedule::{ArrivalTimes, ClosedLoop, Mix, OpenLoop, Pool, Schedule, Users, split, steps};
use crate::tally::Tally;
use crate::tls::TlsSetup;
use crate::worker::{Site, Watch, Window, Worker};
use crate::{Amount, LoadError, Plan, descriptors};

/// Carries the plan out and gives what was measured.
///
/// `observe` is called about ten times a second; when it returns false, the run stops and the summary holds what was
/// measured until then.
///
/// # Errors
/// The plan is refused, it needs more connections than this process may have (the soft limit of open files is raised if
/// that helps), a file it names cannot be used, nothing could be connected to, or the server speaks another protocol than
/// the wanted one.
pub fn run(plan: &Plan, observe: &mut dyn FnMut(&Progress<'_>) -> bool) -> Result<LoadSummary, LoadError> {
    plan.check()?;
    descriptors::provide(plan)?;
    let tls = if plan.protocol.is_encrypted() { Some(TlsSetup::new(plan)?) } else { None };
    let sockets = Sockets::new(&plan.transport.sources)?;
    let addresses = sockets.reachable(plan.target.addresses()?)?;
    let streams = plan.streams as usize;
    match (plan.protocol, tls) {
        (Protocol::H1c | Protocol::H1, tls) => {
            let options = h1::Options { pipeline: streams, keep_alive: plan.keep_alive, ..h1::Options::default() };
            let http = Arc::new(move || h1::Connection::new(options));
            let settings = StreamSettings { tls, http, sockets };
            Runner::<StreamChannel<h1::Connection>>::new(plan, settings, addresses)?.run(observe)
        }
        (Protocol::H3, Some(tls)) => {
            let settings = QuicSettings::new(plan, tls, sockets)?;
            Runner::<QuicChannel>::new(plan, settings, addresses)?.run(observe)
        }
        (_, tls) => {
            let options = h2::Options {
                max_streams: streams,
                stream_window: plan.transport.stream_window,
                connection_window: plan.transport.connection_window,
                max_frame_size: plan.transport.max_frame_size,
                header_table_size: plan.transport.header_table_size,
                ..h2::Options::default()
            };
            let http = Arc::new(move || h2::Connection::new(options));
            let settings = StreamSettings { tls, http, sockets };
            Runner::<StreamChannel<h2::Connection>>::new(plan, settings, addresses)?.run(observe)
        }
    }
}

/// Starts the workers of one kind of channel, waits for them and sums up.
struct Runner<'a, C: Channel> {
    plan: &'a Plan,
    site: Site<C>,
    mix: Mix,
    watcher: Watcher,
}

impl<'a, C: Channel> Runner<'a, C> {
    fn new(plan: &'a Plan, settings: C::Settings, addresses: Vec<Address>) -> Result<Self, LoadError> {
        let starts = Instant::now();
        let window = match plan.amount {
            Amount::Duration(length) => Window {
                starts,
                begins: (!plan.warm_up.is_zero()).then(|| starts + plan.warm_up),
                ends: Some(starts + plan.warm_up + length),
            },
            Amount::Requests(_) => Window { starts, begins: None, ends: None },
        };
        let request_log = plan.request_log.as_ref().map(|path| {
            let log = RequestLog::create(path, starts, window.begins.unwrap_or(starts));
            log.map(Arc::new).map_err(|source| LoadError::File { path: path.clone(), source })
        });
        let threads = plan.threads * plan.clients;
        let gap = plan.transport.connection_rate.map(|rate| f64::from(plan.threads) / rate);
        let site = Site {
            settings,
            host: plan.target.endpoint(),
            protocol: plan.protocol,
            addresses,
            timeout: plan.timeout,
            connect_timeout: plan.connect_timeout,
            streams: plan.streams as usize,
            keep_alive: plan.keep_alive,
            connection_gap: gap.map_or(Duration::ZERO, Duration::from_secs_f64),
            expect: plan.expect.clone(),
            window,
            request_log: request_log.transpose()?,
            watch: Arc::new(Watch::default()),
        };
        let mix = Mix::new(plan.requests.iter().map(|planned| (plan.request(planned), planned.weight)));
        let watcher = Watcher::new(window, Arc::clone(&site.watch), threads as usize);
        Ok(Runner { plan, site, mix, watcher })
    }

    fn run(mut self, observe: &mut dyn FnMut(&Progress<'_>) -> bool) -> Result<LoadSummary, LoadError> {
        let (tally, pages) = match self.plan.model {
            Model::Pages => self.load_pages(observe)?,
            _ => (self.load(observe)?, Vec::new()),
        };
        if tally.connections.completed == 0 {
            return Err(LoadError::Connect {
                host: self.site.host,
                protocol: self.plan.protocol,
                reason: tally.refusal.unwrap_or_else(|| "stopped before there was a connection".to_owned()),
            });
        }
        let log_fault = self.site.request_log.as_ref().and_then(|log| log.fault()).map(str::to_owned);
        Ok(summary::summary(self.plan, tally, pages, self.watcher.finish(), log_fault))
    }

    /// One worker per thread of each client.
    fn load(&mut self, observe: &mut dyn FnMut(&Progress<'_>) -> bool) -> Result<Tally, LoadError> {
        let Runner { plan, site, mix, watcher } = self;
        let plan = *plan;
        // Each client has a site of its own: what its connections remember is not for the others.
        let sites: Vec<Site<C>> = (0..plan.clients).map(|_| site.of_another_client()).collect();
        let crew = Crew { plan, mix, threads: u64::from(plan.threads) * u64::from(plan.clients) };
        let tallies = thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            for (client, site) in sites.iter().enumerate() {
                for thread in 0..plan.threads {
                    let (sender, crew) = (sender.clone(), crew.clone());
                    let part = Part { client: client as u32, thread };
                    scope.spawn(move || crew.work(site, part, &sender));
                }
            }
            drop(sender);
            watcher.watch(&results, observe)
        })?;
        let peak = tallies.iter().map(|tally| tally.max_in_flight).sum();
        let mut sum = tallies.into_iter().reduce(|mut sum, tally| {
            sum.merge(tally);
            sum
        });
        let tally = sum.get_or_insert_default();
        tally.max_in_flight = peak;
        tally.requests.total = match plan.amount {
            Amount::Requests(requests) => requests,
            Amount::Duration(_) => tally.requests.started + tally.requests.dropped,
        };
        Ok(sum.unwrap_or_default())
    }

    /// Page loads, one after the other, each as cold as the first.
    fn load_pages(
        &mut self,
        observe: &mut dyn FnMut(&Progress<'_>) -> bool,
    ) -> Result<(Tally, Vec<PageLoad>), LoadError> {
        let mut sum = Tally::default();
        let mut pages = Vec::new();
        let Amount::Requests(count) = self.plan.amount else { return Ok((sum, pages)) };
        for number in 1..=count {
            if self.site.watch.stop.load(Ordering::Relaxed) {
                break;
            }
            let (plan, site) = (self.plan, &self.site.of_another_client());
            let finished = thread::scope(|scope| {
                let (sender, results) = mpsc::channel();
                scope.spawn(move || {
                    let page = crate::page::Page::new(plan, Instant::now());
                    send_result(work(site, plan.connections as usize, page, &sender), &sender);
                });
                self.watcher.watch(&results, observe)
            })?;
            for (mut tally, page) in finished {
                tally.requests.total = page.requests() as u64;
                match page::page_load(&tally, &page) {
                    Ok(load) => pages.push(load),
                    Err(failure) => tally.blame(&format!("page load {number} failed: {failure}"), 1),
                }
                sum.merge(tally);
            }
        }
        Ok((sum, pages))
    }
}

/// Which of the workers of a run.
#[derive(Clone, Copy)]
struct Part {
    client: u32,
    thread: u32,
}

/// What every worker gets a part of.
#[derive(Clone)]
struct Crew<'a> {
    plan: &'a Plan,
    mix: &'a Mix,
    /// Workers in all.
    threads: u64,
}

impl Crew<'_> {
    /// Does one worker's part and sends the result.
    fn work<C: Channel>(&self, site: &Site<C>, part: Part, sender: &Sender<FromWorker<Tally>>) {
        let Plan { connections, threads, clients, .. } = *self.plan;
        let number = u64::from(part.client * threads + part.thread);
        let lanes = split(connections.into(), threads.into()).nth(part.thread as usize).unwrap_or_default();
        let mix = self.mix.offset(number);
        let starts = site.window.starts;
        let result = match &self.plan.model {
            Model::ClosedLoop => self.run(site, lanes, ClosedLoop::new(mix, self.shares(part)), sender),
            Model::OpenLoop { stages, arrivals, seed } => {
                let times = ArrivalTimes::new(stages, *arrivals, *seed, number as u32, self.threads as u32);
                let limit = self.limit(number);
                let schedule = OpenLoop::new(mix, times, starts, limit, self.plan.timeout);
                self.run(site, lanes, schedule, sender)
            }
            Model::Users { stages, think } => {
                let changes = match stages.as_slice() {
                    [] => vec![(starts, lanes as usize)],
                    stages => changes(stages, starts, part.thread, threads),
                };
                self.run(site, lanes, Users::new(mix, self.shares(part), *think, changes), sender)
            }
            Model::Pool { workers, think } => {
                let limit = split_amount(self.plan.amount, clients.into()).nth(part.client as usize).flatten();
                self.run(site, lanes, Pool::new(mix, *workers, *think, limit, starts), sender)
            }
            Model::Pages => return,
        };
        send_result(result, sender);
    }

    fn run<C: Channel, S: Schedule>(
        &self,
        site: &Site<C>,
        lanes: u64,
        schedule: S,
        sender: &Sender<FromWorker<Tally>>,
    ) -> Result<Tally, LoadError> {
        work(site, lanes as usize, schedule, sender).map(|(tally, _)| tally)
    }

    /// Requests of each lane of a worker.
    fn shares(&self, part: Part) -> Vec<Option<u64>> {
        let Plan { connections, threads, clients, .. } = *self.plan;
        let all: Vec<Option<u64>> =
            split_amount(self.plan.amount, u64::from(connections) * u64::from(clients)).collect();
        let mut start = (part.client * connections) as usize;
        let mut lanes = split(connections.into(), threads.into());
        start += lanes.by_ref().take(part.thread as usize).sum::<u64>() as usize;
        all[start..start + lanes.next().unwrap_or_default() as usize].to_vec()
    }

    /// Requests of a worker.
    fn limit(&self, number: u64) -> Option<u64> {
        split_amount(self.plan.amount, self.threads).nth(number as usize).flatten()
    }
}

fn work<C: Channel, S: Schedule, T>(
    site: &Site<C>,
    lanes: usize,
    schedule: S,
    sender: &Sender<FromWorker<T>>,
) -> Result<(Tally, S), LoadError> {
    // The receiver waits for every worker, so it is there.
    let mut tell = |second| drop(sender.send(FromWorker::Second(second)));
    Worker::<C, _>::new(site, lanes, schedule)?.run(&mut tell)
}

fn send_result<T>(result: Result<T, LoadError>, sender: &Sender<FromWorker<T>>) {
    let _ = sender.send(FromWorker::Finished(result));
}

/// The requests of each of so many parts; `None` is as many as fit into the time.
fn split_amount(amount: Amount, parts: u64) -> impl Iterator<Item = Option<u64>> {
    let total = match amount {
        Amount::Requests(requests) => Some(requests),
        Amount::Duration(_) => None,
    };
    split(total.unwrap_or_default(), parts).map(move |share| total.and(Some(share)))
}

/// When how many users of one thread are active: users are dealt to the threads in turn.
fn changes(stages: &[Stage], starts: Instant, thread: u32, threads: u32) -> Vec<(Instant, usize)> {
    let own = |users: u32| (users + threads - 1 - thread) / threads;
    steps(stages).into_iter().map(|(offset, users)| (starts + offset, own(users) as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_dealt_to_threads_in_turn() {
        let starts = Instant::now();
        let stages = [Stage { length: Duration::ZERO, level: 5.0 }];
        let last = |thread| changes(&stages, starts, thread, 2).last().unwrap().1;
        assert_eq!((last(0), last(1)), (3, 2));
    }

    #[test]
    fn amounts_are_split_without_loss() {
        let shares: Vec<_> = split_amount(Amount::Requests(5), 2).collect();
        assert_eq!(shares, [Some(3), Some(2)]);
        assert_eq!(split_amount(Amount::Duration(Duration::from_secs(1)), 2).collect::<Vec<_>>(), [None, None]);
    }
}
