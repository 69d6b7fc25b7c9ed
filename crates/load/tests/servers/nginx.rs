use std::fs;
use std::process::Command;

use super::{Ports, Server};

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
        Server::start("nginx", Ports::Two, authority, |directory, clear, tls| {
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
}
