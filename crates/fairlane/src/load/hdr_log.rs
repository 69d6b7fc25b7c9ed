use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use measure::{Histogram, Interval};

/// An HdrHistogram log: a line per second, with the latencies of what ended in it, in microseconds.
pub struct HdrLog {
    file: BufWriter<File>,
    fault: Option<io::Error>,
}

impl HdrLog {
    pub fn new(file: File) -> HdrLog {
        let now = SystemTime::now();
        let mut header = IntervalLogWriterBuilder::new();
        header.add_comment("[Histogram log format version 1.3]").add_comment("[values in microseconds]");
        let mut log = HdrLog { file: BufWriter::new(file), fault: None };
        log.write(header.with_start_time(now).with_base_time(now), None);
        log
    }

    /// Writes a line; after a failure nothing more.
    pub fn add(&mut self, interval: &Interval, latencies: &Histogram) {
        // The builder's header is empty: it was written with the first line.
        self.write(&IntervalLogWriterBuilder::new(), Some((interval, latencies)));
    }

    fn write(&mut self, builder: &IntervalLogWriterBuilder, line: Option<(&Interval, &Histogram)>) {
        if self.fault.is_some() {
            return;
        }
        let mut serializer = V2DeflateSerializer::new();
        let written = builder.begin_log_with(&mut self.file, &mut serializer).and_then(|mut log| match line {
            Some((interval, latencies)) => {
                let length = Duration::from_secs_f64(interval.length_s);
                let start = Duration::from_secs_f64(interval.end_s).saturating_sub(length);
                let written = log.write_histogram(latencies.as_ref(), start, length, None);
                written.map_err(|error| io::Error::other(error.to_string()))
            }
            None => Ok(()),
        });
        self.fault = written.err();
    }

    /// Whether everything is in the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.fault.map_or_else(|| self.file.flush(), Err)
    }
}
