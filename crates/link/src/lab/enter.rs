use std::fs;
use std::io::Write as _;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{getegid, geteuid, write};

use crate::{LabError, sys};

/// Whether this machine lets the calling process build a lab.
///
/// Asks the kernel from a short-lived child process: the caller stays as it was, and may have threads.
pub fn availability() -> Result<(), LabError> {
    sys::try_in_child(|| {
        enter()?;
        unshare(CloneFlags::CLONE_NEWNET)
    })
    .map_err(|error| match error.raw_os_error() {
        Some(code) => forbidden(Errno::from_raw(code)),
        None => LabError::setup("starting a child process", error),
    })
}

/// Moves the calling process into a mount namespace of its own, and its future children into a process namespace.
///
/// Without the privilege to do so it enters a user namespace first, in which it keeps its user and group. Makes system
/// calls only, because [`availability`] runs it between fork and exec.
pub fn enter() -> nix::Result<()> {
    let flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    match unshare(flags) {
        Err(Errno::EPERM) => {}
        result => return result,
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(flags | CloneFlags::CLONE_NEWUSER)?;
    // Without this the kernel refuses the group map of an unprivileged process (user_namespaces(7)).
    write_once(c"/proc/self/setgroups", b"deny")?;
    write_identity_map(c"/proc/self/uid_map", user)?;
    write_identity_map(c"/proc/self/gid_map", group)
}

fn write_identity_map(path: &std::ffi::CStr, id: u32) -> nix::Result<()> {
    let mut line = [0; 32];
    let mut rest = &mut line[..];
    write!(rest, "{id} {id} 1").expect("two 32-bit numbers fit into 32 bytes");
    let length = 32 - rest.len();
    write_once(path, &line[..length])
}

fn write_once(path: &std::ffi::CStr, bytes: &[u8]) -> nix::Result<()> {
    let file = open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, bytes).map(drop)
}

/// Finds out which setting made the kernel refuse with `errno`.
pub fn forbidden(errno: Errno) -> LabError {
    let setting = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let sysctl = |name: &str, wanted: &str, is: &str| LabError::Forbidden {
        reason: format!("the setting {name} is {is}"),
        remedy: format!("allow it with 'sudo sysctl -w {name}={wanted}', or run as root"),
    };
    for name in ["user.max_user_namespaces", "user.max_net_namespaces"] {
        if setting(&format!("/proc/sys/{}", name.replace('.', "/"))) == "0" {
            return sysctl(name, "10000", "0");
        }
    }
    if setting("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        return sysctl("kernel.unprivileged_userns_clone", "1", "0");
    }
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        return sysctl("kernel.apparmor_restrict_unprivileged_userns", "0", "1");
    }
    if setting("/proc/self/status").lines().any(|line| line == "Seccomp:\t2") {
        return LabError::Forbidden {
            reason: format!("a seccomp filter is in force, probably a container's, and the answer was: {errno}"),
            remedy: "start the container with '--security-opt seccomp=unconfined' or '--privileged'".to_owned(),
        };
    }
    LabError::Forbidden {
        reason: format!("the kernel's answer was: {errno}"),
        remedy: "run as root, or on a machine where 'unshare --user --net true' works".to_owned(),
    }
}
