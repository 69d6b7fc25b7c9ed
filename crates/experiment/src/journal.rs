use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use measure::Trial;

use crate::Error;

/// The record of finished trials: one JSON object per line, appended and synced, never rewritten.
///
/// A process that dies in the middle of a line leaves a torn last line; opening cuts it off, so that the journal holds
/// every finished trial exactly once.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    trials: Vec<Trial>,
}

impl Journal {
    /// Opens the journal for this process alone, creating it when it is not there.
    pub(crate) fn open(path: &Path) -> Result<Journal, Error> {
        let read = |source| Error::Read { path: path.to_owned(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(read)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(read(source)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(read)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        let write = |source| Error::Write { path: path.to_owned(), source };
        file.set_len(whole as u64).map_err(write)?;
        file.seek(SeekFrom::End(0)).map_err(write)?;
        let lines = bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate();
        let trials = lines.map(|(index, line)| {
            serde_json::from_slice(line).map_err(|error| Error::Journal {
                path: path.to_owned(),
                line: index + 1,
                message: error.to_string(),
            })
        });
        Ok(Journal { path: path.to_owned(), trials: trials.collect::<Result<_, _>>()?, file })
    }

    /// Every trial recorded so far, in order.
    pub(crate) fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Appends one trial and waits until it is on disk. On failure (a full disk) the file is as it was before.
    pub(crate) fn append(&mut self, trial: Trial) -> Result<(), Error> {
        let mut line = serde_json::to_vec(&trial).expect("a trial can always be written as JSON");
        line.push(b'\n');
        if let Err(source) = self.write_synced(&line) {
            return Err(Error::Write { path: self.path.clone(), source });
        }
        self.trials.push(trial);
        Ok(())
    }

    fn write_synced(&mut self, line: &[u8]) -> io::Result<()> {
        let before = self.file.stream_position()?;
        let result = self.file.write_all(line).and_then(|()| self.file.sync_data());
        if result.is_err() {
            // Best effort: a torn line is cut off at the next opening as well.
            let _ = self.file.set_len(before);
            let _ = self.file.seek(SeekFrom::Start(before));
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use measure::Protocol;

    use super::*;

    fn trial(round: u32) -> Trial {
        Trial {
            round,
            entrant: 0,
            protocol: Protocol::H2,
            link: "slow-4g".to_owned(),
            attempt: 1,
            seed: 7,
            started_unix_ms: 0,
            command: vec!["fairlane".to_owned()],
            origin_command: None,
            invalid: Vec::new(),
            time_ms: Some(1234.5),
            load: None,
            link_summary: None,
            origin: None,
        }
    }

    #[test]
    fn a_torn_last_line_is_cut_off_and_the_rest_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trials.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(trial(1)).unwrap();
        journal.append(trial(2)).unwrap();
        drop(journal);
        let whole = fs::read(&path).unwrap();
        for torn in 1..whole.len() / 2 {
            fs::write(&path, &whole[..whole.len() - torn]).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            assert_eq!(journal.trials(), [trial(1)], "{torn} bytes torn off");
            journal.append(trial(2)).unwrap();
            drop(journal);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn a_damaged_line_is_named_and_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trials.jsonl");
        let text = format!("{}\nnot a trial\n", serde_json::to_string(&trial(1)).unwrap());
        fs::write(&path, &text).unwrap();
        let message = Journal::open(&path).err().unwrap().to_string();
        assert!(message.contains("line 2"), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn two_processes_cannot_write_the_same_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trials.jsonl");
        let first = Journal::open(&path).unwrap();
        assert!(matches!(Journal::open(&path), Err(Error::Busy(_))));
        drop(first);
        assert!(Journal::open(&path).is_ok());
    }

    #[test]
    fn a_full_disk_loses_nothing_that_was_recorded() {
        // /dev/full takes no byte: every write fails with ENOSPC.
        let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut journal = Journal { path: "/dev/full".into(), file: full, trials: vec![trial(1)] };
        let message = journal.append(trial(2)).unwrap_err().to_string();
        assert!(message.contains("cannot write /dev/full"), "{message}");
        assert_eq!(journal.trials(), [trial(1)]);
    }
}
