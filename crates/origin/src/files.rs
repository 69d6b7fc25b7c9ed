use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::Error;

/// Who may read a file.
#[derive(Clone, Copy)]
pub enum Access {
    /// Everyone (0644).
    Everyone,
    /// Its owner (0600).
    Owner,
}

/// Writes a file so that a reader sees all of it or nothing: a temporary file beside it, then a rename.
pub fn write_atomically(path: &Path, contents: &[u8], access: Access) -> Result<(), Error> {
    let temporary = temporary(path);
    write_new(&temporary, contents, access).and_then(|()| fs::rename(&temporary, path)).map_err(|source| {
        // Nothing more can be done about a leftover; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
        Error::File { action: "write", path: path.to_owned(), source }
    })
}

/// Checks that [`write_atomically`] can write there, without touching what is there.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    let check = || {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let temporary = temporary(path);
        write_new(&temporary, &[], Access::Owner)?;
        fs::remove_file(&temporary)
    };
    check().map_err(|source| Error::File { action: "write", path: path.to_owned(), source })
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_new(path: &Path, contents: &[u8], access: Access) -> io::Result<()> {
    let mode = match access {
        Access::Everyone => 0o644,
        Access::Owner => 0o600,
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(contents)
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|source| Error::File { action: "read", path: path.to_owned(), source })
}

/// Makes a directory and those above it.
pub fn create_directory(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::File { action: "create", path: PathBuf::from(path), source })
}
