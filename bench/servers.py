"""The servers that the load generators are measured against: one worker, pinned to a core, a body of given size.

Each is started in a folder of its own with a generated configuration and a generated certificate, and ended by its
process id. Servers that let the TLS 1.3 cipher and key exchange be set have the same for all clients, AES-128-GCM and
X25519: otherwise each client would be measured with the ones it prefers.
"""

import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import time
import urllib.request

import machine


def free_port():
    """A port that is free for TCP and UDP at this moment."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            try:
                udp.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def fetch(url):
    """The text behind a URL."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


class Server:
    """A running server. `protocols` is what it can serve here, `install` the command that installs it."""

    path = "/body"
    environment = {}
    version_arguments = ["--version"]

    def __init__(self, program, folder, protocol, body, core):
        self.program = shutil.which(program)
        if self.program is None:
            raise machine.CannotMeasure(f"{program} is not installed: {self.install}")
        self.folder, self.protocol, self.body = pathlib.Path(folder), protocol, body
        self.tls = protocol in ("h1", "h2", "h3")
        self.port, self.admin = free_port(), free_port()
        self.certificate, self.key = self.folder / "cert.pem", self.folder / "key.pem"
        (self.folder / "www").mkdir(parents=True)
        (self.folder / "www" / "body").write_bytes(b"x" * body)
        if self.tls:
            self.make_certificate()
        with machine.pinned(core), open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                list(map(str, self.command())),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment, "HOME": folder},
            )
        self.wait_until_ready()

    def command(self):
        raise NotImplementedError

    def requests(self):
        """Requests served so far by its own count, or None if it does not tell."""
        return None

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}{self.path}"

    @property
    def ready_port(self):
        return self.port

    def make_certificate(self):
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split()
        command += "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1".split()
        command += ["-out", self.certificate, "-keyout", self.key]
        subprocess.run(command, check=True, capture_output=True)

    def wait_until_ready(self):
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                return socket.create_connection(("127.0.0.1", self.ready_port), 1).close()
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise machine.CannotMeasure(f"{self.program} did not start:\n{(self.folder / 'log').read_text()[-2000:]}")

    def cpu(self):
        """Seconds of CPU used so far."""
        return machine.process_cpu(self.process.pid)

    def version(self):
        asked = subprocess.run([self.program, *self.version_arguments], capture_output=True, text=True)
        return (asked.stdout + asked.stderr).splitlines()[0]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Nginx(Server):
    name, protocols, install = "nginx", ("h1c", "h1", "h2"), "apt-get install nginx"
    version_arguments = ["-v"]

    def command(self):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        listen = {"h1c": "", "h1": "ssl", "h2": "ssl http2"}[self.protocol]
        tls = f"""
            ssl_certificate {self.certificate}; ssl_certificate_key {self.key};
            ssl_ecdh_curve X25519; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;"""
        (self.folder / "nginx.conf").write_text(f"""
            {"user root root;" if os.geteuid() == 0 else ""}
            daemon off; worker_processes 1; pid nginx.pid; error_log error.log;
            events {{ worker_connections {files - 100}; }}
            http {{
                access_log off; keepalive_requests 1000000000; keepalive_timeout 600; http2_max_concurrent_streams 1000;
                client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;
                uwsgi_temp_path tmp; scgi_temp_path tmp;
                server {{
                    listen 127.0.0.1:{self.port} {listen} backlog=4096; {tls if self.tls else ""}
                    location / {{ root www; open_file_cache max=10; }}
                }}
                server {{ listen 127.0.0.1:{self.admin}; location / {{ stub_status; }} }}
            }}""")
        return [self.program, "-p", self.folder, "-c", "nginx.conf", "-e", "error.log"]

    asked = 0  # requests for the status page; it counts those, too

    def requests(self):
        self.asked += 1
        return int(fetch(f"http://127.0.0.1:{self.admin}/").splitlines()[2].split()[2]) - self.asked


class Nghttpd(Server):
    name, protocols, install = "nghttpd", ("h2c", "h2"), "apt-get install nghttp2-server"

    def command(self):
        options = [self.program, "-a", "127.0.0.1", "-n", 1, "-m", 1000, "-d", "www"]
        return options + ([self.port, self.key, self.certificate] if self.tls else ["--no-tls", self.port])


class Caddy(Server):
    name, protocols, install = "caddy", ("h1c", "h1", "h2c", "h2", "h3"), "apt-get install caddy"
    environment = {"GOMAXPROCS": "1"}
    version_arguments = ["version"]

    def command(self):
        spoken = {"h1c": ["h1"], "h1": ["h1"], "h2c": ["h1", "h2c"], "h2": ["h1", "h2"], "h3": ["h1", "h2", "h3"]}
        server = {
            "listen": [f"127.0.0.1:{self.port}"],
            "protocols": spoken[self.protocol],
            "automatic_https": {"disable": True},
            "routes": [{"handle": [{"handler": "file_server", "root": str(self.folder / "www")}]}],
        }
        apps = {"http": {"servers": {"bench": server}}}
        if self.tls:
            server["tls_connection_policies"] = [{"curves": ["x25519"]}]
            apps["tls"] = {
                "certificates": {"load_files": [{"certificate": str(self.certificate), "key": str(self.key)}]}
            }
        config = {"admin": {"disabled": True}, "logging": {"logs": {"default": {"level": "ERROR"}}}, "apps": apps}
        (self.folder / "caddy.json").write_text(json.dumps(config))
        return [self.program, "run", "--config", "caddy.json"]

    def version(self):
        return f"Caddy {super().version()}"


class Origin(Server):
    """`fairlane serve`."""

    name, protocols, install = "origin", ("h1c", "h1", "h2c", "h2", "h3"), "cargo build --release"

    def command(self):
        tls = ["--cert", self.certificate, "--key", self.key] if self.tls else []
        where = ["--bind", "127.0.0.1", "--port", self.port, "--admin", f"127.0.0.1:{self.admin}"]
        return [self.program, "serve", "--threads", 1, *where, *tls]

    @property
    def path(self):
        return f"/bytes/{self.body}"

    @property
    def ready_port(self):
        return self.admin  # it opens last, and is TCP even if only HTTP/3 is served

    def requests(self):
        protocols = json.loads(fetch(f"http://127.0.0.1:{self.admin}/stats"))["protocols"]
        return protocols.get(self.protocol, {"requests": 0})["requests"]


KINDS = {kind.name: kind for kind in (Nginx, Nghttpd, Caddy, Origin)}

# Debian's nginx 1.22 answers HTTP/2 in cleartext after 50 ms, and has no HTTP/3.
DEFAULTS = {"h1c": "nginx", "h1": "nginx", "h2c": "nghttpd", "h2": "nginx", "h3": "origin"}
HELP = (
    "NAME or NAME:PROGRAM; names are "
    + ", ".join(KINDS)
    + " (default: nginx for h1c, h1, h2; nghttpd for h2c; origin for h3)"
)


def start(kind, protocol, body, folder, core, fairlane):
    """Start a server: `kind` is a name of KINDS, NAME:PROGRAM, or None for the protocol's default."""
    name, _, program = (kind or DEFAULTS[protocol]).partition(":")
    if name not in KINDS:
        raise machine.CannotMeasure(
            f"there is no server {name!r}: one of {', '.join(KINDS)}, or for instance nginx:/usr/local/sbin/nginx"
        )
    if protocol not in KINDS[name].protocols:
        raise machine.CannotMeasure(
            f"{name} does not serve {protocol} here, only {', '.join(KINDS[name].protocols)}: leave --server out"
        )
    return KINDS[name](program or (fairlane if name == "origin" else name), folder, protocol, body, core)
