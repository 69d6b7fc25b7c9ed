use std::thread;

use measure::{Bottleneck, Histogram, LoadCpu, LoadModel, LoadSummary, PageLoad, Protocol, RateSpread, ReceiveWindows};

use super::watch::Watched;
use crate::Plan;
use crate::plan::Model;
use crate::tally::{Tally, micros};

/// Everything that was measured, in the form that is handed on.
pub(super) fn summary(
    plan: &Plan,
    tally: Tally,
    pages: Vec<PageLoad>,
    watched: Watched,
    log_fault: Option<String>,
) -> LoadSummary {
    let Watched { cpu, intervals, is_warming_up } = watched;
    let log_fault = log_fault.map(|fault| format!("the request log is not complete: {fault}"));
    let warming_up =
        is_warming_up.then(|| "stopped during the warm-up, so the figures are those of the warm-up".to_owned());
    let wall_us = match (tally.first, tally.last) {
        (Some(first), Some(last)) => micros(last.saturating_duration_since(first)),
        _ => 0,
    };
    let wall_s = wall_us as f64 / 1e6;
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let available = wall_us * processors.min(u64::from(plan.threads) * u64::from(plan.clients));
    let bottleneck = if available > 0 && cpu.total_us() * 10 >= available * 9 {
        Bottleneck::Client
    } else if waited(plan, &tally) {
        Bottleneck::Concurrency
    } else {
        Bottleneck::None
    };
    let (tls, congestion_control) =
        tally.description.map_or_else(Default::default, |known| (known.tls, known.congestion_control));
    let answered = tally.in_time.unwrap_or(tally.latency.count());
    let windows = ReceiveWindows {
        stream_bytes: plan.transport.stream_window,
        connection_bytes: plan.transport.connection_window,
    };
    LoadSummary {
        schema: LoadSummary::SCHEMA,
        url: plan.target.url().to_string(),
        different_requests: plan.requests.len() as u32,
        protocol: plan.protocol,
        tls,
        model: match plan.model {
            Model::ClosedLoop => LoadModel::ClosedLoop,
            Model::OpenLoop { .. } => LoadModel::OpenLoop,
            Model::Users { .. } => LoadModel::Users,
            Model::Pool { .. } => LoadModel::Pool,
            Model::Pages => LoadModel::Page,
        },
        connections_limit: plan.connections,
        streams_limit: plan.streams,
        threads: plan.threads,
        clients: plan.clients,
        cpu: LoadCpu::new(cpu, tally.requests.done),
        requests: tally.requests,
        status: tally.status,
        traffic: tally.traffic,
        latency: tally.latency,
        intended_latency_us: tally.intended_latency,
        first_byte_us: tally.first_byte,
        connect_us: tally.connect,
        queue_us: tally.queue,
        rate_per_connection: rates(&tally.rates),
        connections: tally.connections,
        max_in_flight: tally.max_in_flight,
        requests_per_second: if wall_s > 0.0 { answered as f64 / wall_s } else { 0.0 },
        wall_s,
        bottleneck,
        congestion_control,
        initial_window_packets: (plan.protocol == Protocol::H3).then_some(plan.transport.initial_window_packets),
        receive_windows: plan.protocol.multiplexes().then_some(windows),
        quic: tally.quic,
        intervals,
        pages,
        errors: tally.errors,
        faults: log_fault.into_iter().chain(warming_up).collect(),
    }
}

/// Whether more connections or streams would have let requests start when they were due.
fn waited(plan: &Plan, tally: &Tally) -> bool {
    const NOTABLE_US: u64 = 1000;
    let median = tally.queue.quantile_us(0.5).unwrap_or_default();
    matches!(plan.model, Model::OpenLoop { .. }) && (tally.requests.dropped > 0 || median > NOTABLE_US)
}

/// The spread of a histogram of thousandths of requests per second.
fn rates(histogram: &Histogram) -> Option<RateSpread> {
    let spread = histogram.spread()?;
    Some(RateSpread {
        min: spread.min as f64 / 1e3,
        max: spread.max as f64 / 1e3,
        mean: spread.mean / 1e3,
        sd: spread.sd / 1e3,
        within_sd: spread.within_sd,
    })
}
