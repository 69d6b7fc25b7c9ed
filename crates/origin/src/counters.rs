use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use measure::{CongestionControl, CpuTime, OriginCounters, Protocol, ProtocolCounters, QuicCounts};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::SetOnce;

/// The counters of one origin. Every count is exact; a reading while requests run is not one instant's.
pub struct Counters {
    tallies: [Tally; Protocol::ALL.len()],
    quic: Mutex<QuicCounts>,
    tcp_congestion_control: SetOnce<String>,
    congestion_control: CongestionControl,
    initial_window_packets: u32,
    ready: Instant,
    cpu_when_ready: CpuTime,
}

#[derive(Default)]
struct Tally {
    connections: AtomicU64,
    handshakes: AtomicU64,
    requests: AtomicU64,
    in_flight: Level,
    max_streams: AtomicU64,
    body_bytes: AtomicU64,
}

/// A quantity that rises and falls, with its peak.
#[derive(Default)]
struct Level {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Level {
    fn rise(&self) {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        self.peak.fetch_max(now, Relaxed);
    }

    fn fall(&self) {
        self.now.fetch_sub(1, Relaxed);
    }
}

impl Counters {
    /// Counters at zero; the clocks start now.
    pub fn new(congestion_control: CongestionControl, initial_window_packets: u32) -> Counters {
        Counters {
            tallies: Default::default(),
            quic: Mutex::default(),
            tcp_congestion_control: SetOnce::new(),
            congestion_control,
            initial_window_packets,
            ready: Instant::now(),
            cpu_when_ready: CpuTime::of_this_process(),
        }
    }

    /// Counts a connection that was accepted.
    pub fn connection(self: &Arc<Self>, protocol: Protocol) -> Arc<ConnectionCounter> {
        self.tally(protocol).connections.fetch_add(1, Relaxed);
        Arc::new(ConnectionCounter {
            counters: Arc::clone(self),
            protocol,
            requests: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        })
    }

    /// Asks the first TCP connection for its congestion control: routes and the kernel have a say in it, so that of the
    /// listener does not tell.
    pub fn accepted(&self, stream: &TcpStream) {
        if !self.tcp_congestion_control.initialized()
            && let Ok(name) = SockRef::from(stream).tcp_congestion()
        {
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            // Of two listeners' first connections one comes first.
            let _ = self.tcp_congestion_control.set(String::from_utf8_lossy(name).into_owned());
        }
    }

    /// Congestion control of the first TCP connection, as soon as there is one.
    pub async fn tcp_congestion_control(&self) -> &str {
        self.tcp_congestion_control.wait().await
    }

    /// Adds what the transport of a QUIC connection counted.
    pub fn add_quic(&self, stats: &quinn::ConnectionStats) {
        let mut quic = self.quic.lock().unwrap_or_else(PoisonError::into_inner);
        quic.sent_packets += stats.path.sent_packets;
        quic.lost_packets += stats.path.lost_packets;
        quic.congestion_events += stats.path.congestion_events;
    }

    /// The counts as they stand.
    pub fn read(&self) -> OriginCounters {
        let protocols = Protocol::ALL
            .into_iter()
            .map(|protocol| (protocol, self.tally(protocol).read()))
            .filter(|(_, counts)| counts.connections > 0)
            .collect();
        OriginCounters {
            protocols,
            quic: self.quic.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            tcp_congestion_control: self.tcp_congestion_control.get().cloned(),
            quic_congestion_control: self.congestion_control.name().to_owned(),
            quic_initial_window_bytes: u64::from(self.initial_window_packets) * CongestionControl::PACKET_BYTES,
            cpu: CpuTime::of_this_process().since(self.cpu_when_ready),
            uptime_us: self.ready.elapsed().as_micros() as u64,
        }
    }

    fn tally(&self, protocol: Protocol) -> &Tally {
        &self.tallies[protocol as usize]
    }
}

impl Tally {
    fn read(&self) -> ProtocolCounters {
        ProtocolCounters {
            connections: self.connections.load(Relaxed),
            handshakes: self.handshakes.load(Relaxed),
            requests: self.requests.load(Relaxed),
            in_flight: self.in_flight.now.load(Relaxed),
            max_in_flight: self.in_flight.peak.load(Relaxed),
            max_streams_per_connection: self.max_streams.load(Relaxed),
            body_bytes: self.body_bytes.load(Relaxed),
        }
    }
}

/// Counts what one connection does.
pub struct ConnectionCounter {
    counters: Arc<Counters>,
    protocol: Protocol,
    requests: AtomicU64,
    in_flight: AtomicU64,
}

impl ConnectionCounter {
    /// Counts the TLS handshake as completed.
    pub fn handshake(&self) {
        self.tally().handshakes.fetch_add(1, Relaxed);
    }

    /// Counts a request, which is in flight until the returned guard is dropped.
    pub fn request(self: &Arc<Self>) -> InFlight {
        self.requests.fetch_add(1, Relaxed);
        let tally = self.tally();
        tally.requests.fetch_add(1, Relaxed);
        tally.in_flight.rise();
        tally.max_streams.fetch_max(self.in_flight.fetch_add(1, Relaxed) + 1, Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Requests received on this connection so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Requests being answered on this connection now.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    fn tally(&self) -> &Tally {
        self.counters.tally(self.protocol)
    }
}

/// A request that is being answered.
pub struct InFlight(Arc<ConnectionCounter>);

impl InFlight {
    /// Counts bytes of the response body that were handed to the transport.
    pub fn sent(&self, bytes: u64) {
        self.0.tally().body_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
        self.0.tally().in_flight.fall();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_kept_per_protocol_and_per_connection() {
        let counters = Arc::new(Counters::new(CongestionControl::Cubic, 10));
        let (one, other) = (counters.connection(Protocol::H2), counters.connection(Protocol::H2));
        let requests = [one.request(), one.request(), other.request()];
        requests[0].sent(480);
        assert_eq!((one.in_flight(), other.in_flight()), (2, 1));
        drop(requests);

        let read = counters.read();
        let expected = ProtocolCounters {
            connections: 2,
            handshakes: 0,
            requests: 3,
            in_flight: 0,
            max_in_flight: 3,
            max_streams_per_connection: 2,
            body_bytes: 480,
        };
        assert_eq!(read.protocols.into_iter().collect::<Vec<_>>(), [(Protocol::H2, expected)]);
        assert_eq!((read.quic_congestion_control.as_str(), read.quic_initial_window_bytes), ("cubic", 14_480));
    }
}
