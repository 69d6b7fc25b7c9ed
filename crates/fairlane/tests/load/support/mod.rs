//! What the tests share: the program, and the servers that it loads.

mod origin;
mod service;
mod witness;

use std::borrow::BorrowMut;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use measure::LoadSummary;

pub use self::origin::Origin;
pub use self::service::Service;
pub use self::witness::Witness;

fn fairlane() -> Command {
    Command::new(env!("CARGO_BIN_EXE_fairlane"))
}

/// `fairlane load` with arguments.
pub fn load<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = fairlane();
    command.arg("load").args(arguments);
    command
}

/// The summary of a load that succeeds.
pub fn measured(mut command: impl BorrowMut<Command>) -> LoadSummary {
    let command = command.borrow_mut();
    let output = command.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command says that ends with a code.
pub fn failed(mut command: impl BorrowMut<Command>, code: i32) -> String {
    let command = command.borrow_mut();
    let Output { status, stderr, .. } = command.output().unwrap();
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(code), "{command:?}: {message}");
    message
}

pub fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits for a condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} within half a minute");
        std::thread::yield_now();
    }
}
