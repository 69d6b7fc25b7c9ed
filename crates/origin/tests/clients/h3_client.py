"""Asks an HTTP/3 server with aioquic, all requests at once on one connection.

usage: h3_client.py CA_FILE PORT < requests.json

requests.json is a list of {"method", "path", "body"}; the answers are a list of {"status", "headers", "body"} in the same
order. Bodies are base64.
"""

import asyncio
import base64
import json
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration


class Http(H3Connection):
    def _check_content_length(self, stream):
        """aioquic expects a body of Content-Length even after HEAD; the test compares bodies itself."""


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = Http(self._quic)
        self.answers = {}

    def ask(self, authority, request):
        body = base64.b64decode(request["body"])
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self.answers[stream] = ({"headers": [], "body": bytearray()}, done)
        headers = [
            (b":method", request["method"].encode()),
            (b":scheme", b"https"),
            (b":authority", authority.encode()),
            (b":path", request["path"].encode()),
        ]
        if body:
            headers.append((b"content-length", str(len(body)).encode()))
        self.http.send_headers(stream, headers, end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return done

    def quic_event_received(self, event):
        for http_event in self.http.handle_event(event):
            answer, done = self.answers[http_event.stream_id]
            if isinstance(http_event, HeadersReceived):
                answer["headers"] += [(name.decode(), value.decode()) for name, value in http_event.headers]
            elif isinstance(http_event, DataReceived):
                answer["body"] += http_event.data
            if http_event.stream_ended:
                headers = dict(answer["headers"])
                status = int(headers.pop(":status"))
                body = base64.b64encode(answer["body"]).decode()
                done.set_result({"status": status, "headers": headers, "body": body})


async def main(ca, port):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN)
    configuration.load_verify_locations(ca)
    async with connect("localhost", port, configuration=configuration, create_protocol=Client) as client:
        requests = [client.ask(f"localhost:{port}", request) for request in json.load(sys.stdin)]
        print(json.dumps(await asyncio.wait_for(asyncio.gather(*requests), 30)))


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
