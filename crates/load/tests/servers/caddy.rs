use std::fs;
use std::process::Command;

use super::{Ports, Server};

impl Server {
    /// Caddy with HTTP/1.1 in cleartext, and HTTP/1.1, HTTP/2 and HTTP/3 over TLS.
    pub fn caddy() -> Option<Server> {
        Server::start("caddy", Ports::Two, false, |directory, clear, tls| {
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
}
