//! What all QUIC channels of a run share, and what each gets for itself.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use measure::CongestionControl;
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{
    ClientConfig, EndpointConfig, IdleTimeout, QlogConfig, RandomConnectionIdGenerator, TransportConfig,
};

use super::socket::Sockets;
use crate::tls::TlsSetup;
use crate::{LoadError, Plan, TransportPlan};

/// What all QUIC channels of a client share.
#[derive(Clone)]
pub(crate) struct QuicSettings {
    pub tls: TlsSetup,
    pub sockets: Sockets,
    pub endpoint: Arc<EndpointConfig>,
    pub congestion_control: CongestionControl,
    pub max_streams: usize,
    client: ClientConfig,
    transport: Transport,
    qlog: Option<Qlog>,
}

impl QuicSettings {
    /// Windows are those of HTTP/2, so that neither protocol has more room than the other.
    pub(crate) fn new(plan: &Plan, tls: TlsSetup, sockets: Sockets) -> Result<QuicSettings, LoadError> {
        let mut endpoint = EndpointConfig::default();
        // Each connection has its own socket, so its datagrams need no connection identifier.
        endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        let transport = Transport::new(plan)?;
        Ok(QuicSettings {
            client: client(&tls, &transport),
            tls,
            sockets,
            endpoint: Arc::new(endpoint),
            congestion_control: plan.transport.congestion_control,
            max_streams: plan.streams as usize,
            transport,
            qlog: plan.transport.qlog.as_deref().map(Qlog::new).transpose()?,
        })
    }

    /// The same without anything remembered from earlier connections.
    pub(super) fn cold(&self) -> QuicSettings {
        let tls = self.tls.cold();
        QuicSettings { client: client(&tls, &self.transport), tls, ..self.clone() }
    }

    /// The configuration of the next connection, which begins now.
    pub(super) fn client(&self, now: Instant) -> io::Result<ClientConfig> {
        let mut client = self.client.clone();
        if let Some(qlog) = &self.qlog {
            let mut log = QlogConfig::default();
            log.writer(Box::new(BufWriter::new(qlog.next_file()?))).start_time(now);
            let mut transport = self.transport.config();
            transport.qlog_stream(log.into_stream());
            client.transport_config(Arc::new(transport));
        }
        Ok(client)
    }
}

fn client(tls: &TlsSetup, transport: &Transport) -> ClientConfig {
    let mut client = ClientConfig::new(tls.quic());
    client.transport_config(Arc::new(transport.config()));
    client
}

/// What quinn-proto's configuration is made of, which cannot be copied itself.
#[derive(Clone)]
struct Transport {
    stream_window: u32,
    connection_window: u32,
    idle: IdleTimeout,
    controller: Arc<dyn ControllerFactory + Send + Sync>,
}

impl Transport {
    fn new(plan: &Plan) -> Result<Transport, LoadError> {
        let TransportPlan { stream_window, connection_window, congestion_control, .. } = plan.transport;
        let window = u64::from(plan.transport.initial_window_packets) * CongestionControl::PACKET_BYTES;
        // Not shorter than the longest wait for a response.
        let idle = IdleTimeout::try_from((plan.timeout * 2).max(Duration::from_secs(30))).map_err(|_| {
            LoadError::Plan("--timeout is too long for QUIC; give less than a million years".to_owned())
        })?;
        Ok(Transport { stream_window, connection_window, idle, controller: controller(congestion_control, window) })
    }

    fn config(&self) -> TransportConfig {
        let mut config = TransportConfig::default();
        config
            .stream_receive_window(self.stream_window.into())
            .receive_window(self.connection_window.into())
            .max_idle_timeout(Some(self.idle))
            .max_concurrent_bidi_streams(0u32.into())
            // Requests go out in the order of their start, not piece by piece in turn: fewer steps, and what TCP does.
            .send_fairness(false)
            .congestion_controller_factory(Arc::clone(&self.controller));
        config
    }
}

fn controller(algorithm: CongestionControl, window: u64) -> Arc<dyn ControllerFactory + Send + Sync> {
    match algorithm {
        CongestionControl::Cubic => {
            let mut config = CubicConfig::default();
            config.initial_window(window);
            Arc::new(config)
        }
        CongestionControl::Bbr => {
            let mut config = BbrConfig::default();
            config.initial_window(window);
            Arc::new(config)
        }
        CongestionControl::Reno => {
            let mut config = NewRenoConfig::default();
            config.initial_window(window);
            Arc::new(config)
        }
    }
}

/// A directory with a qlog file per connection.
#[derive(Clone, Debug)]
struct Qlog {
    directory: PathBuf,
    files: Arc<AtomicUsize>,
}

impl Qlog {
    fn new(directory: &Path) -> Result<Qlog, LoadError> {
        let failed = |source| LoadError::File { path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        Ok(Qlog { directory: directory.to_owned(), files: Arc::default() })
    }

    fn next_file(&self) -> io::Result<File> {
        let number = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.directory.join(format!("connection-{number}.sqlog"));
        File::create(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display())))
    }
}
