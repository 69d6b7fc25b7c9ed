use std::str::FromStr;
use std::time::Duration;

use load::{Amount, Arrivals, Model, Stage};
use measure::units::parse_duration;

/// How many requests there are, and what decides when each goes out.
#[derive(clap::Args)]
#[command(next_help_heading = "How many, and when")]
pub struct PaceArgs {
    /// Requests in all; with --page, page loads [default: 1]
    #[arg(short = 'n', long, value_name = "N", conflicts_with_all = ["duration", "stages"])]
    requests: Option<u64>,
    /// Make as many requests as fit in this time, for example 10s
    #[arg(short = 'D', long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["page", "stages"])]
    duration: Option<Duration>,
    /// Time before the measurement in which requests run already; with --stages, the first part of them
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["requests", "page"])]
    warm_up_time: Option<Duration>,
    /// Open loop: requests per second, or 600/m, whatever the server does
    ///
    /// A request that finds no free connection or stream waits for one; its latency since it was due is reported beside
    /// the one since it was sent. What waits for longer than the timeout is dropped and counted. So that many may be in
    /// flight, -c is 100 for HTTP/1.1 by default, and -m 100 for HTTP/2 and HTTP/3.
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with_all = ["vus", "workers", "page"])]
    rate: Option<f64>,
    /// With --rate: uniform, or poisson as independent users arrive [default: uniform]
    #[arg(long, value_name = "HOW", value_parser = parse_arrivals, requires = "rate")]
    arrivals: Option<Arrivals>,
    /// With --arrivals poisson: seed of the randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ramps from --rate or --vus on: 10s:100,1m:500,10s:0 reaches 100 within 10 s, 500 a minute later, and so on
    #[arg(long, value_name = "TIME:LEVEL,…", value_delimiter = ',')]
    stages: Vec<Ramp>,
    /// Virtual users, each with a connection of its own, one request at a time
    #[arg(long, value_name = "N", conflicts_with_all = ["connections", "workers", "page"])]
    vus: Option<u32>,
    /// With --vus or --workers: pause between a response and the next request
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    think: Option<Duration>,
    /// Workers with one request at a time each, sharing connections that are opened when they are needed
    #[arg(long, value_name = "N", conflicts_with_all = ["connections", "page", "stages"])]
    workers: Option<u32>,
    /// With --workers: connections at once [default: one for each worker]
    #[arg(long, value_name = "N", requires = "workers")]
    max_connections: Option<u32>,
    /// Do all of this as so many clients that share nothing; -n and --rate are divided among them, -c is that of each
    #[arg(long, value_name = "N", default_value_t = 1)]
    clients: u32,
    /// Load the URL as a page, with the objects it embeds, -n times, each with fresh connections like a browser's
    #[arg(long)]
    page: bool,
}

/// What follows for a plan.
pub struct Pace {
    pub model: Model,
    pub amount: Amount,
    pub warm_up: Duration,
    pub clients: u32,
    /// Where the model decides on it.
    pub connections: Option<u32>,
}

/// A stage as it is written: `10s:100`.
#[derive(Clone, Debug, PartialEq)]
struct Ramp(Stage);

impl PaceArgs {
    /// # Errors
    /// Flags that do not fit together.
    pub fn decide(&self) -> Result<Pace, String> {
        let warm_up = self.warm_up_time.unwrap_or_default();
        let amount = self.amount(warm_up)?;
        if self.think.is_some() && self.vus.is_none() && self.workers.is_none() {
            return Err("--think is a pause of users or workers: add --vus or --workers".to_owned());
        }
        let think = self.think.unwrap_or_default();
        let mut connections = None;
        let model = if let Some(rate) = self.rate {
            self.open_loop(rate, amount, warm_up)?
        } else if let Some(users) = self.vus {
            let stages = if self.stages.is_empty() { Vec::new() } else { self.stages(f64::from(users)) };
            connections = Some(stages.iter().fold(users, |most, stage| most.max(stage.level.ceil() as u32)));
            if connections == Some(0) {
                return Err("--vus 0 does nothing; give at least 1, or --stages that reach more".to_owned());
            }
            Model::Users { stages, think }
        } else if let Some(workers) = self.workers {
            connections = Some(self.max_connections.unwrap_or(workers));
            if connections == Some(0) {
                return Err(
                    "a pool needs workers and connections; give --workers and --max-connections at least 1".to_owned()
                );
            }
            Model::Pool { workers, think }
        } else if self.page {
            Model::Pages
        } else {
            Model::ClosedLoop
        };
        Ok(Pace { model, amount, warm_up, clients: self.clients, connections })
    }

    fn amount(&self, warm_up: Duration) -> Result<Amount, String> {
        if self.stages.is_empty() {
            let requests = Amount::Requests(self.requests.unwrap_or(1));
            return Ok(self.duration.map_or(requests, Amount::Duration));
        }
        if self.rate.is_none() && self.vus.is_none() {
            return Err("--stages go on from --rate (requests per second) or --vus (users): add one, such as --rate 0"
                .to_owned());
        }
        let all: Duration = self.stages.iter().map(|Ramp(stage)| stage.length).sum();
        match all.checked_sub(warm_up) {
            Some(measured) if !measured.is_zero() => Ok(Amount::Duration(measured)),
            _ => {
                Err("the stages end before there is anything to measure; make them longer than --warm-up-time"
                    .to_owned())
            }
        }
    }

    fn open_loop(&self, rate: f64, amount: Amount, warm_up: Duration) -> Result<Model, String> {
        /// Longer than any run: a number of requests ends it.
        const ENDLESS: Duration = Duration::from_secs(1_000_000_000);
        let stages = match (amount, self.requests) {
            _ if !self.stages.is_empty() => self.stages(rate),
            (Amount::Duration(length), _) => constant(rate, warm_up + length),
            (Amount::Requests(_), Some(_)) => constant(rate, ENDLESS),
            (Amount::Requests(_), None) => {
                return Err("--rate says how fast, but not how long: add -D 10s, -n or --stages".to_owned());
            }
        };
        Ok(Model::OpenLoop { stages, arrivals: self.arrivals.unwrap_or(Arrivals::Uniform), seed: self.seed })
    }

    fn stages(&self, start: f64) -> Vec<Stage> {
        let start = Stage { length: Duration::ZERO, level: start };
        std::iter::once(start).chain(self.stages.iter().map(|Ramp(stage)| *stage)).collect()
    }
}

fn constant(rate: f64, length: Duration) -> Vec<Stage> {
    vec![Stage { length: Duration::ZERO, level: rate }, Stage { length, level: rate }]
}

impl FromStr for Ramp {
    type Err = String;

    fn from_str(text: &str) -> Result<Ramp, String> {
        let bad = || format!("'{text}' is not a stage; expected a time and the level at its end, such as 10s:100");
        let (length, level) = text.split_once(':').ok_or_else(bad)?;
        let level: f64 = level.parse().map_err(|_| bad())?;
        let length = parse_duration(length).map_err(|_| bad())?;
        if level >= 0.0 && level.is_finite() { Ok(Ramp(Stage { length, level })) } else { Err(bad()) }
    }
}

/// Reads a rate of events: `100` or `100/s`, `6000/m`, `10/100ms`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let bad = || format!("'{text}' is not a rate; expected requests per second such as 100, or 6000/m");
    let (count, period) = text.split_once('/').unwrap_or((text, "s"));
    let count: f64 = count.trim().parse().map_err(|_| bad())?;
    // "m" alone is one minute.
    let period = if period.starts_with(char::is_alphabetic) { format!("1{period}") } else { period.to_owned() };
    let period = parse_duration(&period).map_err(|_| bad())?.as_secs_f64();
    let rate = count / period;
    if rate >= 0.0 && rate.is_finite() { Ok(rate) } else { Err(bad()) }
}

fn parse_arrivals(text: &str) -> Result<Arrivals, String> {
    match text {
        "uniform" => Ok(Arrivals::Uniform),
        "poisson" => Ok(Arrivals::Poisson),
        _ => Err(format!("'{text}' is not a kind of arrivals; expected uniform or poisson")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_period() {
        for (text, rate) in
            [("100", 100.0), ("0.5", 0.5), ("100/s", 100.0), ("600/m", 10.0), ("1/100ms", 10.0), ("0", 0.0)]
        {
            assert_eq!(parse_rate(text), Ok(rate), "{text}");
        }
        for text in ["", "fast", "-1", "1/", "1/0s", "1/parsec", "inf"] {
            assert!(parse_rate(text).unwrap_err().contains("6000/m"), "{text}");
        }
    }

    #[test]
    fn stages_are_a_time_and_a_level() {
        let ramp = Ramp(Stage { length: Duration::from_secs(60), level: 2.5 });
        assert_eq!("1m:2.5".parse(), Ok(ramp));
        for text in ["", "10s", "10s:", ":5", "10s:-1", "10s:NaN", "soon:5"] {
            assert!(text.parse::<Ramp>().unwrap_err().contains("10s:100"), "{text}");
        }
    }
}
