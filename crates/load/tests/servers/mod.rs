//! Independent servers on loopback, with a certificate and a configuration of their own in a temporary directory.

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

/// A running server; ends with this value.
pub struct Server {
    child: Child,
    directory: Rc<TempDir>,
    /// Port of HTTP in cleartext.
    pub clear_port: u16,
    /// Port of HTTPS, and of QUIC where the server speaks it.
    pub tls_port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// nginx with HTTP/1.1 in cleartext, and HTTP/1.1 and HTTP/2 over TLS; `extra` goes into its server block.
    pub fn nginx(extra: &str) -> Option<Server> {
        Server::nginx_speaking("http2", "TLSv1.3", false, extra)
    }

    /// nginx with HTTP/1.1 alone.
    pub fn nginx_without_http2() -> Option<Server> {
        Server::nginx_speaking("", "TLSv1.3", false, "")
    }

    /// nginx with nothing newer than TLS 1.2.
    pub fn nginx_with_old_tls() -> Option<Server> {
        Server::nginx_speaking("http2", "TLSv1.2", false, "")
    }

    /// nginx with a self-signed certificate that says of itself to be an authority's, as `openssl req -x509` makes it.
    pub fn nginx_with_authority() -> Option<Server> {
        Server::nginx_speaking("http2", "TLSv1.3", true, "")
    }

    /// nginx with these versions of TLS, which logs what it knows of TLS instead of requests. In `extra`, `ROOT` is its
    /// folder. A line has the connection's number, the client's address, the version, cipher, group and name of TLS,
    /// whether the session was reused and the request was early, and how the client's certificate was judged.
    pub fn nginx_that_tells_of_tls(tls_versions: &str, extra: &str) -> Option<Server> {
        Server::nginx_speaking("http2", tls_versions, false, &format!("access_log access.log tls; {extra}"))
    }

    fn nginx_speaking(http2: &str, tls_version: &str, authority: bool, extra: &str) -> Option<Server> {
        Server::start("nginx", authority, |directory, clear, tls| {
            let root = directory.display();
            let extra = extra.replace("ROOT", &root.to_string());
            let config = format!(
                "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
                 events {{ worker_connections 1024; }}
                 http {{
                   log_format short '$request_method $request_uri $status $server_protocol $http_x_test '
                     '$content_length';
                   log_format tls '$connection $remote_addr $ssl_protocol $ssl_cipher $ssl_curve $ssl_server_name '
                     '$ssl_session_reused early=$ssl_early_data $ssl_client_verify';
                   access_log {root}/access.log short;
                   client_body_temp_path {root}/body; proxy_temp_path {root}/proxy; fastcgi_temp_path {root}/fastcgi;
                   uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
                   types {{ text/html html; }}
                   server {{
                     listen 127.0.0.1:{clear}; listen 127.0.0.1:{tls} ssl {http2}; server_name localhost;
                     ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem;
                     ssl_protocols {tls_version}; root {root}/www;
                     {extra}
                   }}
                 }}"
            );
            fs::write(directory.join("nginx.conf"), config).unwrap();
            let mut command = Command::new("nginx");
            command.arg("-p").arg(directory).arg("-e").arg(directory.join("start.log"));
            command.arg("-c").arg(directory.join("nginx.conf"));
            command
        })
    }

    /// Caddy with HTTP/1.1 in cleartext, and HTTP/1.1, HTTP/2 and HTTP/3 over TLS.
    pub fn caddy() -> Option<Server> {
        Server::start("caddy", false, |directory, clear, tls| {
            let root = directory.display();
            let site = format!("root * {root}/www\n file_server\n log {{\n output file {root}/access.log\n }}");
            let config = format!(
                "{{\n admin off\n auto_https off\n storage file_system {root}/storage\n}}
                 http://localhost:{clear} {{\n {site}\n}}
                 https://localhost:{tls} {{\n tls {root}/cert.pem {root}/key.pem\n {site}\n}}\n"
            );
            fs::write(directory.join("Caddyfile"), config).unwrap();
            let mut command = Command::new("caddy");
            command.arg("run").arg("--adapter").arg("caddyfile").arg("--config").arg(directory.join("Caddyfile"));
            command.env("HOME", directory);
            command
        })
    }

    fn start(program: &str, authority: bool, command: impl Fn(&Path, u16, u16) -> Command) -> Option<Server> {
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
            let (clear_port, tls_port) = (free_port(), free_port());
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
            let mut server = Server { child, directory: Rc::clone(&directory), clear_port, tls_port };
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

    /// The lines of the access log, once there are as many as the client counted; logs are written after responses.
    pub fn access_log(&self, expected: u64) -> Vec<String> {
        let lines = || self.read("access.log").lines().map(str::to_owned).collect::<Vec<_>>();
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
