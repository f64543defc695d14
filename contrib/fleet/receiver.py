#!/usr/bin/env python3
"""Stores the reports of agents (the setting report.url) in an SQLite database, and prints what the hosts run.

    receiver.py serve --database FILE [--listen 127.0.0.1:8095] [--certificate FILE --key FILE] [--token-file FILE]
    receiver.py table --database FILE [--namespace NAME] [--stop-at COUNT]

`serve` accepts reports by POST at any path, and keeps the last report of each host. With --token-file, each report must have
the token of that file (the setting report.tokenFile). Without --certificate it uses plain HTTP, which agents accept only from
a receiver on their own host, such as one behind a proxy that ends TLS.

`table` prints, for each namespace, how many hosts run which version, which of them reject a newer one and why, and which
are silent: the last report is older than three of their intervals. With --stop-at, the exit status is 1 if at least that
many hosts reject something, so that a script can stop a rollout.

Texts in reports come from other hosts. Control characters in them are printed as escape sequences, such as \\x1b.
"""
import argparse
import collections
import contextlib
import hmac
import http.server
import json
import pathlib
import sqlite3
import ssl
import sys
import time

MAX_BYTES = 4 << 20
SOCKET_TIMEOUT = 20
SILENT_INTERVALS = 3
SCHEMA = """create table if not exists reports (
    id text primary key, host text not null, received real not null, interval integer not null, report text not null)"""


def connect(path):
    database = sqlite3.connect(path, timeout=10)
    database.execute(SCHEMA)
    return contextlib.closing(database)


def store(path, body):
    """Replaces the report of a host. Raises ValueError if the body is not a report."""
    try:
        report = json.loads(body)
        host, interval = report["host"], report["intervalSeconds"]
        is_valid = (
            report["format"] == 1 and isinstance(host, str) and isinstance(interval, int) and 0 < interval <= 1 << 31
            and isinstance(report.get("hostId", ""), str) and isinstance(report["namespaces"], list)
            and all(isinstance(space, dict) and isinstance(space["namespace"], str) for space in report["namespaces"]))
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("incomplete report") from error
    if not is_valid:
        raise ValueError("not a report of format 1")
    row = (report.get("hostId") or "name:" + host, host, time.time(), interval, json.dumps(report))
    with connect(path) as database, database:
        database.execute("insert or replace into reports values (?, ?, ?, ?, ?)", row)


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = SOCKET_TIMEOUT
    database = None
    token = None

    def setup(self):
        # A handshake in the thread of the listener would let one client delay all others.
        if isinstance(self.request, ssl.SSLSocket):
            self.request.settimeout(SOCKET_TIMEOUT)
            self.request.do_handshake()
        super().setup()

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return self.answer(411, "Content-Length is missing")
        if int(length) > MAX_BYTES:
            return self.answer(413, f"more than {MAX_BYTES} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            return self.answer(400, "the body is incomplete")
        # The body is read first: closing a connection with unread data can discard the response.
        if self.token is not None:
            given = self.headers.get("Authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, b"Bearer " + self.token):
                return self.answer(401, "wrong token")
        try:
            store(self.database, body)
        except ValueError as error:
            return self.answer(400, str(error))
        except sqlite3.Error as error:
            self.log_error("cannot store a report: %s", error)
            return self.answer(503, "the database cannot be written")
        self.answer(204)

    def answer(self, status, problem=""):
        body = problem.encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, form, *values):
        sys.stderr.write(shown(f"{self.address_string()} {form % values}") + "\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        sys.stderr.write(shown(f"{client_address[0]}: {sys.exc_info()[1]}") + "\n")


def serve(arguments):
    host, _, port = arguments.listen.rpartition(":")
    with connect(arguments.database):
        Handler.database = arguments.database
    if arguments.token_file:
        Handler.token = pathlib.Path(arguments.token_file).read_bytes().strip()
    server = Server((host.strip("[]"), int(port)), Handler)
    if arguments.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate, arguments.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f"listening on {host}:{server.server_address[1]}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


def shown(text, width=None):
    """The text on one line, without characters that control a terminal or hide others."""
    plain = "".join(c if c.isprintable() and c != "\\" else c.encode("unicode_escape", "backslashreplace").decode()
                    for c in str(text))
    return plain if width is None or len(plain) <= width else plain[:width - 1] + "…"


def rows(table):
    """Prints rows of texts as columns."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
    for row in table:
        cells = [text.ljust(width) for text, width in zip(row, widths)]
        print("  " + "  ".join(cells + [row[-1]]).rstrip())


def hosts(count):
    return f"{count} host" if count == 1 else f"{count} hosts"


def age(seconds):
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds / size)} {unit}"
    return f"{int(seconds)} s"


def refusals(space):
    """The content that a host or its clients reject, as pairs of a version or revision and a reason."""
    rejected = space.get("rejected")
    if isinstance(rejected, dict):
        yield shown(rejected.get("version", "-"), 30), shown(rejected.get("reason", ""), 120)
    clients = space.get("clients")
    for client in clients if isinstance(clients, list) else []:
        if isinstance(client, dict) and client.get("accepted") is False:
            reason = f": {client['reason']}" if client.get("reason") else ""
            yield f"revision {shown(client.get('revision'), 20)}", shown(f"client {client.get('name')}{reason}", 120)


def table(arguments):
    if not pathlib.Path(arguments.database).exists():
        sys.exit(f"receiver.py: {arguments.database} does not exist; name the database of the receiver")
    now, spaces, silent = time.time(), collections.defaultdict(list), []
    with connect(arguments.database) as database:
        for host, received, interval, text in database.execute(
                "select host, received, interval, report from reports order by host, id"):
            if now - received > SILENT_INTERVALS * interval:
                silent.append((shown(host, 40), age(now - received) + " ago"))
            for space in json.loads(text)["namespaces"]:
                if arguments.namespace in (None, space["namespace"]):
                    spaces[space["namespace"]].append((shown(host, 40), space))
    rejecting = set()
    for name in sorted(spaces):
        versions, states = collections.Counter(), collections.defaultdict(collections.Counter)
        refused, experiments = [], collections.Counter()
        for host, space in spaces[name]:
            names = space.get("experiments")
            experiments.update({shown(experiment, 40) for experiment in names} if isinstance(names, list) else ())
            version = shown(space.get("version", "-"), 40)
            versions[version] += 1
            states[version][shown(space.get("state", "-"), 20)] += 1
            for what, reason in refusals(space):
                refused.append((host, what, reason))
                rejecting.add(host)
        print(f"namespace {shown(name, 64)}: {hosts(len(spaces[name]))}")
        rows([("VERSION", "HOSTS", "STATES")] + [
            (version, str(count), ", ".join(f"{state} {number}" for state, number in sorted(states[version].items())))
            for version, count in sorted(versions.items())])
        for experiment, count in sorted(experiments.items()):
            print(f"  experiment {experiment}: {hosts(count)}")
        if refused:
            print(f"\nrejected by {hosts(len({host for host, *_ in refused}))}")
            rows([("HOST", "VERSION", "REASON")] + refused)
        print()
    print(f"silent: {hosts(len(silent))}")
    if silent:
        rows([("HOST", "LAST REPORT")] + silent)
    if arguments.stop_at is not None and len(rejecting) >= arguments.stop_at:
        print(f"\nstop: rejected by {hosts(len(rejecting))}")
        sys.exit(1)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    server, printer = verbs.add_parser("serve"), verbs.add_parser("table")
    for verb in (server, printer):
        verb.add_argument("--database", required=True)
    server.add_argument("--listen", default="127.0.0.1:8095")
    server.add_argument("--certificate")
    server.add_argument("--key")
    server.add_argument("--token-file")
    printer.add_argument("--namespace")
    printer.add_argument("--stop-at", type=int)
    arguments = parser.parse_args()
    if arguments.verb == "serve":
        serve(arguments)
    else:
        table(arguments)


if __name__ == "__main__":
    main()
