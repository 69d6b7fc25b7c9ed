use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::{Error, Experiment};

/// A run directory: everything that a race leaves behind, and everything that it needs to go on.
///
/// ```text
/// runs/page-20270101-120000/
///   experiment.toml   the resolved experiment
///   trials.jsonl      the journal, one trial per line
///   summary.json      the answer                 trials.csv   one row per trial
///   report.html       the answer for a reader
///   tls/              the certificate authority and leaf that every trial used
///   scratch/          what the child processes of the latest trials wrote
/// ```
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes the directory and writes the resolved experiment into it.
    ///
    /// # Errors
    /// The directory holds something already, or cannot be written; nothing is left behind then.
    pub fn create(path: &Path, experiment: &Experiment) -> Result<RunDirectory, Error> {
        let failed = |source| Error::Write { path: path.to_owned(), source };
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(failed(std::io::Error::other(
                "it exists and is not empty: name another directory, or go on with --resume",
            )));
        }
        fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let directory = RunDirectory { path };
        let filled = fs::create_dir_all(directory.scratch())
            .map_err(failed)
            .and_then(|()| directory.write("experiment.toml", &experiment.to_toml()));
        match filled {
            Ok(()) => Ok(directory),
            Err(error) => {
                directory.discard();
                Err(error)
            }
        }
    }

    /// Opens the directory of an earlier run and reads its experiment.
    ///
    /// # Errors
    /// It is not a run directory.
    pub fn open(path: &Path) -> Result<(RunDirectory, Experiment), Error> {
        let experiment = Experiment::read(&path.join("experiment.toml"))?;
        let read = |source| Error::Read { path: path.to_owned(), source };
        let directory = RunDirectory { path: path.canonicalize().map_err(read)? };
        fs::create_dir_all(directory.scratch()).map_err(|source| Error::Write { path: directory.scratch(), source })?;
        Ok((directory, experiment))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the certificate that the built-in origin uses.
    pub fn tls(&self) -> PathBuf {
        self.path.join("tls")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("trials.jsonl")
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.path.join("scratch")
    }

    /// Writes one file as a whole: it is there complete and synced, or as it was before.
    ///
    /// # Errors
    /// The file cannot be written, for example because the disk is full.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let (path, draft) = (self.path.join(name), self.path.join(format!(".{name}.draft")));
        let written = File::create(&draft)
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&draft, &path));
        written.map_err(|source| {
            // The draft is of no use to anyone; the error that matters is the first one.
            let _ = fs::remove_file(&draft);
            Error::Write { path, source }
        })
    }

    /// Removes a directory in which nothing was measured.
    pub fn discard(self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        Experiment::parse("page", include_str!("../../../experiments/page.toml")).unwrap()
    }

    #[test]
    fn a_directory_opens_with_the_experiment_it_was_made_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs/page");
        RunDirectory::create(&path, &experiment()).unwrap();
        let (directory, read) = RunDirectory::open(&path).unwrap();
        assert_eq!(read, experiment());
        directory.write("summary.json", "{}").unwrap();
        assert_eq!(fs::read_to_string(path.join("summary.json")).unwrap(), "{}");
        let message = RunDirectory::create(&path, &experiment()).err().unwrap().to_string();
        assert!(message.contains("--resume"), "{message}");
    }

    #[test]
    fn what_is_not_a_run_directory_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let message = RunDirectory::open(folder.path()).err().unwrap().to_string();
        assert!(message.contains("experiment.toml"), "{message}");
    }
}
