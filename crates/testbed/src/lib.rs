//! What the tests need of the machine besides fairlane itself, and what happens where it is missing: the test is
//! skipped, loudly; or it fails, where `./test` has promised that nothing is missing (`FAIRLANE_NO_SKIP`).

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

/// Whether every one of these programs is there; otherwise says that the test is skipped.
///
/// # Panics
/// One is missing although `FAIRLANE_NO_SKIP` is set.
pub fn has(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|program| find(program).is_none()).collect();
    if !missing.is_empty() {
        skip(&format!("{} is not installed", missing.join(", ")));
    }
    missing.is_empty()
}

/// Says that a test is skipped and why, past the capture of the test harness: a skipped test must be seen.
///
/// # Panics
/// `FAIRLANE_NO_SKIP` is set.
pub fn skip(reason: &str) {
    assert!(env::var_os("FAIRLANE_NO_SKIP").is_none(), "nothing may be skipped here, but {reason}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Nothing can be done about a closed standard error.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// The path of a program, looked for as a shell does and in the folders that only root has on its path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Lets the tests of one program that hold this run one at a time: races that run at once make each other's links late.
pub fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A user other than root, with a folder and a copy of a program there, wherever the build lies.
pub struct OrdinaryUser {
    folder: TempDir,
    program: PathBuf,
}

impl OrdinaryUser {
    /// `None` where the tests run as an ordinary user themselves, so that every one of them shows what is wanted; or
    /// where this cannot be tested, which is said.
    pub fn with(program: &str) -> Option<OrdinaryUser> {
        if !is_root() || !has(&["setpriv"]) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = folder.path().join("program");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        fs::copy(program, &copy).expect("the program was built");
        Some(OrdinaryUser { folder, program: copy })
    }

    /// The folder, where this user may write.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program, to be run by this user in the folder.
    pub fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "1000", "--regid", "1000", "--clear-groups"]).arg(&self.program);
        command.current_dir(self.folder.path());
        command
    }
}
