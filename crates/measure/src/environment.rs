use std::fs;

use serde::{Deserialize, Serialize};

/// What a result depends on besides the experiment: tool, kernel and machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of fairlane.
    pub fairlane: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory of the machine, bytes.
    pub memory_bytes: u64,
    /// The TLS library of origin and load engine.
    pub tls: String,
    /// The kernel's default TCP congestion control outside the lab.
    pub kernel_congestion_control: String,
}

impl Environment {
    /// Reads the record of this machine. What the kernel does not tell reads `unknown`.
    pub fn read() -> Environment {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory_kib = field(&meminfo, "MemTotal").and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        Environment {
            fairlane: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: line("/proc/sys/kernel/osrelease"),
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0) * 1024,
            tls: "rustls with aws-lc-rs".to_owned(),
            kernel_congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        }
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}
