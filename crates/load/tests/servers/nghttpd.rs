use std::process::Command;

use super::{Ports, Server};

impl Server {
    /// nghttpd with HTTP/2, either in cleartext or over TLS. It logs every frame, and the fields of each request.
    pub fn nghttpd(encrypted: bool) -> Option<Server> {
        let mut server = Server::start("nghttpd", Ports::One, false, |directory, port, _| {
            let mut command = Command::new("nghttpd");
            command.args(["--verbose", "--address=127.0.0.1", "--htdocs"]).arg(directory.join("www"));
            if encrypted {
                command.arg(port.to_string()).arg(directory.join("key.pem")).arg(directory.join("cert.pem"));
            } else {
                command.arg("--no-tls").arg(port.to_string());
            }
            command
        })?;
        server.log = ("output", ":method: ");
        Some(server)
    }
}
