//! What a link is like: rate, delay, queue and loss of each direction, and the text that people write for it.
//!
//! A profile is a name, or a name and overrides, or only overrides, separated by spaces:
//!
//! ```text
//! slow-4g
//! slow-4g loss=2%
//! rate=1.6mbit/750kbit rtt=150ms loss=2% queue=64kB
//!
//! rate=R    bit/s of IP packets, `unlimited` without it     delay=D   one way, 0 without it
//! queue=Q   bytes that may wait, see QUEUE_BYTES            rtt=D     both ways together, halved; instead of delay
//! loss=P    share of packets lost at random, 0 without it
//! ```
//!
//! One value holds for both directions; `DOWN/UP` sets them apart, in the order in which providers advertise them.
//!
//! Beware of the names: browsers and WebPageTest use the same words for different links, so `slow-3g` is DevTools'
//! and `3g-slow` is WebPageTest's. There is no `fast-3g`, because DevTools' Fast 3G is now its Slow 4G.

mod named;

use std::fmt;
use std::time::Duration;

use measure::units::{ParseUnitError, format_share, parse_duration, parse_rate, parse_share, parse_size};

use crate::model::Direction;
use named::NAMED;
pub use named::NamedProfile;

/// A link's parameters, all of them resolved.
///
/// [`Display`](fmt::Display) writes them as a text that [`Profile::parse`] reads back to exactly the same parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The text it was read from.
    pub name: String,
    /// Client to origin.
    pub up: DirectionProfile,
    /// Origin to client.
    pub down: DirectionProfile,
}

/// The parameters of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DirectionProfile {
    /// Bits per second of IP packets; `None` is unlimited.
    pub rate: Option<u64>,
    /// One-way delay, nanoseconds.
    pub delay_ns: u64,
    /// Bytes that may wait for the rate, the packet being sent included (drop-tail). Without a rate nothing waits.
    pub queue_bytes: u64,
    /// Share of packets lost at random, 0 to 1.
    pub loss: f64,
}

/// The default of the queue limit; a link with a larger bandwidth-delay product gets that.
pub const QUEUE_BYTES: u64 = 64_000;

/// The text does not describe a link.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProfileError {
    /// Nothing was written.
    #[error("the link is empty: expected a profile such as 'slow-4g', or parameters such as 'rate=5mbit rtt=28ms'")]
    Empty,
    /// The first word is not a name we know.
    #[error("unknown link profile '{name}': expected one of {}, or parameters such as 'rate=5mbit rtt=28ms'", names())]
    UnknownName {
        /// The word.
        name: String,
    },
    /// A later word is not a parameter.
    #[error("'{word}' is not a parameter of a link: after the first word, expected {KEYS}")]
    NotAParameter {
        /// The word.
        word: String,
    },
    /// A parameter that links do not have.
    #[error("unknown parameter '{key}' of a link: expected {KEYS}")]
    UnknownKey {
        /// The parameter's name.
        key: String,
    },
    /// A parameter was given twice.
    #[error("the parameter '{key}' of a link is given twice: keep one")]
    Repeated {
        /// The parameter's name.
        key: String,
    },
    /// Both `delay` and `rtt` were given.
    #[error("'delay' (one way) and 'rtt' (both ways together) set the same thing: keep one")]
    DelayAndRtt,
    /// A value could not be read.
    #[error("the parameter '{key}' of a link cannot be read: {error}")]
    Value {
        /// The parameter's name.
        key: String,
        /// What was expected.
        error: ParseUnitError,
    },
    /// A rate of nothing.
    #[error("a link with rate 0 delivers nothing: give a rate of at least 1bit, or 'unlimited'")]
    ZeroRate,
}

const KEYS: &str = "rate=, delay= or rtt=, queue=, loss=";

fn names() -> String {
    NAMED.iter().map(|named| named.name).collect::<Vec<_>>().join(", ")
}

impl Profile {
    /// Reads a profile; the text is described at the head of this module.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let mut parameters = Parameters::default();
        for (place, word) in text.split_whitespace().enumerate() {
            match word.split_once('=') {
                Some((key, value)) => parameters.set(key, value)?,
                None if place == 0 => parameters.start_from(find(word)?),
                None => return Err(ProfileError::NotAParameter { word: word.to_owned() }),
            }
        }
        let name = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if name.is_empty() { Err(ProfileError::Empty) } else { parameters.resolve(name) }
    }

    /// The profiles that have a name.
    pub fn named() -> &'static [NamedProfile] {
        NAMED
    }

    /// The parameters of a direction.
    pub fn direction(&self, direction: Direction) -> &DirectionProfile {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// The name for a heading: `Slow 4G`, `Slow 4G + 2 % loss`, `Slow 4G, queue=32kB`.
    pub fn title(&self) -> String {
        let mut words = self.name.split(' ').map(|word| find(word).map_or(word, |named| named.title));
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |title, word| match word.strip_prefix("loss=").map(parse_share) {
            Some(Ok(share)) => format!("{title} + {} loss", format_share(share)),
            _ => title + ", " + word,
        })
    }

    /// The parameters in words, down before up: `1.6/0.75 Mbit/s, RTT 150 ms, queue 64 kB, loss 2 %`.
    pub fn describe(&self) -> String {
        let rtt_ns = self.up.delay_ns.saturating_add(self.down.delay_ns);
        let delay = match rtt_ns {
            0 => "no delay".to_owned(),
            rtt_ns => format!("RTT {}", pair(rtt_ns, rtt_ns, &TIMES)),
        };
        let loss = match (self.down.loss, self.up.loss) {
            (0.0, 0.0) => "no loss".to_owned(),
            (down, up) if down == up => format!("loss {}", format_share(down)),
            (down, up) => format!("loss {}/{}", format_share(down), format_share(up)),
        };
        let rate = match (self.down.rate, self.up.rate) {
            (None, None) => return format!("unlimited rate, {delay}, {loss}"),
            (Some(down), Some(up)) => pair(down, up, &RATES),
            (Some(down), None) => format!("{} down, unlimited up", pair(down, down, &RATES)),
            (None, Some(up)) => format!("unlimited down, {} up", pair(up, up, &RATES)),
        };
        let queue = pair(self.down.queue_bytes, self.up.queue_bytes, &SIZES);
        format!("{rate}, {delay}, queue {queue}, {loss}")
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (down, up) = (&self.down, &self.up);
        let rate = |rate: Option<u64>| rate.map_or_else(|| UNLIMITED.to_owned(), |rate| exact(rate, &RATES));
        write!(f, "rate={}", joined(rate(down.rate), rate(up.rate)))?;
        write!(f, " delay={}", joined(exact(down.delay_ns, &TIMES), exact(up.delay_ns, &TIMES)))?;
        write!(f, " queue={}", joined(exact(down.queue_bytes, &SIZES), exact(up.queue_bytes, &SIZES)))?;
        write!(f, " loss={}", joined(down.loss.to_string(), up.loss.to_string()))
    }
}

fn find(name: &str) -> Result<&'static NamedProfile, ProfileError> {
    let unknown = || ProfileError::UnknownName { name: name.to_owned() };
    NAMED.iter().find(|named| named.name == name).ok_or_else(unknown)
}

/// A value for each direction.
#[derive(Clone, Copy)]
struct Both<T> {
    down: T,
    up: T,
}

/// What a text has set so far.
#[derive(Default)]
struct Parameters<'a> {
    given: Vec<&'a str>,
    rate: Option<Both<Option<u64>>>,
    delay: Option<Both<Duration>>,
    queue: Option<Both<u64>>,
    loss: Option<Both<f64>>,
}

const UNLIMITED: &str = "unlimited";

impl<'a> Parameters<'a> {
    fn start_from(&mut self, named: &'static NamedProfile) {
        self.rate = Some(Both { down: named.down, up: named.up });
        self.delay = Some(halved(Duration::from_millis(named.rtt_ms)));
    }

    fn set(&mut self, key: &'a str, value: &str) -> Result<(), ProfileError> {
        if self.given.contains(&key) {
            return Err(ProfileError::Repeated { key: key.to_owned() });
        }
        self.given.push(key);
        if self.given.contains(&"delay") && self.given.contains(&"rtt") {
            return Err(ProfileError::DelayAndRtt);
        }
        let unreadable = |error| ProfileError::Value { key: key.to_owned(), error };
        match key {
            "rate" => self.rate = Some(both(value, read_rate).map_err(unreadable)?),
            "delay" => self.delay = Some(both(value, parse_duration).map_err(unreadable)?),
            "rtt" => self.delay = Some(halved(parse_duration(value).map_err(unreadable)?)),
            "queue" => self.queue = Some(both(value, parse_size).map_err(unreadable)?),
            "loss" => self.loss = Some(both(value, parse_share).map_err(unreadable)?),
            _ => return Err(ProfileError::UnknownKey { key: key.to_owned() }),
        }
        match self.rate {
            Some(Both { down: Some(0), .. } | Both { up: Some(0), .. }) => Err(ProfileError::ZeroRate),
            _ => Ok(()),
        }
    }

    fn resolve(self, name: String) -> Result<Profile, ProfileError> {
        let rate = self.rate.unwrap_or(Both { down: None, up: None });
        let delay = self.delay.unwrap_or(Both { down: Duration::ZERO, up: Duration::ZERO });
        let rtt = delay.down + delay.up;
        let queue = self.queue.unwrap_or(Both { down: queue_for(rate.down, rtt), up: queue_for(rate.up, rtt) });
        let loss = self.loss.unwrap_or(Both { down: 0.0, up: 0.0 });
        let direction = |rate, delay: Duration, queue_bytes, loss| DirectionProfile {
            rate,
            delay_ns: delay.as_nanos() as u64,
            queue_bytes,
            loss,
        };
        Ok(Profile {
            name,
            up: direction(rate.up, delay.up, queue.up, loss.up),
            down: direction(rate.down, delay.down, queue.down, loss.down),
        })
    }
}

/// Reads `VALUE` or `DOWN/UP`.
fn both<T: Copy>(text: &str, read: fn(&str) -> Result<T, ParseUnitError>) -> Result<Both<T>, ParseUnitError> {
    match text.split_once('/') {
        Some((down, up)) => Ok(Both { down: read(down)?, up: read(up)? }),
        None => read(text).map(|value| Both { down: value, up: value }),
    }
}

fn read_rate(text: &str) -> Result<Option<u64>, ParseUnitError> {
    if text == UNLIMITED { Ok(None) } else { parse_rate(text).map(Some) }
}

fn halved(rtt: Duration) -> Both<Duration> {
    Both { down: rtt - rtt / 2, up: rtt / 2 }
}

/// The default queue: the bandwidth-delay product in bytes, at least [`QUEUE_BYTES`].
fn queue_for(rate: Option<u64>, rtt: Duration) -> u64 {
    let product = u128::from(rate.unwrap_or(0)) * rtt.as_nanos() / 8_000_000_000;
    u64::try_from(product).unwrap_or(u64::MAX).max(QUEUE_BYTES)
}

/// The units of a quantity, largest first; the last one is 1.
type Units = [(&'static str, u64)];

const RATES: [(&str, u64); 4] = [("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000), ("kbit/s", 1000), ("bit/s", 1)];
const TIMES: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];
const SIZES: [(&str, u64); 3] = [("MB", 1_000_000), ("kB", 1000), ("B", 1)];

/// Two quantities in the unit that suits the larger one: `1.6/0.75 Mbit/s`; one if they are equal.
fn pair(down: u64, up: u64, units: &Units) -> String {
    let larger = down.max(up);
    let (unit, scale) = units.iter().find(|(_, scale)| larger >= *scale).unwrap_or(&units[units.len() - 1]);
    let text = |value: u64| (value as f64 / *scale as f64).to_string();
    format!("{} {unit}", joined(text(down), text(up)))
}

fn joined(down: String, up: String) -> String {
    if down == up { down } else { format!("{down}/{up}") }
}

/// A quantity as an integer of the largest unit that needs no fraction, in the spelling of `measure::units`.
fn exact(value: u64, units: &Units) -> String {
    let fits = units.iter().find(|(_, scale)| value.is_multiple_of(*scale) && value > 0);
    let (unit, scale) = fits.unwrap_or(&units[units.len() - 1]);
    format!("{}{}", value / scale, unit.trim_end_matches("/s"))
}

#[cfg(test)]
mod tests;
