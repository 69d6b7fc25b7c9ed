use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::value_parser;
use measure::units::parse_duration;
use measure::{CongestionControl, Protocol};
use origin::tls::{self, Identity};
use origin::{Config, Origin};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::{print, say};

/// How long requests in flight may take to finish after the first signal.
const GRACE: Duration = Duration::from_secs(5);

/// Serve one application over HTTP/1.1, HTTP/2 and HTTP/3, in cleartext and over TLS, on one port.
///
/// Routes: /bytes/N, /page/N/SIZE, /api/test, /delay/MS, /echo, /rest/v10/employees. The bytes of an answer do not
/// depend on the protocol. HTTP/2 in cleartext is spoken with prior knowledge. The first SIGTERM or SIGINT lets requests
/// in flight finish (5 s at most), the second ends at once.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Port for TCP and UDP; 0 takes a free one, which is printed
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Address to listen on, may be repeated [default: all of IPv4 and IPv6]
    #[arg(long, value_name = "ADDR")]
    bind: Vec<IpAddr>,
    /// Protocols to serve; the others are switched off
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "h1c,h1,h2c,h2,h3")]
    protocols: Vec<Protocol>,
    /// Directory that keeps ca.pem, cert.pem and key.pem: made there once, so that clients can trust ca.pem [default: a
    /// certificate in memory, which clients must be told not to check]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["cert", "key"])]
    tls_dir: Option<PathBuf>,
    /// Certificate chain of your own, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Another name or address in the certificate, may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    host: Vec<String>,
    /// Address for the counters at /stats, for example 127.0.0.1:0 [default: none]
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Delay of every answer, up to 30s
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = delay)]
    delay: Duration,
    /// Directory of the employees database [default: in memory]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Congestion control of QUIC, and of TCP where the kernel allows it: cubic, bbr or reno
    #[arg(long, value_name = "NAME", default_value_t = CongestionControl::Cubic)]
    congestion_control: CongestionControl,
    /// Initial window of QUIC in packets of 1448 bytes, as of kernel TCP
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = value_parser!(u32).range(1..=1000))]
    initial_window: u32,
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// File for the counters, JSON, written at shutdown
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// When ready, print one line of JSON instead of text
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  fairlane serve --port 8443                      try it: curl -k https://localhost:8443/api/test
  fairlane serve --port 8443 --tls-dir tls        clients check it: curl --cacert tls/ca.pem …
  fairlane serve --port 8443 --cert cert.pem --key key.pem
  fairlane serve --bind 127.0.0.1 --protocols h2,h3 --delay 20ms
  fairlane serve --admin 127.0.0.1:9000 --json    counters: curl http://127.0.0.1:9000/stats
  fairlane link dsl --origin 'fairlane serve --port 8443' -- curl -k https://origin:8443/bytes/9

Exit codes: 0 ended by a signal, 2 bad usage or input, 3 this machine cannot do it, 130 a second Ctrl-C.";

/// Runs `fairlane serve`.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        runtime.worker_threads(usize::from(threads));
    }
    let runtime = runtime
        .enable_all()
        .build()
        .map_err(|error| Failure::Machine(format!("cannot start the worker threads: {error}")))?;
    runtime.block_on(serve(args))
}

async fn serve(args: Args) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.stats {
        // Better known before the requests than after them.
        origin::check_counters(path).map_err(usage)?;
    }
    let config = Config {
        bind: args.bind,
        port: args.port,
        protocols: args.protocols.into_iter().collect(),
        identity: identity(args.tls_dir.as_deref(), args.cert.as_deref(), args.key.as_deref(), &args.host)
            .map_err(usage)?,
        admin: args.admin,
        delay: args.delay,
        store: args.store,
        congestion_control: args.congestion_control,
        initial_window_packets: args.initial_window,
    };
    let end = end_signal()?;
    let origin = Origin::start(&config).map_err(usage)?;
    let ready = if args.json { ready_json(&config, &origin) } else { ready_text(&config, &origin) };
    print(&(ready + "\n"))?;
    tokio::select! {
        () = end => {}
        () = compare(&origin, config.congestion_control) => {}
    }
    let counters = origin.shutdown(GRACE).await;
    if let Some(path) = args.stats {
        origin::write_counters(&path, &counters).map_err(usage)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Says when TCP turns out to have another congestion control than QUIC. Never resolves.
async fn compare(origin: &Origin, asked: CongestionControl) {
    let tcp = origin.tcp_congestion_control().await;
    if tcp != asked.name() {
        say(&format!(
            "fairlane: warning: the kernel gives TCP {tcp}, but QUIC has {asked}: they do not compare fairly\n"
        ));
    }
    std::future::pending().await
}

fn usage(error: origin::Error) -> Failure {
    Failure::Usage(error.to_string())
}

fn delay(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(delay) if delay > origin::MAX_DELAY => Err(format!("the longest delay is {:?}", origin::MAX_DELAY)),
        Ok(delay) => Ok(delay),
        Err(error) => Err(error.to_string()),
    }
}

fn identity(
    directory: Option<&Path>,
    certificate: Option<&Path>,
    key: Option<&Path>,
    names: &[String],
) -> Result<Identity, origin::Error> {
    match (directory, certificate.zip(key)) {
        (_, Some((certificate, key))) => Identity::load(certificate, key),
        (Some(directory), None) => tls::ensure(directory, names),
        (None, None) => Identity::generate(names),
    }
}

/// Resolves at the first signal to end; the second ends the process without asking us.
fn end_signal() -> Result<impl Future<Output = ()>, Failure> {
    interrupt::watch(&Arc::new(AtomicBool::new(false)))?;
    let [mut interrupt, mut terminate, mut hangup] =
        [watched(SignalKind::interrupt())?, watched(SignalKind::terminate())?, watched(SignalKind::hangup())?];
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

fn watched(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::Machine(format!("cannot watch for signal {}: {error}", kind.as_raw_value())))
}

fn ready_json(config: &Config, origin: &Origin) -> String {
    json!({
        "port": origin.port(),
        "addresses": origin.addresses(),
        "protocols": config.protocols,
        "ca": config.identity.ca(),
        "admin": origin.admin(),
        "quic_congestion_control": config.congestion_control.name(),
    })
    .to_string()
}

fn ready_text(config: &Config, origin: &Origin) -> String {
    let mut lines = Vec::new();
    for scheme in ["http", "https"] {
        let names: Vec<&str> = config
            .protocols
            .iter()
            .filter(|protocol| protocol.scheme() == scheme)
            .map(|protocol| protocol.name())
            .collect();
        if !names.is_empty() {
            lines.push(format!("{:9} {scheme}://localhost:{}/", names.join(" "), origin.port()));
        }
    }
    lines.extend(config.identity.ca().map(|ca| format!("{:9} {}", "CA", ca.display())));
    lines.extend(origin.admin().map(|address| format!("{:9} http://{address}/stats", "counters")));
    if config.protocols.iter().any(|protocol| protocol.is_encrypted()) && config.identity.is_temporary() {
        lines.push(
            "The certificate lives in memory: clients cannot check it; --tls-dir DIR keeps one they can trust."
                .to_owned(),
        );
    }
    lines.join("\n")
}
