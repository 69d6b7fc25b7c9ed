"""The cells of the benchmarks: a protocol, connections, and requests in flight on each; and the targets in them."""

import argparse

import servers

# CPU per request of fairlane, divided by that of the peer: (protocol, connections, in flight on each) -> peer, at most
TARGETS = {
    (protocol, c, m): (peer, most)
    for protocol, peer, row in [
        ("h1c", "wrk", {(1, 1): 0.9, (100, 1): 0.9}),
        ("h1", "wrk", {(1, 1): 0.9, (100, 1): 1.0}),
        ("h2c", "h2load", {(1, 1): 0.9, (1, 100): 0.5, (10, 10): 0.55, (100, 1): 0.7, (100, 10): 0.6}),
        ("h2", "h2load", {(1, 1): 0.8, (1, 100): 0.65, (10, 10): 0.6, (100, 1): 0.65, (100, 10): 0.55}),
        ("h3", "oha", {(1, 1): 0.5, (1, 100): 0.35, (10, 10): 0.35, (100, 1): 0.5, (100, 10): 0.5}),
    ]
    for (c, m), most in row.items()
}
PEERS = {protocol: peer for (protocol, _, _), (peer, _) in TARGETS.items()}


def target(protocol, c, m, peer):
    """The largest ratio fairlane/peer that is aimed at, or None."""
    against, most = TARGETS.get((protocol, c, m), (None, None))
    return most if against == peer else None


def parse(text):
    """A cell, written as h2:10/100."""
    try:
        protocol, counts = text.split(":")
        c, m = map(int, counts.split("/"))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no cell: write h2:10/100 for 10 connections with 100 requests in flight on each"
        )
    if c < 1 or m < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no cell: connections and requests in flight are at least 1")
    return protocols(protocol)[0], c, m


def several(text):
    """Cells, separated by commas."""
    return [parse(part) for part in text.split(",")]


def protocols(text):
    """Names of protocols, separated by commas."""
    return list_of(servers.DEFAULTS)(text)


def list_of(allowed):
    """A parser of lists of `allowed` words, separated by commas."""

    def check(text):
        for part in text.split(","):
            if part not in allowed:
                raise argparse.ArgumentTypeError(f"{part!r} is none of {', '.join(allowed)}")
        return text.split(",")

    return check


def positive(text):
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
