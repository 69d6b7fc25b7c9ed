//! What the tests need of the machine besides fairlane itself, and what happens where it is missing: the test is
//! skipped, loudly; or it fails, where `./test` has promised that nothing is missing (`FAIRLANE_NO_SKIP`).

use std::env;
use std::io::Write as _;
use std::path::PathBuf;

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
