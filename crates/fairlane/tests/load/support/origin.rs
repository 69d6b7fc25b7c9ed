use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use measure::{LoadSummary, OriginCounters, Protocol};
use serde_json::Value;
use tempfile::TempDir;

use super::{fairlane, load, measured, signal};

/// A running `fairlane serve`; ended when the test is over.
pub struct Origin {
    child: Child,
    ready: Value,
    directory: TempDir,
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Origin {
    pub fn start() -> Origin {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let mut child = fairlane()
            .args(["serve", "--json", "--admin", "127.0.0.1:0"])
            .args(["--tls-dir", &path("tls"), "--stats", &path("stats.json")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).expect("one line of JSON when ready");
        Origin { child, ready, directory }
    }

    pub fn url(&self, protocol: Protocol, path: &str) -> String {
        format!("{}://localhost:{}{path}", protocol.scheme(), self.ready["port"])
    }

    /// The certificate that the origin's is signed with.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("tls/ca.pem")
    }

    /// `fairlane load` over a protocol, with the origin's authority trusted.
    pub fn load(&self, protocol: Protocol, path: &str, arguments: &[&str]) -> Command {
        let mut command = load([&self.url(protocol, path), "--protocol", protocol.name(), "--cacert"]);
        command.arg(self.ca()).args(arguments);
        command
    }

    /// A load that succeeds.
    pub fn measure(&self, protocol: Protocol, path: &str, arguments: &[&str]) -> LoadSummary {
        measured(self.load(protocol, path, arguments))
    }

    /// Requests that the origin has received over a protocol so far.
    pub fn requests(&self, protocol: Protocol) -> u64 {
        let mut admin = TcpStream::connect(self.ready["admin"].as_str().unwrap()).unwrap();
        admin.write_all(b"GET /stats HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        admin.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let counters: OriginCounters = serde_json::from_str(body).unwrap();
        counters.protocols.get(&protocol).map_or(0, |counts| counts.requests)
    }

    /// Ends the origin and gives what it counted.
    pub fn counters(mut self) -> OriginCounters {
        signal(&self.child, "TERM");
        assert!(self.child.wait().unwrap().success());
        serde_json::from_slice(&fs::read(self.directory.path().join("stats.json")).unwrap()).unwrap()
    }
}
