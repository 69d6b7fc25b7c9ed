use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use load::{Expectation, Planned, Target};
use measure::units::parse_size;

use super::request_files::{self, Inputs};
use crate::failure::Failure;

/// What is asked for, and what answers have to be like.
#[derive(clap::Args)]
#[command(next_help_heading = "Requests")]
pub struct RequestArgs {
    /// Where requests go: http://… or https://…
    ///
    /// Several URLs, all of one scheme, host and port, are requested in turn.
    #[arg(value_name = "URL", help_heading = None, required_unless_present_any = ["input_file", "request_file"])]
    urls: Vec<String>,
    /// How often each of several URLs is requested, relative to the others: 3,1
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    weights: Vec<f64>,
    /// Request the URLs of a file in turn, one on each line; - is standard input
    ///
    /// As in h2load, but all of them have to be of one scheme, host and port. Lines may be paths beginning with / if a
    /// URL is given besides, which then is not requested itself.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["weights", "request_file"])]
    input_file: Option<PathBuf>,
    /// Make the requests of a TOML file, each with weight, method, header fields and body; see docs/load.md
    #[arg(long, value_name = "FILE", conflicts_with_all = ["weights", "method", "data", "upload_file"])]
    request_file: Option<PathBuf>,
    /// Request method [default: GET, with -d POST, with -T PUT]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Add a header field; @FILE adds those of a file, one on each line. Host replaces the URL's authority
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Body of each request; @FILE sends a file as it is, @- standard input
    #[arg(short, long, value_name = "BODY", allow_hyphen_values = true, conflicts_with = "upload_file")]
    data: Option<String>,
    /// Upload a file with each request; - is standard input
    #[arg(short = 'T', long, value_name = "FILE")]
    upload_file: Option<PathBuf>,
    /// Statuses that count as success, for example 200,204,3xx [default: 2xx,3xx]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_statuses)]
    expect_status: Vec<RangeInclusive<u16>>,
    /// Bytes that the body of each response must have
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    expect_size: Option<u64>,
}

/// The requests of a run.
pub struct Requests {
    /// The URL that says where they go.
    pub url: String,
    pub planned: Vec<Planned>,
}

impl RequestArgs {
    /// Reads everything that is to be sent.
    pub fn read(&self) -> Result<Requests, Failure> {
        let mut inputs = Inputs::default();
        let common = self.fields(&mut inputs)?;
        let (base, mut requests) = if let Some(file) = &self.request_file {
            let (base, requests) = request_files::toml(&mut inputs, file)?;
            (base.or(self.base("--request-file")?), requests)
        } else if let Some(file) = &self.input_file {
            (self.base("-i")?, request_files::lines(&mut inputs, file)?.into_iter().map(Planned::get).collect())
        } else {
            (None, self.of_command_line()?)
        };
        let plain = self.plain(&mut inputs)?;
        for request in &mut requests {
            if self.request_file.is_none() {
                request.method = plain.method.clone();
                request.body = plain.body.clone();
            }
            // What a request says of itself comes before what is said of all.
            let own = |name: &str| request.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
            let more: Vec<_> = common.iter().filter(|(name, _)| !own(name)).cloned().collect();
            request.headers.extend(more);
        }
        resolve(base, requests)
    }

    pub fn expectation(&self) -> Expectation {
        Expectation { statuses: self.expect_status.clone(), body_bytes: self.expect_size }
    }

    fn of_command_line(&self) -> Result<Vec<Planned>, Failure> {
        let (urls, weights) = (self.urls.len(), self.weights.len());
        if weights != 0 && weights != urls {
            return Err(Failure::Usage(format!(
                "--weights has {weights} numbers for {urls} URLs; give one for each URL"
            )));
        }
        let weights = self.weights.iter().copied().chain(std::iter::repeat(1.0));
        let planned = |(url, weight): (&String, f64)| Planned { weight, ..Planned::get(url.clone()) };
        Ok(self.urls.iter().zip(weights).map(planned).collect())
    }

    /// The URL that the paths of a file belong to.
    fn base(&self, flag: &str) -> Result<Option<String>, Failure> {
        match self.urls.as_slice() {
            [] => Ok(None),
            [url] => Ok(Some(url.clone())),
            _ => Err(Failure::Usage(format!(
                "{flag} names the requests, so at most one URL may stand beside it: the one that its paths belong to"
            ))),
        }
    }

    fn fields(&self, inputs: &mut Inputs) -> Result<Vec<(String, String)>, Failure> {
        let mut fields = Vec::new();
        for text in &self.headers {
            match text.strip_prefix('@') {
                Some(file) => {
                    for line in request_files::lines(inputs, Path::new(file))? {
                        fields.push(request_files::field(&line)?);
                    }
                }
                None => fields.push(request_files::field(text)?),
            }
        }
        Ok(fields)
    }

    /// A request with the method and body that all have, except those of a request file.
    fn plain(&self, inputs: &mut Inputs) -> Result<Planned, Failure> {
        let (default, body) = match (&self.data, &self.upload_file) {
            (Some(data), _) => ("POST", request_files::body(inputs, data)?),
            (None, Some(file)) => ("PUT", inputs.read(file)?),
            (None, None) => ("GET", Vec::new()),
        };
        let method = self.method.clone().unwrap_or_else(|| default.to_owned());
        Ok(Planned { method, body: body.into(), ..Planned::get(String::new()) })
    }
}

/// Turns the URLs of requests into paths, all of them for one origin.
fn resolve(base: Option<String>, mut requests: Vec<Planned>) -> Result<Requests, Failure> {
    let Some(first) = requests.first() else {
        return Err(Failure::Usage("the file names no request; give at least one".to_owned()));
    };
    if base.is_none() && first.path.starts_with('/') {
        return Err(Failure::Usage(format!(
            "'{}' is a path; give the URL that it belongs to as well, such as https://localhost:8443",
            first.path
        )));
    }
    let url = base.unwrap_or_else(|| first.path.clone());
    let origin = Target::parse(&url, None)?;
    for request in &mut requests {
        let target = if request.path.starts_with('/') {
            let joined = origin.url().join(&request.path);
            let joined =
                joined.map_err(|error| Failure::Usage(format!("'{}' is not a path: {error}", request.path)))?;
            Target::parse(joined.as_str(), None)?
        } else {
            Target::parse(&request.path, None)?
        };
        if target.url().origin() != origin.url().origin() {
            let [one, other] = [&target, &origin].map(|target| target.url().origin().ascii_serialization());
            return Err(Failure::Usage(format!(
                "'{}' goes to {one} and other requests of this run to {other}; a run has one scheme, host and port: run \
                 them apart",
                request.path
            )));
        }
        request.path = target.path();
    }
    // What is reported as the run's URL is one that was requested.
    let url = origin.url().join(&requests[0].path).map_or(url, String::from);
    Ok(Requests { url, planned: requests })
}

fn parse_statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let bad = || format!("'{text}' is not a status; expected a number such as 204, a class such as 3xx, or 200-299");
    let status = |text: &str| text.parse().ok().filter(|status| (100..=599).contains(status)).ok_or_else(bad);
    if let Some(class) = text.strip_suffix("xx") {
        let first = status(&format!("{class}00"))?;
        return Ok(first..=first + 99);
    }
    match text.split_once('-') {
        Some((first, last)) => Ok(status(first)?..=status(last)?),
        None => status(text).map(|status| status..=status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_classes_and_ranges() {
        assert_eq!(parse_statuses("204"), Ok(204..=204));
        assert_eq!(parse_statuses("3xx"), Ok(300..=399));
        assert_eq!(parse_statuses("200-206"), Ok(200..=206));
        for text in ["", "20", "6xx", "xx", "2x", "ok"] {
            assert!(parse_statuses(text).unwrap_err().contains("such as 204"), "{text}");
        }
    }

    #[test]
    fn requests_share_an_origin() {
        let resolve = |base: Option<&str>, urls: &[&str]| {
            let requests = urls.iter().map(|url| Planned::get((*url).to_owned())).collect();
            resolve(base.map(str::to_owned), requests)
        };
        let requests = resolve(None, &["http://host:80/a?b", "http://HOST/c#d", "/e f"]).unwrap_or_else(|_| panic!());
        let paths: Vec<&str> = requests.planned.iter().map(|planned| planned.path.as_str()).collect();
        assert_eq!((requests.url.as_str(), paths), ("http://host/a?b", vec!["/a?b", "/c", "/e%20f"]));
        let refused = |base: Option<&str>, urls: &[&str]| match resolve(base, urls) {
            Err(Failure::Usage(message)) => message,
            _ => panic!("{urls:?} was accepted"),
        };
        for other in ["https://host/", "http://host:81/", "http://other/"] {
            let message = refused(None, &["http://host/", other]);
            assert!(message.contains(other) && message.contains("one scheme, host and port"), "{message}");
        }
        assert!(refused(Some("http://host"), &["//other/"]).contains("http://other"));
        assert!(refused(None, &["/a"]).contains("give the URL"));
        assert!(refused(Some("http://host"), &[]).contains("no request"));
    }
}
