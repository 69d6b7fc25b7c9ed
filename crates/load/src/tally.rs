use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use measure::{ConnectionCounts, Histogram, QuicCounts, RequestCounts, StatusCounts, Traffic};

use crate::channel::Description;
use crate::lane::Slot;

/// Why a request failed that took too long.
pub(crate) const TIMED_OUT: &str = "no response within the timeout";

/// What one worker measured. Tallies of several workers merge without loss.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub requests: RequestCounts,
    pub status: StatusCounts,
    pub traffic: Traffic,
    pub connections: ConnectionCounts,
    pub quic: Option<QuicCounts>,
    pub max_in_flight: u64,
    pub latency: Histogram,
    pub intended_latency: Histogram,
    pub connect: Histogram,
    pub first_byte: Histogram,
    pub queue: Histogram,
    /// Answers until the end of a timed run; `None` for other runs.
    pub in_time: Option<u64>,
    /// Thousandths of requests per second, a value per connection.
    pub rates: Histogram,
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

    /// A complete response, and whether the instant at which its request was due counts.
    pub(crate) fn answered(&mut self, slot: &Slot, now: Instant, timed: bool) {
        self.requests.done += 1;
        self.status.record(slot.status);
        self.latency.record_us(micros(now - slot.sent));
        self.first_byte.record_us(micros(slot.first_byte.unwrap_or(now) - slot.sent));
        if timed {
            self.intended_latency.record_us(micros(now - slot.job.due));
        }
        // Only what waited is worth an entry: in a closed loop nothing does.
        if timed || slot.sent > slot.job.due {
            self.queue.record_us(micros(slot.sent - slot.job.due));
        }
    }

    /// An answer that is not what was expected.
    pub(crate) fn refused(&mut self, reason: &str) {
        self.requests.failed += 1;
        self.blame(reason, 1);
    }

    /// A connection that was ready lived for `life` and brought so many responses.
    pub(crate) fn add_connection(&mut self, answers: u64, life: Duration) {
        let per_second = answers as f64 / life.as_secs_f64().max(1e-6);
        self.rates.record_us((per_second * 1000.0) as u64);
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
        self.blame(TIMED_OUT, 1);
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
        self.max_in_flight = in_flight;
        self.connections = earlier.connections;
        self.connect = earlier.connect;
        self.description = earlier.description;
        self.refusal = earlier.refusal;
        self.first = Some(now);
    }

    /// Adds what was measured at another time: in another second, or for another page.
    pub(crate) fn merge(&mut self, other: Tally) {
        let (mine, theirs) = (&mut self.requests, other.requests);
        mine.total += theirs.total;
        mine.started += theirs.started;
        mine.done += theirs.done;
        mine.succeeded += theirs.succeeded;
        mine.failed += theirs.failed;
        mine.errored += theirs.errored;
        mine.timed_out += theirs.timed_out;
        mine.dropped += theirs.dropped;
        mine.retried += theirs.retried;
        let (mine, theirs) = (&mut self.status, other.status);
        mine.success += theirs.success;
        mine.redirect += theirs.redirect;
        mine.client_error += theirs.client_error;
        mine.server_error += theirs.server_error;
        let (mine, theirs) = (&mut self.traffic, other.traffic);
        mine.received_bytes += theirs.received_bytes;
        mine.header_bytes += theirs.header_bytes;
        mine.header_bytes_uncompressed += theirs.header_bytes_uncompressed;
        mine.data_bytes += theirs.data_bytes;
        mine.sent_bytes += theirs.sent_bytes;
        mine.sent_header_bytes += theirs.sent_header_bytes;
        mine.sent_header_bytes_uncompressed += theirs.sent_header_bytes_uncompressed;
        let (mine, theirs) = (&mut self.connections, other.connections);
        mine.opened += theirs.opened;
        mine.completed += theirs.completed;
        mine.used += theirs.used;
        mine.reused += theirs.reused;
        mine.handshakes += theirs.handshakes;
        mine.resumed += theirs.resumed;
        mine.early_data_accepted += theirs.early_data_accepted;
        mine.early_data_rejected += theirs.early_data_rejected;
        mine.max_streams = mine.max_streams.max(theirs.max_streams);
        if let Some(counts) = other.quic {
            self.add_quic(counts);
        }
        self.max_in_flight = self.max_in_flight.max(other.max_in_flight);
        self.latency.merge(&other.latency);
        self.intended_latency.merge(&other.intended_latency);
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.queue.merge(&other.queue);
        self.rates.merge(&other.rates);
        self.in_time = self.in_time.map_or(other.in_time, |mine| Some(mine + other.in_time.unwrap_or_default()));
        for (reason, count) in other.errors {
            *self.errors.entry(reason).or_default() += count;
        }
        self.description = other.description.or(self.description.take());
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
        let now = Instant::now();
        let answer = |status| Slot::answered(status, now);
        let mut one = Tally::default();
        one.answered(&answer(200), now, false);
        one.requests.succeeded += 1;
        one.errored("reset");
        one.connections.max_streams = 7;
        one.first = Some(Instant::now());
        let mut two = Tally::default();
        two.answered(&answer(404), now, true);
        two.refused("status 404");
        two.lost(3, "reset");
        two.timed_out();
        two.connections.max_streams = 3;
        one.merge(two);
        let RequestCounts { done, succeeded, failed, errored, timed_out, .. } = one.requests;
        assert_eq!((done, succeeded, failed, errored, timed_out), (4, 1, 6, 4, 1));
        assert_eq!(one.errors["reset"], 4);
        assert_eq!(one.errors["status 404"], 1);
        assert_eq!(one.errors.values().sum::<u64>(), one.requests.failed);
        assert_eq!((one.latency.count(), one.intended_latency.count(), one.queue.count()), (2, 1, 1));
        assert_eq!(one.connections.max_streams, 7);
        assert!(one.first.is_some());
    }
}
