#!/usr/bin/env python3
"""An HTTP origin and images for the scripts of this repository.

    from test_origin import Origin, png

    origin = Origin(lambda path, fields: (200, {"Content-Type": "image/png"}, png(8, 8)))
    ...
    origin.close()

As a program, it writes a PNG image: test_origin.py WIDTH HEIGHT >FILE. Requires Python 3.9; no other packages.
"""

import hashlib
import http.server
import struct
import sys
import threading
import zlib


def png(width, height, pixels=None, text=b"", level=-1):
    """Returns a PNG of shades of gray.

    pixels: one byte for each pixel, by rows (default: a gradient).
    text: the content of a text chunk, to make the image larger.
    level: the compression level of zlib.
    """
    pixels = pixels or bytes((4 * x + y) % 256 for y in range(height) for x in range(width))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[start:start + width] for start in range(0, width * height, width))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    note = chunk(b"tEXt", b"note\0" + text) if text else b""
    return b"\x89PNG\r\n\x1a\n" + header + note + chunk(b"IDAT", zlib.compress(rows, level)) + chunk(b"IEND", b"")


class Origin:
    """An HTTP server on a free port of the loopback interface.

    `respond` gets the path, without a query, and the header fields of a GET request, and returns status, header fields and body, or None to
    close the connection. Each response with status 200 gets an ETag. A request with that ETag is answered with 304.
    """

    def __init__(self, respond):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                response = respond(self.path.partition("?")[0], self.headers)
                if response is None:
                    self.close_connection = True
                    return
                status, fields, body = response
                if status == 200:
                    fields = {**fields, "ETag": '"' + hashlib.sha256(body).hexdigest()[:16] + '"'}
                    if self.headers.get("If-None-Match") == fields["ETag"]:
                        status, body = 304, b""
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                if status != 304:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # an agent may close a connection at any time
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    sys.stdout.buffer.write(png(int(sys.argv[1]), int(sys.argv[2])))
