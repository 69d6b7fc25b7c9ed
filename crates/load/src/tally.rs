use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use measure::{ConnectionCounts, Histogram, QuicCounts, RequestCounts, StatusCounts, Traffic};

use crate::channel::Description;

/// What one worker measured. Tallies of several workers merge without loss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub requests: RequestCounts,
    pub status: StatusCounts,
    pub traffic: Traffic,
    pub connections: ConnectionCounts,
    pub quic: Option<QuicCounts>,
    pub request_time: Histogram,
    pub connect_time: Histogram,
    pub first_byte_time: Histogram,
    pub queue_time: Histogram,
    /// Why requests failed.
    pub errors: BTreeMap<String, u64>,
    /// Of the last connection that was ready and ended: by then everything is known.
    pub description: Option<Description>,
    /// Why the last connection attempt failed.
    pub refusal: Option<String>,
    /// When the first connection was begun.
    pub first: Option<Instant>,
    /// When the last bytes arrived.
    pub last: Option<Instant>,
}

impl Tally {
    /// Counts a reason, `count` times.
    pub(crate) fn blame(&mut self, reason: &str, count: u64) {
        if count > 0 {
            *self.errors.entry(reason.to_owned()).or_default() += count;
        }
    }

    /// A complete response, and whether it is what the request was for.
    pub(crate) fn answered(&mut self, status: u16, accepted: bool, time: Duration) {
        self.requests.done += 1;
        self.status.record(status);
        self.request_time.record_us(micros(time));
        if accepted {
            self.requests.succeeded += 1;
        } else {
            self.requests.failed += 1;
            self.blame(&format!("status {status}"), 1);
        }
    }

    /// A request that was sent and had no complete response.
    pub(crate) fn errored(&mut self, reason: &str) {
        self.requests.done += 1;
        self.requests.failed += 1;
        self.requests.errored += 1;
        self.blame(reason, 1);
    }

    /// A request that took too long.
    pub(crate) fn timed_out(&mut self) {
        self.requests.done += 1;
        self.requests.failed += 1;
        self.requests.timed_out += 1;
        self.blame("no response within the timeout", 1);
    }

    /// Requests that were never sent, because no connection could be made for them.
    pub(crate) fn lost(&mut self, count: u64, reason: &str) {
        self.requests.failed += count;
        self.requests.errored += count;
        self.blame(reason, count);
    }

    /// Begins anew, with what is in flight: the end of the warm-up. What happened to connections stays counted, since
    /// most are made then.
    pub(crate) fn restart(&mut self, now: Instant, in_flight: u64) {
        let earlier = std::mem::take(self);
        self.requests.started = in_flight;
        self.connections = earlier.connections;
        self.connect_time = earlier.connect_time;
        self.first_byte_time = earlier.first_byte_time;
        self.description = earlier.description;
        self.refusal = earlier.refusal;
        self.first = Some(now);
    }

    /// Adds the tally of another worker, or of another page load.
    pub(crate) fn merge(&mut self, other: Tally) {
        let (mine, theirs) = (&mut self.requests, other.requests);
        mine.total += theirs.total;
        mine.started += theirs.started;
        mine.done += theirs.done;
        mine.succeeded += theirs.succeeded;
        mine.failed += theirs.failed;
        mine.errored += theirs.errored;
        mine.timed_out += theirs.timed_out;
        let (mine, theirs) = (&mut self.status, other.status);
        mine.success += theirs.success;
        mine.redirect += theirs.redirect;
        mine.client_error += theirs.client_error;
        mine.server_error += theirs.server_error;
        let (mine, theirs) = (&mut self.traffic, other.traffic);
        mine.received_bytes += theirs.received_bytes;
        mine.header_bytes += theirs.header_bytes;
        mine.header_decoded_bytes += theirs.header_decoded_bytes;
        mine.data_bytes += theirs.data_bytes;
        mine.sent_bytes += theirs.sent_bytes;
        let (mine, theirs) = (&mut self.connections, other.connections);
        mine.opened += theirs.opened;
        mine.completed += theirs.completed;
        mine.used += theirs.used;
        mine.handshakes += theirs.handshakes;
        mine.resumed += theirs.resumed;
        mine.max_streams = mine.max_streams.max(theirs.max_streams);
        if let Some(counts) = other.quic {
            self.add_quic(counts);
        }
        self.request_time.merge(&other.request_time);
        self.connect_time.merge(&other.connect_time);
        self.first_byte_time.merge(&other.first_byte_time);
        self.queue_time.merge(&other.queue_time);
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        self.description = self.description.take().or(other.description);
        self.refusal = other.refusal.or(self.refusal.take());
        self.first = self.first.into_iter().chain(other.first).min();
        self.last = self.last.max(other.last);
    }

    /// Adds the counts of a QUIC connection.
    pub(crate) fn add_quic(&mut self, counts: QuicCounts) {
        let sum = self.quic.get_or_insert_default();
        sum.sent_packets += counts.sent_packets;
        sum.lost_packets += counts.lost_packets;
        sum.congestion_events += counts.congestion_events;
    }
}

/// Whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    time.as_secs() * 1_000_000 + u64::from(time.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_merge_without_loss() {
        let mut one = Tally::default();
        one.answered(200, true, Duration::from_millis(1));
        one.errored("reset");
        one.connections.max_streams = 7;
        one.first = Some(Instant::now());
        let mut two = Tally::default();
        two.answered(404, false, Duration::from_millis(2));
        two.lost(3, "reset");
        two.timed_out();
        two.connections.max_streams = 3;
        one.merge(two);
        let RequestCounts { done, succeeded, failed, errored, timed_out, .. } = one.requests;
        assert_eq!((done, succeeded, failed, errored, timed_out), (4, 1, 6, 4, 1));
        assert_eq!(one.errors["reset"], 4);
        assert_eq!(one.errors["status 404"], 1);
        assert_eq!(one.errors.values().sum::<u64>(), one.requests.failed);
        assert_eq!(one.request_time.count(), 2);
        assert_eq!(one.connections.max_streams, 7);
        assert!(one.first.is_some());
    }
}
