//! Durations, rates, sizes and shares as people write them: `20ms`, `1.6mbit`, `64kB`, `2%`.
//!
//! Values are integers in base units (nanoseconds, bits per second, bytes) so that the link model never touches a
//! float; only a share of packets is a fraction.

use std::time::Duration;

/// A quantity could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is not {expected}")]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
}

/// Reads a duration: a number and `ns`, `us`, `ms`, `s`, `m` or `h`. A bare number counts seconds, as in h2load.
pub fn parse_duration(text: &str) -> Result<Duration, ParseUnitError> {
    const EXPECTED: &str = "a duration such as 20ms, 1.5s, 2m or 500us";
    const UNITS: [(&str, f64); 7] =
        [("", 1e9), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    scaled(text, &UNITS, EXPECTED).map(Duration::from_nanos)
}

/// Reads a rate in bits per second: a number and `bit`, `kbit`, `mbit` or `gbit` (powers of 1000).
pub fn parse_rate(text: &str) -> Result<u64, ParseUnitError> {
    const EXPECTED: &str = "a rate such as 1.6mbit, 750kbit or 1gbit";
    const UNITS: [(&str, f64); 4] = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    scaled(text, &UNITS, EXPECTED)
}

/// Reads a size in bytes: a number and `B`, `kB`, `MB`, `GB` (powers of 1000) or `KiB`, `MiB`, `GiB` (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, ParseUnitError> {
    const EXPECTED: &str = "a size such as 64kB, 1MiB or 1500B";
    const UNITS: [(&str, f64); 8] = [
        ("", 1.0),
        ("b", 1.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("kib", 1024.0),
        ("mib", 1048576.0),
        ("gib", 1073741824.0),
    ];
    scaled(text, &UNITS, EXPECTED)
}

/// Reads a share between 0 and 1: `2%` or `0.02`.
pub fn parse_share(text: &str) -> Result<f64, ParseUnitError> {
    const EXPECTED: &str = "a share such as 2% or 0.02, between 0 and 100 %";
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(value) if (0.0..=scale).contains(&value) => Ok(value / scale),
        _ => Err(ParseUnitError { text: text.to_owned(), expected: EXPECTED }),
    }
}

fn scaled(text: &str, units: &[(&str, f64)], expected: &'static str) -> Result<u64, ParseUnitError> {
    let error = || ParseUnitError { text: text.to_owned(), expected };
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale).ok_or_else(error)?;
    let value = number.parse::<f64>().map_err(|_| error())? * scale;
    if value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(error()) }
}

/// Writes a duration with three significant digits: `812 us`, `3.41 s`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds >= 60.0 {
        format!("{}:{:02} min", duration.as_secs() / 60, duration.as_secs() % 60)
    } else {
        significant(seconds, &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)])
    }
}

/// Writes a rate: `1.6 Mbit/s`, `750 kbit/s`.
pub fn format_rate(bits_per_second: u64) -> String {
    plain(bits_per_second as f64, &[("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)])
}

/// Writes a size in powers of 1000: `64 kB`, `1.05 MB`.
pub fn format_size(bytes: u64) -> String {
    plain(bytes as f64, &[("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)])
}

/// Writes a share as a percentage without trailing zeros: `2 %`, `0.5 %`.
pub fn format_share(share: f64) -> String {
    format!("{} %", trimmed(share * 100.0, 3))
}

fn significant(value: f64, units: &[(&str, f64)]) -> String {
    let (name, scale) = units.iter().find(|(_, scale)| value >= *scale).unwrap_or(&units[units.len() - 1]);
    let value = value / scale;
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {name}")
}

fn plain(value: f64, units: &[(&str, f64)]) -> String {
    let (name, scale) = units.iter().find(|(_, scale)| value >= *scale).unwrap_or(&units[units.len() - 1]);
    format!("{} {name}", trimmed(value / scale, 2))
}

fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_rate("1.6mbit"), Ok(1_600_000));
        assert_eq!(parse_rate("750kbit"), Ok(750_000));
        assert_eq!(parse_size("64kB"), Ok(64_000));
        assert_eq!(parse_size("1MiB"), Ok(1_048_576));
        assert_eq!(parse_size("1500"), Ok(1500));
        assert_eq!(parse_share("2%"), Ok(0.02));
        assert_eq!(parse_share("0.5 %"), Ok(0.005));
        assert_eq!(parse_share("0.25"), Ok(0.25));
    }

    #[test]
    fn names_what_it_cannot_read() {
        for text in ["", "ms", "-3ms", "5 parsecs", "1..2s", "1e99h"] {
            assert!(parse_duration(text).unwrap_err().to_string().contains("such as 20ms"), "{text}");
        }
        assert!(parse_rate("1.6").is_err(), "a rate without a unit is ambiguous");
        assert!(parse_share("101%").is_err());
        assert!(parse_share("-1%").is_err());
        assert!(parse_share("NaN").is_err());
    }

    #[test]
    fn writes_few_digits() {
        assert_eq!(format_duration(Duration::from_micros(812)), "812 us");
        assert_eq!(format_duration(Duration::from_millis(3412)), "3.41 s");
        assert_eq!(format_duration(Duration::from_millis(61_000)), "1:01 min");
        assert_eq!(format_rate(1_600_000), "1.6 Mbit/s");
        assert_eq!(format_rate(750_000), "750 kbit/s");
        assert_eq!(format_size(64_000), "64 kB");
        assert_eq!(format_share(0.02), "2 %");
    }
}
