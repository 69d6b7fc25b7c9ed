use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use measure::{Histogram, Interval, LoadSummary};

use super::hdr_log::HdrLog;
use super::thresholds::Verdict;
use super::{OutputArgs, junit, k6};
use crate::failure::Failure;

/// The files that a run leaves behind. They are created before it starts, so that a bad path costs no run.
pub struct Files {
    hdr_log: Option<(PathBuf, HdrLog)>,
    summary_export: Option<(PathBuf, File)>,
    junit: Option<(PathBuf, File)>,
}

impl Files {
    pub fn create(output: &OutputArgs) -> Result<Files, Failure> {
        let log = |(path, file)| (path, HdrLog::new(file));
        Ok(Files {
            hdr_log: create(output.hdr_log.as_deref())?.map(log),
            summary_export: create(output.summary_export.as_deref())?,
            junit: create(output.junit.as_deref())?,
        })
    }

    /// Takes the latencies of one second.
    pub fn add_second(&mut self, interval: &Interval, latencies: &Histogram) {
        if let Some((_, log)) = &mut self.hdr_log {
            log.add(interval, latencies);
        }
    }

    /// Writes what is known at the end. Gives a sentence for each file that is not complete.
    pub fn finish(self, summary: &LoadSummary, verdict: &Verdict<'_>) -> Vec<String> {
        let texts = [
            self.summary_export.map(|(path, file)| (path, file, k6::export(summary, verdict))),
            self.junit.map(|(path, file)| (path, file, junit::report(summary, verdict))),
        ];
        let written = texts.into_iter().flatten().map(|(path, mut file, text)| (path, file.write_all(text.as_bytes())));
        let logged = self.hdr_log.into_iter().map(|(path, log)| (path, log.finish()));
        let faults = written.chain(logged).filter_map(|(path, result)| Some((path, result.err()?)));
        faults.map(|(path, error)| format!("cannot write {}: {error}", path.display())).collect()
    }
}

fn create(path: Option<&Path>) -> Result<Option<(PathBuf, File)>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let file = File::create(path).map_err(|error| Failure::Usage(format!("cannot create {}: {error}", path.display())));
    Ok(Some((path.to_owned(), file?)))
}
