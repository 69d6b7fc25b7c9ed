use measure::{CongestionControl, Environment, Protocol, Trial};

use crate::counts::Observed;
use crate::rounds::Rounds;
use crate::statistics::{median, median_interval};
use crate::summary::{Condition, Ends, Plan};
use crate::{bottleneck, counts, entrants};

/// Describes every cell of the matrix.
pub(crate) fn conditions(plan: &Plan, trials: &[Trial], rounds: &Rounds, environment: &Environment) -> Vec<Condition> {
    let labels = entrants::labels(&plan.entrants);
    let cells = plan.links.iter().flat_map(|link| plan.entrants.iter().enumerate().map(move |cell| (link, cell)));
    let describe = |link: &str, entrant: usize, protocol: Protocol| {
        let valid = rounds.trials(link, entrant);
        let times = rounds.times_ms(link, entrant);
        let interval = median_interval(&times);
        let tried = trials.iter().filter(|trial| trial.link == link && trial.entrant == entrant);
        Condition {
            entrant,
            protocol,
            label: labels[entrant].clone(),
            link: link.to_owned(),
            trials: valid.len() as u32,
            invalid: tried.filter(|trial| !trial.is_valid()).count() as u32,
            median_ms: median(&times),
            low_ms: interval.map(|(low, _)| low),
            high_ms: interval.map(|(_, high)| high),
            connections: median_of(&valid, |trial| best(counts::connections(trial))),
            handshakes: median_of(&valid, |trial| best(counts::handshakes(trial))),
            retransmissions: median_of(&valid, |trial| counts::retransmissions(trial).map(|count| count as f64)),
            client_cpu_ms: median_of(&valid, |trial| counts::client_cpu_us(trial).map(milliseconds)),
            origin_cpu_ms: median_of(&valid, |trial| counts::origin_cpu_us(trial).map(milliseconds)),
            congestion_control: Ends {
                client: first(&valid, |trial| trial.load.as_ref().map(|load| load.congestion_control.clone())),
                origin: first(&valid, origin_congestion_control),
            },
            initial_window: Ends {
                client: first(&valid, client_initial_window),
                origin: first(&valid, origin_initial_window),
            },
            bound: bottleneck::bound(&valid, environment.processors),
        }
    };
    cells.map(|(link, (entrant, protocol))| describe(&link.name, entrant, *protocol)).collect()
}

fn median_of(trials: &[&Trial], value: impl Fn(&Trial) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = trials.iter().filter_map(|trial| value(trial)).collect();
    median(&values)
}

fn first<T>(trials: &[&Trial], value: impl Fn(&Trial) -> Option<T>) -> Option<T> {
    trials.iter().find_map(|trial| value(trial))
}

/// The wire is believed first; without a tap, the client.
fn best(observed: Observed) -> Option<f64> {
    observed.wire.or(observed.client).map(|count| count as f64)
}

fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// A lab sets TCP at both ends, whatever the server is; else it is known only of ours, as QUIC's is.
fn origin_congestion_control(trial: &Trial) -> Option<String> {
    match trial.protocol {
        Protocol::H3 => trial.origin.as_ref().map(|origin| origin.quic_congestion_control.clone()),
        _ => {
            let lab = trial.link_summary.as_ref().map(|link| link.congestion_control.clone());
            lab.or_else(|| trial.origin.as_ref()?.tcp_congestion_control.clone())
        }
    }
}

/// QUIC's is the client's own; a lab sets TCP's at both ends, which the client cannot see.
fn client_initial_window(trial: &Trial) -> Option<u32> {
    let own = trial.load.as_ref().and_then(|load| load.initial_window_packets);
    own.or_else(|| trial.link_summary.as_ref().map(|link| link.initial_window_packets))
}

fn origin_initial_window(trial: &Trial) -> Option<u32> {
    match trial.protocol {
        Protocol::H3 => {
            let bytes = trial.origin.as_ref()?.quic_initial_window_bytes;
            u32::try_from(bytes / CongestionControl::PACKET_BYTES).ok()
        }
        _ => trial.link_summary.as_ref().map(|link| link.initial_window_packets),
    }
}
