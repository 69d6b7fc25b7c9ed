use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

/// CPU time of one process, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Time spent in the program itself.
    pub user_us: u64,
    /// Time the kernel spent on its behalf.
    pub system_us: u64,
}

impl CpuTime {
    /// CPU time that this process has used so far, all threads.
    pub fn of_this_process() -> CpuTime {
        let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of the own process cannot fail");
        CpuTime::from_usage(&usage)
    }

    /// CPU time in a usage record of the kernel's.
    pub fn from_usage(usage: &Usage) -> CpuTime {
        CpuTime {
            user_us: usage.user_time().num_microseconds() as u64,
            system_us: usage.system_time().num_microseconds() as u64,
        }
    }

    /// The time used since an earlier reading.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
        }
    }

    /// User and system time together, microseconds.
    pub fn total_us(self) -> u64 {
        self.user_us + self.system_us
    }
}
