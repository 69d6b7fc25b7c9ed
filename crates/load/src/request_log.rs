use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use csv::Writer;
use wire::Request;

use crate::lane::Slot;
use crate::tally::micros;

/// A file with a line of CSV per request that ended while the run was measured.
///
/// Times are in whole microseconds; what did not happen is empty.
#[derive(Debug)]
pub(crate) struct RequestLog {
    file: Mutex<File>,
    /// Time zero of the `start_us` column.
    started: Instant,
    /// From when on requests are written down.
    from: Instant,
    fault: OnceLock<String>,
}

const COLUMNS: [&str; 10] = [
    "start_us",
    "queue_us",
    "first_byte_us",
    "latency_us",
    "status",
    "body_bytes",
    "connection",
    "method",
    "path",
    "error",
];

/// Lines that a worker has not yet written; they are written at the latest when it ends.
pub(crate) struct LogLines<'a> {
    log: &'a RequestLog,
    lines: Writer<Vec<u8>>,
}

/// Bytes that a worker collects before it writes.
const ENOUGH: usize = 64 * 1024;

impl RequestLog {
    /// Creates the file, with a line of column names.
    pub(crate) fn create(path: &Path, started: Instant, from: Instant) -> io::Result<RequestLog> {
        let mut file = File::create(path)?;
        file.write_all((COLUMNS.join(",") + "\n").as_bytes())?;
        Ok(RequestLog { file: Mutex::new(file), started, from, fault: OnceLock::new() })
    }

    pub(crate) fn lines(&self) -> LogLines<'_> {
        LogLines { log: self, lines: Writer::from_writer(Vec::new()) }
    }

    /// Why the file is not complete; `None` if it is.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    fn append(&self, lines: &[u8]) {
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.fault.get().is_none()
            && let Err(error) = file.write_all(lines)
        {
            // The measurement goes on: it is worth more than the log.
            let _ = self.fault.set(error.to_string());
        }
    }
}

impl LogLines<'_> {
    /// Writes a request down that ended now; `connection` is the place of its connection.
    pub(crate) fn write(
        &mut self,
        request: &Request,
        connection: usize,
        slot: &Slot,
        now: Instant,
        error: Option<&str>,
    ) {
        if now < self.log.from {
            return;
        }
        let since = |from: Instant, to: Instant| micros(to.saturating_duration_since(from)).to_string();
        let answered = slot.status != 0;
        let of_answer = |text: String| if answered { text } else { String::new() };
        let record = [
            since(self.log.started, slot.sent),
            since(slot.job.due, slot.sent),
            slot.first_byte.map_or_else(String::new, |first| since(slot.sent, first)),
            since(slot.sent, now),
            of_answer(slot.status.to_string()),
            of_answer(slot.body_bytes.to_string()),
            connection.to_string(),
            request.method.clone(),
            request.path.clone(),
            error.unwrap_or_default().to_owned(),
        ];
        self.lines.write_record(&record).expect("writing to memory cannot fail");
        if self.lines.get_ref().len() > ENOUGH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let lines = std::mem::replace(&mut self.lines, Writer::from_writer(Vec::new()));
        self.log.append(&lines.into_inner().unwrap_or_default());
    }
}

impl Drop for LogLines<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}
