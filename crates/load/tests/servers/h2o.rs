use std::fs;
use std::process::Command;

use super::{Ports, Server};

impl Server {
    /// h2o with HTTP/1.1 and HTTP/2, in cleartext and over TLS.
    pub fn h2o() -> Option<Server> {
        Server::start("h2o", Ports::Two, false, |directory, clear, tls| {
            let root = directory.display();
            // As root it would become somebody who cannot read the folder.
            let user = if testbed::is_root() { "user: root" } else { "" };
            let config = format!(
                "num-threads: 1\n{user}\npid-file: {root}/pid\nerror-log: {root}/error.log\n\
                 access-log: {root}/access.log\n\
                 listen: {{host: 127.0.0.1, port: {clear}}}\n\
                 listen: {{host: 127.0.0.1, port: {tls}, ssl: {{certificate-file: {root}/cert.pem, \
                 key-file: {root}/key.pem, ocsp-update-interval: 0}}}}\n\
                 hosts: {{default: {{paths: {{/: {{file.dir: {root}/www}}}}}}}}\n"
            );
            fs::write(directory.join("h2o.yaml"), config).unwrap();
            let mut command = Command::new("h2o");
            command.arg("--conf").arg(directory.join("h2o.yaml"));
            command
        })
    }
}
