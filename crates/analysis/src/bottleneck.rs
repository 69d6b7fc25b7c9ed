use measure::{Bottleneck, Trial};

use crate::counts::{client_cpu_us, origin_cpu_us};

/// Share of the CPU time it could use from which a part counts as bound by it.
const BUSY: f64 = 0.9;

/// Who ran out of CPU in more than half of the trials: `client`, `origin`, `machine`.
pub(crate) fn bound(trials: &[&Trial], processors: usize) -> Vec<String> {
    let mostly = |is_bound: fn(&Trial, u64) -> bool| {
        2 * trials.iter().filter(|trial| is_bound(trial, processors as u64)).count() > trials.len()
    };
    let parts = [
        ("client", mostly(client_is_bound)),
        ("origin", mostly(origin_is_bound)),
        ("machine", mostly(machine_is_bound)),
    ];
    parts.into_iter().filter(|(_, is_bound)| *is_bound).map(|(part, _)| part.to_owned()).collect()
}

fn client_is_bound(trial: &Trial, _processors: u64) -> bool {
    trial.load.as_ref().is_some_and(|load| load.bottleneck == Bottleneck::Client)
}

/// One connection is served by one task, so an origin uses no more processors than it has connections.
fn origin_is_bound(trial: &Trial, processors: u64) -> bool {
    let usable = trial.load.as_ref().map_or(1, |load| load.connections.used.max(1)).min(processors);
    is_busy(trial, origin_cpu_us(trial), usable)
}

fn machine_is_bound(trial: &Trial, processors: u64) -> bool {
    let forwarder = trial.link_summary.as_ref().map_or(0, |link| link.forwarder_cpu.total_us());
    let ends = client_cpu_us(trial).zip(origin_cpu_us(trial));
    is_busy(trial, ends.map(|(client, origin)| client + origin + forwarder), processors)
}

fn is_busy(trial: &Trial, cpu_us: Option<u64>, processors: u64) -> bool {
    let duration_us = trial.load.as_ref().map_or(0, |load| load.wall_us());
    cpu_us.is_some_and(|cpu_us| duration_us > 0 && cpu_us as f64 >= BUSY * (duration_us * processors) as f64)
}
