//! The calls that no safe library offers; the only module of this crate with `unsafe`.
//!
//! Each block says why it is sound. What is here is as small as the kernel's interface allows: policy lives in the
//! modules that call it.

#![allow(unsafe_code)]

pub mod packet;

use std::io;
use std::mem;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus};

use measure::CpuTime;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{ForkResult, Pid, getpid, getppid};

/// Runs `body` in a child process, whose exit code is what `body` returns, and returns the child's id.
///
/// Both processes have `belongings` afterwards: the child's copy goes to `body`, the parent's comes back.
///
/// The caller must have no other thread: a lock that another thread held would stay locked in the child for ever.
pub fn fork<T>(belongings: T, body: impl FnOnce(T) -> i32) -> nix::Result<(Pid, T)> {
    // SAFETY: the caller is single-threaded (checked by `run`), so the child may do all that the parent may. It
    // leaves by _exit, also after a panic, and so never runs the caller's code a second time.
    match unsafe { nix::unistd::fork()? } {
        ForkResult::Parent { child } => Ok((child, belongings)),
        ForkResult::Child => {
            let code = catch_unwind(AssertUnwindSafe(|| body(belongings))).unwrap_or(101);
            // SAFETY: ends the process without running exit handlers, which are the parent's to run.
            unsafe { libc::_exit(code) }
        }
    }
}

/// Runs `check` in a child process that does nothing else, so that what it changes dies with it.
///
/// Safe for callers with threads, on one condition: `check` makes system calls only. It must not allocate or lock.
pub fn try_in_child(check: fn() -> nix::Result<()>) -> io::Result<()> {
    // The program's name is never looked at: the child leaves before it would be executed.
    let mut probe = Command::new("/");
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. `check` makes plain system calls, its
    // error is a number, and _exit is on the list.
    unsafe {
        probe.pre_exec(move || match check() {
            Ok(()) => libc::_exit(0),
            Err(errno) => Err(errno.into()),
        });
    }
    probe.spawn()?.wait().map(drop)
}

/// Makes the kernel kill `command` (SIGKILL) when the thread that spawns it ends.
///
/// Spawn it from a thread that lives as long as the process should, such as the main thread: the kernel watches the
/// thread, not the process.
pub fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    // SAFETY: prctl and getppid are system calls without side effects on memory, allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // A parent that ended before the line above sends no signal.
            if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        });
    }
}

/// Lets `command` receive signals that its parent holds back; it would inherit that otherwise.
pub fn unblock(command: &mut Command, signals: SigSet) {
    // SAFETY: changing the signal mask is a system call without side effects on memory, allowed between fork and exec.
    unsafe { command.pre_exec(move || Ok(signals.thread_unblock()?)) };
}

/// Collects one ended child, if there is one: its id, its exit code (128 + n for signal n) and its CPU time with that
/// of the children it waited for.
pub fn reap() -> nix::Result<Option<(Pid, i32, CpuTime)>> {
    let mut status = 0;
    // SAFETY: both pointers are to live, writable values of the right types; rusage is plain integers, so all zeros
    // are a value.
    let (pid, usage) = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        (libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage), usage)
    };
    if Errno::result(pid)? == 0 {
        return Ok(None);
    }
    let status = ExitStatus::from_raw(status);
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).expect("without WUNTRACED, a child ended");
    let microseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    let cpu = CpuTime { user_us: microseconds(usage.ru_utime), system_us: microseconds(usage.ru_stime) };
    Ok(Some((Pid::from_raw(pid), code, cpu)))
}

/// Asks the scheduler to run this thread soon after it wakes: SCHED_FIFO where the process may, else a short slice
/// (`sched_setattr(2)`, Linux 6.12 or newer; older kernels ignore it).
pub fn run_promptly() {
    const SLICE_NS: u64 = 100_000;
    let fifo = libc::sched_param { sched_priority: 1 };
    // SAFETY: both calls read one live structure and change nothing but this thread's scheduling. The attribute
    // structure is plain integers and carries its own size. A refusal leaves things as they were, which is all right.
    unsafe {
        if libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &fifo) == 0 {
            return;
        }
        let mut other: libc::sched_attr = mem::zeroed();
        other.size = size_of::<libc::sched_attr>() as u32;
        other.sched_policy = libc::SCHED_OTHER as u32;
        other.sched_nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        other.sched_runtime = SLICE_NS;
        libc::syscall(libc::SYS_sched_setattr, 0, &other, 0);
    }
}
