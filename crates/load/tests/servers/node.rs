use std::process::Command;

use super::{Ports, Server};

/// Versions of HTTP that Node's servers speak.
#[derive(Clone, Copy)]
pub enum Node {
    /// HTTP/1.1, in cleartext and over TLS.
    Http1,
    /// HTTP/2 in cleartext; over TLS the client chooses between that and HTTP/1.1.
    Http2,
}

impl Server {
    /// Node's own servers. Each request is a line of what they print.
    pub fn node(kind: Node) -> Option<Server> {
        let mut server = Server::start("node", Ports::Two, false, |directory, clear, tls| {
            let mut command = Command::new("node");
            command.args(["--input-type=module", "--eval", include_str!("node.js")]);
            command.arg(match kind {
                Node::Http1 => "http1",
                Node::Http2 => "http2",
            });
            command.arg(clear.to_string()).arg(tls.to_string()).current_dir(directory);
            command
        })?;
        server.log = ("output", "request ");
        Some(server)
    }
}
