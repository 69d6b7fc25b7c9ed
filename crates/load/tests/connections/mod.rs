//! What connections are like that the plan describes: judged by the servers at the other end.

mod early_data;
mod quic;
mod sockets;
mod tap;
mod tls;

use std::process::Command;

/// Runs a program to its end and gives what it printed.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
