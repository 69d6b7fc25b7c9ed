//! The secrets of connections, so that others can decrypt what was recorded of them.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::KeyLog;

use crate::LoadError;

/// Appends to a file, in the format of NSS that Wireshark reads (draft-ietf-tls-keylogfile).
#[derive(Debug)]
struct KeyLogFile(Mutex<File>);

/// The file that the environment names, as it does for curl and browsers.
pub(super) fn named_by_environment() -> Option<PathBuf> {
    env::var_os("SSLKEYLOGFILE").filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// A key log to a file. If the file is new, nobody else can read it.
pub(super) fn open(path: PathBuf) -> Result<Arc<dyn KeyLog>, LoadError> {
    match OpenOptions::new().append(true).create(true).mode(0o600).open(&path) {
        Ok(file) => Ok(Arc::new(KeyLogFile(Mutex::new(file)))),
        Err(source) => Err(LoadError::File { path, source }),
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // There is nobody to tell, and the run is worth more than its log.
        let _ = file.write_all(line.as_bytes());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_are_appended_to_a_file_that_nobody_else_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        for secret in [0x0a, 0xff] {
            open(path.clone()).unwrap().log("CLIENT_RANDOM", &[1, 2], &[secret]);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "CLIENT_RANDOM 0102 0a\nCLIENT_RANDOM 0102 ff\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let message = open(folder.path().to_owned()).err().unwrap().to_string();
        assert!(message.contains(&folder.path().display().to_string()), "{message}");
    }
}
