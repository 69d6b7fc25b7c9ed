"""Answers HTTP/3 requests with aioquic, without QUIC.

Reads the client's streams from standard input and prints the server's, a piece a line: stream, bytes in hexadecimal,
and 1 if the stream ends with it. Each response's body is the request's method, path and body.
"""

import sys

from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import StreamDataReceived


class Streams:
    """Stands in for the QUIC connection."""

    configuration = QuicConfiguration(is_client=False)
    _quic_logger = None
    _remote_max_datagram_frame_size = None

    def __init__(self):
        self.next = 3

    def get_next_available_stream_id(self, is_unidirectional=False):
        assert is_unidirectional
        self.next += 4
        return self.next - 4

    def send_stream_data(self, stream, data, end_stream=False):
        print(stream, data.hex() or "-", int(end_stream))

    def close(self, error_code, reason_phrase):
        sys.exit(f"{error_code:#x} {reason_phrase}")


def main():
    http = H3Connection(Streams())
    requests = {}
    for line in sys.stdin:
        stream, data, end = line.split()
        data = b"" if data == "-" else bytes.fromhex(data)
        for event in http.handle_event(StreamDataReceived(data=data, end_stream=end == "1", stream_id=int(stream))):
            fields, body = requests.setdefault(event.stream_id, ({}, bytearray()))
            if isinstance(event, HeadersReceived):
                fields.update(event.headers)
            elif isinstance(event, DataReceived):
                body.extend(event.data)
            if event.stream_ended:
                respond(http, event.stream_id, fields, bytes(body))


def respond(http, stream, fields, body):
    method = fields[b":method"]
    content = b" ".join([method, fields[b":path"], body])
    early = [(b":status", b"103"), (b"link", b"</style.css>; rel=preload")]
    http.send_headers(stream, early)
    length = str(len(content)).encode()
    head = [(b":status", b"200"), (b"server", b"aioquic"), (b"content-length", length)]
    head.append((b"x-long", b"long " * 20 + b"end"))
    http.send_headers(stream, head, end_stream=method == b"HEAD")
    if method != b"HEAD":
        http.send_data(stream, content[:5], end_stream=False)
        http.send_data(stream, content[5:], end_stream=False)
        http.send_headers(stream, [(b"x-trailer", b"end")], end_stream=True)


main()
