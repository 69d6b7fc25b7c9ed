"""The machine that a benchmark runs on: cores, processes pinned to them, and what they cost.

CPU times come from the operating system and nowhere else: a finished client's from wait4 (user + system, all threads),
a running server's from /proc/PID/task/*/schedstat, a core's from /proc/stat.
"""

import contextlib
import os
import pathlib
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

TICK = 1 / os.sysconf("SC_CLK_TCK")


class CannotMeasure(Exception):
    """Something is missing or went wrong; the text says what to do."""


def script(main):
    """Run a script's main function and exit with its result, 3 if nothing could be measured, 130 on Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends servers and clients, too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(main())
    except CannotMeasure as reason:
        print(reason, file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)


def two_cores():
    """The core for the client and the one for the server."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise CannotMeasure("client and server need a core each, and only one is allowed here")
    return cores[0], cores[1]


@contextlib.contextmanager
def pinned(core):
    """Processes started inside run on `core` (a number, or None for wherever they like)."""
    before = os.sched_getaffinity(0)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def core_busy(core):
    """Seconds that a core has been busy, stolen time included."""
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{core} "):
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line.split()[1:9])
            return (user + nice + system + irq + softirq + steal) * TICK
    raise CannotMeasure(f"/proc/stat has no line for core {core}")


def process_cpu(pid):
    """Seconds of CPU that a running process and its children have used, to the nanosecond."""
    used = 0.0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        used += int((task / "schedstat").read_text().split()[0]) / 1e9
        used += sum(process_cpu(child) for child in (task / "children").read_text().split())
    return used


def peak_memory(pid):
    """Largest resident set so far of a running process in bytes, 0 when it has ended. Unlike wait4's figure it does not
    include that of the process which forked it."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


@dataclass
class Run:
    """A client process that has ended."""

    cpu: float  # seconds, user and system
    wall: float  # seconds from start to end
    code: int
    output: str
    errors: str
    others: float  # share of the core that was used by others, 0 to 1

    def check(self, command):
        if self.code != 0:
            said = (self.errors or self.output).strip()[-2000:]
            raise CannotMeasure(f"{' '.join(map(str, command))}\nended with {self.code} and said:\n{said}")


def run(command, core=None, timeout=120, watch=None):
    """Run a client to its end, or kill it after `timeout` seconds. `watch` is called with the process id every 5 ms."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with pinned(core):
            busy = core_busy(core) if core is not None else 0
            start = time.monotonic()
            child = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            end = os.pidfd_open(child.pid)
            while not select.select([end], [], [], 0.005 if watch else timeout)[0]:
                if watch:
                    watch(child.pid)
                if time.monotonic() - start >= timeout:
                    child.kill()
            os.close(end)
        except BaseException:
            child.kill()
            raise
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime
        others = max(0.0, (core_busy(core) - busy - cpu) / wall) if core is not None else 0.0
        out.seek(0)
        err.seek(0)
        texts = [stream.read().decode(errors="replace") for stream in (out, err)]
        return Run(cpu, wall, child.returncode, texts[0], texts[1], others)


def environment():
    """What a reader needs to know about this machine to compare figures."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    models = [line.split(":")[1].strip() for line in cpuinfo.splitlines() if line.startswith("model name")]
    return {
        "cpu": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
        "kernel": platform.release(),
        "tcp_congestion_control": pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip(),
    }
