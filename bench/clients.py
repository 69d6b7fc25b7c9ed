"""The load generators: how each is called for the same work, and how many successes its own output claims.

All run one worker, do not check the certificate, and hold `c` connections with `m` requests in flight on each.
"""

import json
import os
import re
import shutil
import statistics
import subprocess

import machine
import servers


class Client:
    """A load generator. `protocols` is what it can speak, `install` the command that installs it."""

    by_duration = False  # whether it runs for a time instead of for a number of requests

    def __init__(self, program):
        self.program = shutil.which(program)

    def version(self):
        asked = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        return (asked.stdout or asked.stderr).splitlines()[0].split(" Copyright")[0]

    def can(self, protocol, m):
        return protocol in self.protocols

    def command(self, protocol, url, c, m, amount):
        """The command line for `amount` requests, or seconds if it runs by duration."""
        raise NotImplementedError

    def succeeded(self, run):
        """Requests answered with success, as its output says."""
        raise NotImplementedError

    def startup(self, server, core, times):
        """CPU in seconds of a run with one request, median of `times`."""
        return statistics.median(self.run_once(server, core).cpu for _ in range(times))

    def run_once(self, server, core):
        command = self.command(server.protocol, server.url, 1, 1, 1)
        run = machine.run(command, core)
        run.check(command)
        return run


class Fairlane(Client):
    name, protocols, install = "fairlane", ("h1c", "h1", "h2c", "h2", "h3"), "cargo build --release"

    def command(self, protocol, url, c, m, amount):
        command = [self.program, "load", url, "--protocol", protocol, "-n", amount, "-c", c, "-m", m, "--json"]
        command += ["--pipeline"] * (m > 1 and protocol.startswith("h1"))
        return command + ["--insecure"] * url.startswith("https")

    def hold(self, protocol, url, c, warm_up, seconds):
        """The command line that opens `c` connections while it warms up, then keeps them busy; times in seconds."""
        command = [self.program, "load", url, "--protocol", protocol, "-c", c, "--json"]
        command += ["-D", f"{seconds}s", "--warm-up-time", f"{warm_up}s"]
        return command + ["--insecure"] * url.startswith("https")

    def succeeded(self, run):
        return json.loads(run.output)["requests"]["succeeded"]


class Wrk(Client):
    name, protocols, install = "wrk", ("h1c", "h1"), "apt-get install wrk"
    by_duration = True

    def version(self):
        asked = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        return asked.stdout.split(" [")[0]

    def can(self, protocol, m):
        return protocol in self.protocols and m == 1  # pipelining needs a script, which is another program

    def command(self, protocol, url, c, m, amount):
        return [self.program, "-t", 1, "-c", c, "-d", f"{amount}s", url]

    def run_once(self, server, core):
        """It cannot send one request only, but gives up at once if nobody listens."""
        nowhere = server.url.replace(f":{server.port}/", f":{servers.free_port()}/")
        return machine.run(self.command(server.protocol, nowhere, 1, 1, 1), core)

    def succeeded(self, run):
        def number(pattern):
            return sum(map(int, re.findall(pattern, run.output)))

        return number(r"(\d+) requests in") - number(r"Non-2xx or 3xx responses: (\d+)")


class H2load(Client):
    name, protocols, install = "h2load", ("h1c", "h1", "h2c", "h2"), "apt-get install nghttp2-client"

    def command(self, protocol, url, c, m, amount):
        return [self.program, "-t", 1, "-n", amount, "-c", c, "-m", m] + ["--h1"] * protocol.startswith("h1") + [url]

    def succeeded(self, run):
        return int(re.search(r"(\d+) succeeded", run.output)[1])


class Oha(Client):
    name, protocols, install = "oha", ("h1c", "h1", "h2c", "h2", "h3"), "cargo install oha --features http3 --locked"
    versions = {"h1c": "1.1", "h1": "1.1", "h2c": "2", "h2": "2", "h3": "3"}

    def can(self, protocol, m):
        return m == 1 or not protocol.startswith("h1")  # it has no pipelining

    def command(self, protocol, url, c, m, amount):
        # -c connections with -p streams on each; -n is the number of requests over all of them.
        command = [self.program, "--no-tui", "--worker-threads", 1, "--http-version", self.versions[protocol]]
        return command + ["--output-format", "json", "--insecure", "-n", amount, "-c", c, "-p", m, url]

    def succeeded(self, run):
        codes = json.loads(run.output)["statusCodeDistribution"]
        return sum(count for code, count in codes.items() if code.startswith("2"))


def all_clients(fairlane, oha):
    """Fairlane and its peers, by name."""
    clients = {client.name: client for client in (Fairlane(fairlane), Wrk("wrk"), H2load("h2load"), Oha(oha))}
    if not clients["fairlane"].program:
        raise machine.CannotMeasure(f"{fairlane} does not exist: {Fairlane.install}")
    return clients


def introduce(clients):
    """Print the conditions: machine, versions of the clients, and how those that are missing are installed."""
    conditions = machine.environment()
    print(f"{conditions['cpu']}, Linux {conditions['kernel']}, TCP {conditions['tcp_congestion_control']}")
    print("; ".join(client.version() for client in clients.values() if client.program))
    for client in clients.values():
        if not client.program:
            print(f"{client.name} is not installed: {client.install}")
    print(flush=True)


def default_fairlane():
    """The release build of this checkout."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "target", "release", "fairlane")
