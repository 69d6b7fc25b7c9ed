//! Independent servers on loopback, with a certificate and a configuration of their own in a temporary directory.

mod caddy;
mod h2o;
mod nghttpd;
mod nginx;
mod node;

use std::fs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use load::{Amount, LoadError, Model, Plan, Target, Verification};
use measure::{LoadSummary, Protocol};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tempfile::TempDir;

pub use node::Node;

/// A running server; ends with this value.
pub struct Server {
    child: Child,
    directory: Rc<TempDir>,
    /// Port of HTTP in cleartext.
    pub clear_port: u16,
    /// Port of HTTPS, and of QUIC where the server speaks it.
    pub tls_port: u16,
    /// The file that tells of requests, and what the line of a request contains.
    log: (&'static str, &'static str),
}

/// How many ports a server listens on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ports {
    /// One, for cleartext or TLS as it is told.
    One,
    /// One for cleartext and one for TLS.
    Two,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(
        program: &str,
        ports: Ports,
        authority: bool,
        command: impl Fn(&Path, u16, u16) -> Command,
    ) -> Option<Server> {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        if authority {
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        fs::write(directory.path().join("cert.pem"), parameters.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(directory.path().join("key.pem"), key.serialize_pem()).unwrap();
        write_site(&directory.path().join("www"));
        let directory = Rc::new(directory);
        // A port that was free may be taken by the time the server binds it; then other ports are tried.
        for _ in 0..5 {
            let clear_port = free_port();
            let tls_port = if ports == Ports::One { clear_port } else { free_port() };
            let output = fs::File::create(directory.path().join("output")).unwrap();
            let mut command = command(directory.path(), clear_port, tls_port);
            command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
            let child = match command.spawn() {
                Ok(child) => child,
                Err(error) => {
                    testbed::skip(&format!("{program} cannot be started: {error}"));
                    return None;
                }
            };
            let log = ("access.log", "");
            let mut server = Server { child, directory: Rc::clone(&directory), clear_port, tls_port, log };
            if server.listens() {
                return Some(server);
            }
            eprintln!("{program} ended: {}", server.read("output") + &server.read("start.log"));
        }
        panic!("{program} does not start");
    }

    /// Waits until both ports answer; false when the server ended instead.
    fn listens(&mut self) -> bool {
        let ports = [self.clear_port, self.tls_port];
        let mut ended = false;
        until("the server listens", || {
            ended = self.child.try_wait().unwrap().is_some();
            ended || ports.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
        });
        !ended
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    pub fn certificate(&self) -> PathBuf {
        self.file("cert.pem")
    }

    /// A file in the server's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A plan for a path that trusts the server's certificate.
    pub fn plan(&self, protocol: Protocol, path: &str, amount: Amount) -> Plan {
        let port = if protocol.is_encrypted() { self.tls_port } else { self.clear_port };
        let url = format!("{}://localhost:{port}{path}", protocol.scheme());
        let target = Target::parse(&url, Some(&format!("127.0.0.1:{port}"))).unwrap();
        let mut plan = Plan::new(target, protocol, Model::ClosedLoop, amount);
        plan.tls.verification = Verification::CaFile(self.certificate());
        plan
    }

    /// The plan of so many page loads.
    pub fn page(&self, protocol: Protocol, path: &str, count: u64) -> Plan {
        let Plan { target, tls, .. } = self.plan(protocol, path, Amount::Requests(1));
        Plan { tls, ..Plan::new(target, protocol, Model::Pages, Amount::Requests(count)) }
    }

    /// The lines of the log, one per request, once there are as many as the client counted; logs are written after
    /// responses.
    pub fn access_log(&self, expected: u64) -> Vec<String> {
        let (file, mark) = self.log;
        let lines =
            || self.read(file).lines().filter(|line| line.contains(mark)).map(str::to_owned).collect::<Vec<_>>();
        until(&format!("the access log has {expected} lines"), || lines().len() as u64 >= expected);
        lines()
    }
}

/// Runs a plan to its end.
pub fn run(plan: &Plan) -> Result<LoadSummary, LoadError> {
    load::run(plan, &mut |_| true)
}

/// A port that is free for TCP and UDP.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Waits for a condition, at most ten seconds.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Objects of the page besides its document.
pub const OBJECTS: u32 = 20;

fn write_site(root: &Path) {
    fs::create_dir_all(root).unwrap();
    fs::write(root.join("small"), "x".repeat(100)).unwrap();
    fs::write(root.join("large"), "y".repeat(3_000_000)).unwrap();
    let mut page = "<!doctype html><link rel=stylesheet href=/style.css>".to_owned();
    fs::write(root.join("style.css"), "p{}").unwrap();
    for object in 1..OBJECTS {
        page += &format!("<img src='object-{object}.png'>");
        fs::write(root.join(format!("object-{object}.png")), "z".repeat(10_000)).unwrap();
    }
    fs::write(root.join("page.html"), &page).unwrap();
    fs::write(root.join("broken.html"), page + "<img src=missing.png>").unwrap();
}
