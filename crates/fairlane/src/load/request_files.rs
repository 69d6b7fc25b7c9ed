use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use load::Planned;
use serde::Deserialize;

use crate::failure::Failure;

/// Files that hold what is to be sent; `-` is standard input, which can be read once.
#[derive(Default)]
pub struct Inputs {
    stdin_is_read: bool,
}

impl Inputs {
    pub fn read(&mut self, path: &Path) -> Result<Vec<u8>, Failure> {
        if path != Path::new("-") {
            return fs::read(path).map_err(|error| unreadable(path, &error));
        }
        if std::mem::replace(&mut self.stdin_is_read, true) {
            return Err(Failure::Usage(
                "standard input can be read only once; put one of the two into a file".to_owned(),
            ));
        }
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map_err(|error| unreadable(Path::new("standard input"), &error))?;
        Ok(bytes)
    }

    fn read_text(&mut self, path: &Path) -> Result<String, Failure> {
        String::from_utf8(self.read(path)?)
            .map_err(|_| Failure::Usage(format!("{} is not text in UTF-8", path.display())))
    }
}

/// A body as `-d` names it: a text, `@FILE`, or `@-` for standard input.
pub fn body(inputs: &mut Inputs, data: &str) -> Result<Vec<u8>, Failure> {
    match data.strip_prefix('@') {
        Some(file) => inputs.read(Path::new(file)),
        None => Ok(data.as_bytes().to_vec()),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot read {}: {error}", path.display()))
}

/// The lines of a file that are not blank.
pub fn lines(inputs: &mut Inputs, path: &Path) -> Result<Vec<String>, Failure> {
    let text = inputs.read_text(path)?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// A header field as curl takes it.
pub fn field(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| Failure::Usage(format!("'{text}' is not a header field; expected 'Name: value'")))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// A file of requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestFile {
    /// What paths belong to.
    url: Option<String>,
    #[serde(default)]
    request: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// A URL, or a path.
    url: String,
    #[serde(default = "one")]
    weight: f64,
    method: Option<String>,
    #[serde(default)]
    headers: Vec<String>,
    body: Option<String>,
    /// Relative to the file that names it.
    body_file: Option<PathBuf>,
}

fn one() -> f64 {
    1.0
}

/// Reads a file of requests, with URLs in place of paths, and the URL that its paths belong to.
pub fn toml(inputs: &mut Inputs, path: &Path) -> Result<(Option<String>, Vec<Planned>), Failure> {
    let text = inputs.read_text(path)?;
    let file: RequestFile = toml::from_str(&text)
        .map_err(|error| Failure::Usage(format!("cannot use {}: {}", path.display(), error.to_string().trim_end())))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let planned = file.request.into_iter().map(|entry| entry.plan(inputs, folder));
    Ok((file.url, planned.collect::<Result<_, _>>()?))
}

impl Entry {
    fn plan(self, inputs: &mut Inputs, folder: &Path) -> Result<Planned, Failure> {
        let body = match (self.body, self.body_file) {
            (Some(_), Some(_)) => {
                return Err(Failure::Usage(format!("{}: give either body or body_file", self.url)));
            }
            (Some(text), None) => Some(text.into_bytes()),
            (None, Some(file)) => Some(inputs.read(&folder.join(file))?),
            (None, None) => None,
        };
        let default = if body.is_some() { "POST" } else { "GET" };
        Ok(Planned {
            path: self.url,
            method: self.method.unwrap_or_else(|| default.to_owned()),
            headers: self.headers.iter().map(|text| field(text)).collect::<Result<_, _>>()?,
            body: body.unwrap_or_default().into(),
            weight: self.weight,
        })
    }
}
