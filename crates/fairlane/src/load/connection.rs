use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::value_parser;
use load::{Cipher, Group, Identity, LoadError, Model, Plan, Target, TlsPlan, TlsVersion, TransportPlan, Verification};
use measure::units::{parse_duration, parse_size};
use measure::{CongestionControl, Protocol};

/// How many connections there are, and to where.
#[derive(clap::Args)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// Connections at once; at most -n [default: 1; for HTTP/1.1 6 with --page, 100 with --rate]
    #[arg(short = 'c', long, value_name = "N")]
    connections: Option<u32>,
    /// Requests in flight on each connection [default: 1; for HTTP/2 and HTTP/3 100 with --page and --rate]
    #[arg(short = 'm', long, value_name = "N")]
    streams: Option<u32>,
    /// Threads, each with its own connections; at most -c
    #[arg(short = 't', long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// Protocol: h1c, h1, h2c, h2 or h3 [default: h2 for https, h1c for http]
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<Protocol>,
    /// Let -m requests be in flight on an HTTP/1.1 connection; no browser does that
    #[arg(long)]
    pipeline: bool,
    /// A new connection for each request
    #[arg(long)]
    no_keepalive: bool,
    /// Connections opened per second at most, by each client
    #[arg(long, value_name = "N")]
    connection_rate: Option<f64>,
    /// Longest time for a request; in an open loop also for its wait for a free place
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
    /// Longest time for making a connection [default: that of --timeout]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    connect_timeout: Option<Duration>,
    /// Connect to this address instead of the URL's; server name and authority stay. Also curl's HOST:PORT:HOST:PORT
    #[arg(long, value_name = "HOST[:PORT]")]
    connect_to: Option<String>,
    /// Connect to this Unix socket instead of the URL's address
    #[arg(long, value_name = "PATH", conflicts_with = "connect_to")]
    unix_socket: Option<PathBuf>,
    /// Addresses of this machine that connections come from, in turn
    #[arg(long, value_name = "IP,IP", value_delimiter = ',')]
    source: Vec<IpAddr>,
}

/// What TLS offers, and what it accepts.
#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Trust the certificates of this PEM file instead of those of the machine
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    cacert: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Show this PEM certificate, for servers that ask for one
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// The key of --cert [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Ask for this server name, and expect it in the certificate, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Offer these by ALPN; the one of --protocol has to be among them, and chosen [default: that one]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    alpn_list: Vec<String>,
    /// Versions to offer: 1.2, 1.3 [default: both; for h3 1.3]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tls_versions: Vec<TlsVersion>,
    /// Cipher suites to offer, by IANA name, such as TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ciphers: Vec<Cipher>,
    /// Key exchange groups to offer, the best first, such as X25519MLKEM768,X25519
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Vec<Group>,
    /// Make every handshake a full one
    #[arg(long)]
    no_resume: bool,
    /// Send requests with the first bytes of a resumed session (0-RTT)
    #[arg(long)]
    early_data: bool,
    /// Append the keys of connections, for Wireshark [default: what SSLKEYLOGFILE says]
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

/// What happens below HTTP requests.
#[derive(clap::Args)]
#[command(next_help_heading = "Transport")]
pub struct TransportArgs {
    /// Receive window of each stream of HTTP/2 and HTTP/3: 2^N-1 bytes [default: 1 MiB]
    #[arg(short = 'w', long, value_name = "N", value_parser = value_parser!(u32).range(16..=30))]
    window_bits: Option<u32>,
    /// Receive window of each connection of HTTP/2 and HTTP/3: 2^N-1 bytes [default: 16 MiB]
    #[arg(short = 'W', long, value_name = "N", value_parser = value_parser!(u32).range(16..=30))]
    connection_window_bits: Option<u32>,
    /// Largest HTTP/2 frame that the server may send, in bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_frame_size: Option<u32>,
    /// Largest dynamic table for compressed HTTP/2 headers that the server may use, in bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    header_table_size: Option<u32>,
    /// Congestion control of QUIC: cubic, bbr or reno; that of TCP is the kernel's
    #[arg(long, value_name = "NAME", default_value_t)]
    congestion_control: CongestionControl,
    /// Initial congestion window of QUIC in packets of 1448 bytes; that of TCP is the kernel's
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1000))]
    initial_window: u32,
    /// Write a qlog file for each QUIC connection into this directory
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
}

impl ConnectionArgs {
    pub fn target(&self, url: &str) -> Result<Target, LoadError> {
        let target = Target::parse(url, self.connect_to.as_deref())?;
        Ok(match &self.unix_socket {
            Some(path) => target.through_socket(path.clone()),
            None => target,
        })
    }

    /// Sets what these flags say; `decided` is a number of connections that follows from other flags.
    pub fn apply(&self, plan: &mut Plan, decided: Option<u32>) {
        if matches!(plan.model, Model::OpenLoop { .. }) {
            // What is due should find a place: an open loop is not to wait for the client.
            (plan.connections, plan.streams) = if plan.protocol.multiplexes() { (1, 100) } else { (100, 1) };
        }
        plan.connections = decided.or(self.connections).unwrap_or(plan.connections);
        plan.streams = self.streams.unwrap_or(plan.streams);
        plan.threads = self.threads;
        plan.pipeline = self.pipeline;
        plan.keep_alive = !self.no_keepalive;
        plan.timeout = self.timeout;
        plan.connect_timeout = self.connect_timeout.unwrap_or(self.timeout);
    }
}

impl TlsArgs {
    pub fn plan(&self) -> TlsPlan {
        let verification = match &self.cacert {
            Some(file) => Verification::CaFile(file.clone()),
            None if self.insecure => Verification::Insecure,
            None => Verification::Roots,
        };
        let identity = self.cert.as_ref().map(|certificate| Identity {
            certificate: certificate.clone(),
            key: self.key.as_ref().unwrap_or(certificate).clone(),
        });
        TlsPlan {
            verification,
            identity,
            server_name: self.sni.clone(),
            alpn: self.alpn_list.clone(),
            versions: self.tls_versions.clone(),
            ciphers: self.ciphers.clone(),
            groups: self.groups.clone(),
            resume: !self.no_resume,
            early_data: self.early_data,
            key_log: self.key_log.clone(),
        }
    }
}

impl TransportArgs {
    pub fn plan(&self, connection: &ConnectionArgs) -> TransportPlan {
        let default = TransportPlan::default();
        let window = |bits: Option<u32>, default| bits.map_or(default, |bits| (1 << bits) - 1);
        TransportPlan {
            congestion_control: self.congestion_control,
            initial_window_packets: self.initial_window,
            stream_window: window(self.window_bits, default.stream_window),
            connection_window: window(self.connection_window_bits, default.connection_window),
            max_frame_size: self.max_frame_size.unwrap_or(default.max_frame_size),
            header_table_size: self.header_table_size.unwrap_or(default.header_table_size),
            connection_rate: connection.connection_rate,
            sources: connection.source.clone(),
            qlog: self.qlog.clone(),
        }
    }
}

fn parse_bytes(text: &str) -> Result<u32, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    size.try_into().map_err(|_| format!("'{text}' is more than 4 GiB"))
}
