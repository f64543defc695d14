#!/usr/bin/python3
"""Checks recorded traffic, and the examples in the documentation, against Protocol/schemas.

    validate-messages.py RECORD...             checks a recording of run-transcripts.py --record or of the tests
    validate-messages.py Protocol/README.md    checks the ```jsonl blocks of a document
    validate-messages.py --schemas             checks the schemas and the examples in them

A recording has one JSON object per line, in the order of events on each connection:

    {"connection":"a","dir":"→","line":"…"}    a line from the client, without its LF
    {"connection":"a","dir":"←","line":"…"}    a line from the agent
    {"connection":"a","dir":"×"}               the recorder stopped reading; requests may stay unanswered

To keep recordings of many subscribers small, "same":"n" repeats the line of an earlier entry with "number":"n". Lines
that are not UTF-8 have "base64" instead of "line". Entries without "connection" belong to one connection.

Lines of the client may be invalid in any way, but the agent must reply to each invalid one with an error. Messages of the
agent must match the schemas, without members that the schemas do not mention. The agent must reply to
each request exactly once, with no errors except those of the method, and follow the rules of subscriptions. Exit status:
0 no problems, 1 problems, 2 invalid arguments.

Requires Debian's python3-jsonschema.
"""

import argparse
import base64
import functools
import json
import pathlib
import re
import sys

import jsonschema

PROTOCOL = pathlib.Path(__file__).resolve().parent.parent / "Protocol"
SCHEMAS = PROTOCOL / "schemas"
NESTING, BATCH = 128, 64
DEFAULT_LINE_BYTES = 1048576
# While it waits for valid settings, the agent answers each request with `unavailable`.
COMMON_ERRORS = {"invalidParams", "internalError", "denied", "shuttingDown", "limitExceeded", "unavailable"}


# --- Schemas ---------------------------------------------------------------------------------------------------


class Schemas:
    """All schema files, combined into one schema, so that references need no network and no resolver."""

    def __init__(self):
        self.files = {}
        for path in sorted(SCHEMAS.rglob("*.json")):
            self.files[path.relative_to(SCHEMAS).as_posix()] = json.loads(path.read_text(encoding="utf-8"))
        self.definitions = {name: self._located(schema, name) for name, schema in self.files.items()}
        self.methods = {file["title"]: name for name, file in self.files.items() if name.startswith("methods/")}
        self.errors = {schema["properties"]["code"]["const"] for schema in self.files["error.json"]["$defs"].values()}
        self._validators = {}
        self._events = {}

    def _located(self, schema, file):
        """Returns the schema of a file with its references made absolute within the combined schema."""
        if isinstance(schema, list):
            return [self._located(element, file) for element in schema]
        if not isinstance(schema, dict):
            return schema
        located = {}
        for name, member in schema.items():
            if name == "$ref" and isinstance(member, str):
                target, _, pointer = member.partition("#")
                located[name] = self._reference(self._resolved(file, target), pointer)
            elif name != "$schema":
                located[name] = self._located(member, file)
        return located

    @staticmethod
    def _resolved(file, target):
        steps = file.split("/")[:-1] if target else file.split("/")
        for step in target.split("/") if target else []:
            steps = steps[:-1] if step == ".." else steps + [step]
        return "/".join(steps)

    @staticmethod
    def _reference(file, pointer):
        return "#/$defs/" + file.replace("~", "~0").replace("/", "~1") + pointer

    def _closed(self, schema):
        """Returns the schema with unknown members disallowed in every object."""
        if isinstance(schema, list):
            return [self._closed(element) for element in schema]
        if not isinstance(schema, dict):
            return schema
        closed = {name: self._closed(member) for name, member in schema.items()}
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            closed.setdefault("additionalProperties", False)
        return closed

    def problems(self, file, pointer, value, from_agent=True):
        """Returns a line for each violation of the schema."""
        key = (file, pointer, from_agent)
        if key not in self._validators:
            definitions = self._closed(self.definitions) if from_agent else self.definitions
            schema = {"$ref": self._reference(file, pointer), "$defs": definitions}
            self._validators[key] = jsonschema.Draft202012Validator(schema)
        found = []
        for error in self._validators[key].iter_errors(value):
            best = jsonschema.exceptions.best_match([error])
            where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in best.absolute_path)
            found.append(f"${where}: {shortened(best.message)}")
        return found

    def event_problems(self, data, value):
        """Like problems(), for events. Caches results, because many subscribers get identical events."""
        if data not in self._events:
            if len(self._events) == 10_000:
                self._events.clear()
            self._events[data] = self.problems("event.json", "", value)
        return self._events[data]

    def method_file(self, method):
        return self.files[self.methods[method]]

    def self_check(self):
        """Yields the problems of the schemas and their examples."""
        for name, file in self.files.items():
            try:
                jsonschema.Draft202012Validator.check_schema(file)
            except jsonschema.SchemaError as error:
                yield f"{name}: {error.message}"
            for reference in references(file):
                target, _, pointer = reference.partition("#")
                if not self._exists(self._resolved(name, target), pointer):
                    yield f"{name}: {reference} does not exist"
        known = set(self.files["error.json"]["$defs"])
        for method, name in self.methods.items():
            file = self.files[name]
            for error in file["x-errors"]:
                if error not in known:
                    yield f"{name}: unknown error {error}"
            for example in file.get("examples", []):
                for part in ("params", "result"):
                    for problem in self.problems(name, f"/$defs/{part}", example[part]):
                        yield f"{name}: example {part}: {problem}"

    def _exists(self, file, pointer):
        node = self.files.get(file)
        for step in pointer.split("/")[1:]:
            node = node.get(step) if isinstance(node, dict) else None
        return node is not None


def references(schema):
    if isinstance(schema, list):
        for element in schema:
            yield from references(element)
    elif isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for member in schema.values():
            yield from references(member)


# --- JSON ------------------------------------------------------------------------------------------------------


class Integer(int):
    """An integer that keeps its original text."""


class Real(float):
    """A number with fraction or exponent that keeps its original text."""


class Repetitive(dict):
    """An object in which names occur more than once. The last value counts."""

    def __init__(self, pairs):
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = {name for name in names if names.count(name) > 1}


def members(pairs):
    value = dict(pairs)
    return value if len(value) == len(pairs) else Repetitive(pairs)


def number(kind):
    def parse(text):
        value = kind(text)
        value.text = text
        return value

    return parse


def parse(data):
    """Parses a line and returns the value and its nesting depth. Raises ValueError if the agent must reject the line."""
    text = data.decode("utf-8")

    def reject(constant):
        raise ValueError(f"{constant} is not JSON")

    depth = deepest = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
        deepest = max(deepest, depth)
    if deepest > NESTING + 3:
        raise ValueError("nested too deeply")
    value = json.loads(text, parse_int=number(Integer), parse_float=number(Real), parse_constant=reject, object_pairs_hook=members)
    json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # rejects lone surrogates
    return value, deepest


@functools.lru_cache(maxsize=4096)
def cached_parse(data):
    """Like parse(), but cached, because the agent sends identical lines to many clients. Callers must not modify the value."""
    return parse(data)


def key_of(identifier):
    """Returns the key of an id. Ids are equal if both type and text are equal."""
    if identifier is None or isinstance(identifier, str):
        return (type(identifier).__name__, identifier)
    return ("number", getattr(identifier, "text", repr(identifier)))


def shortened(text, limit=240):
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


# --- Connections -----------------------------------------------------------------------------------------------


class Pending:
    """A request without a reply so far.

    method: the method whose schema the result must match.
    must_fail: the reason why the reply must be an error, or None.
    """

    def __init__(self, line, method=None, params=None, must_fail=None):
        self.line, self.method, self.params, self.must_fail = line, method, params, must_fail
        self.progress = [0, 0, 0]  # done, failed, bytes


class Connection:
    """The state of one connection: requests without a reply, and open subscriptions."""

    def __init__(self, name, schemas, line_bytes, report):
        self.name, self.schemas, self.line_bytes, self.report = name, schemas, line_bytes, report
        self.pending = {}
        self.batches = []
        self.subscriptions = {}
        self.early = []  # lineTooLong replies that arrived before their line was complete

    # From the client

    def sent(self, line, data):
        if len(data) > self.line_bytes:
            if self.early:
                self.early.pop(0)
            else:
                self._expect(None, Pending(line, must_fail="the line is too long"))
            return
        if not data.strip(b" \t\r"):
            return
        try:
            value, deepest = parse(data)
            if deepest > NESTING:
                raise ValueError("nested too deeply")
        except (ValueError, RecursionError) as problem:
            self._expect(None, Pending(line, must_fail=str(problem)))
            return
        if isinstance(value, list):
            if not 1 <= len(value) <= BATCH:
                self._expect(None, Pending(line, must_fail=f"the batch has {len(value)} elements"))
                return
            answered = [self._request(line, member) for member in value]
            if any(answered):
                self.batches.append([key for key in answered if key])
        else:
            self._request(line, value)

    def _request(self, line, value):
        """Records the expected reply. Returns the key of the id, or None for a notification."""
        if isinstance(value, Repetitive):
            identifier = None if "id" in value.repeated else value.get("id")
            if isinstance(identifier, (bool, list, dict)):
                identifier = None
            return self._expect(identifier, Pending(line, must_fail="it has a member twice"))
        if self.schemas.problems("request.json", "/$defs/Request", value, from_agent=False):
            identifier = value.get("id") if isinstance(value, dict) else None
            if isinstance(identifier, (bool, list, dict)):
                identifier = None
            return self._expect(identifier, Pending(line, must_fail="it is not a request"))
        method, params = value["method"], value.get("params")
        pending = Pending(line, method, params)
        if method not in self.schemas.methods:
            pending.must_fail = f"the method {method} does not exist"
        else:
            problems = self._param_problems(method, params)
            if problems:
                pending.must_fail = f"its params are invalid: {problems[0]}"
        if "id" not in value:
            return None
        return self._expect(value["id"], pending)

    def _param_problems(self, method, params):
        schema = self.schemas.method_file(method)["$defs"]["params"]
        names, required = list(schema["properties"]), schema.get("required", [])
        if isinstance(params, list):
            params = dict(zip(names, params))
        named = {
            name: value
            for name, value in (params or {}).items()
            if name in required or value is not None
        }
        return self.schemas.problems(self.schemas.methods[method], "/$defs/params", named, from_agent=False)

    def _expect(self, identifier, pending):
        key = key_of(identifier)
        self.pending.setdefault(key, []).append(pending)
        return key

    # From the agent

    def received(self, line, data):
        try:
            value, _ = cached_parse(data)
        except (ValueError, RecursionError) as problem:
            self.report(line, f"the agent sent invalid JSON: {problem}")
            return
        if data != data.strip():
            self.report(line, "the agent sent white space around a message")
        if isinstance(value, dict) and value.get("method") == "image.progress":
            self._progress(line, value)
        elif isinstance(value, dict) and "method" in value:
            self._event(line, data, value)
        elif isinstance(value, list):
            self._problems(line, "response.json", "", value)
            keys = [key_of(reply.get("id")) for reply in value if isinstance(reply, dict)]
            if keys in self.batches:
                self.batches.remove(keys)
            else:
                self.report(line, "an array of replies whose ids do not match a batch in order")
            for reply in value:
                self._reply(line, reply)
        else:
            self._problems(line, "response.json", "", value)
            self._reply(line, value)

    def _problems(self, line, file, pointer, value):
        for problem in self.schemas.problems(file, pointer, value):
            self.report(line, f"{file.removesuffix('.json')}{pointer}: {problem}")

    def _reply(self, line, reply):
        if not isinstance(reply, dict) or "id" not in reply:
            return
        error = reply.get("error")
        name = error.get("data", {}).get("name") if isinstance(error, dict) else None
        waiting = self.pending.get(key_of(reply["id"]), [])
        if not waiting:
            if reply["id"] is None and name == "lineTooLong":
                self.early.append(line)
            elif not (reply["id"] is None and name == "limitExceeded"):  # the reply to a refused connection
                self.report(line, f"a reply without a request: {shortened(json.dumps(reply['id'], default=str))}")
            return
        pending = waiting[0]
        if "result" in reply:
            pending = next((candidate for candidate in waiting if not candidate.must_fail), pending)
        waiting.remove(pending)
        if "result" in reply:
            if pending.must_fail:
                self.report(line, f"a result for line {pending.line}, although {pending.must_fail}")
            else:
                self._problems(line, self.schemas.methods[pending.method], "/$defs/result", reply["result"])
                self._result(pending, reply["result"])
        elif pending.method in self.schemas.methods and pending.must_fail is None:
            allowed = COMMON_ERRORS | set(self.schemas.method_file(pending.method)["x-errors"])
            if name not in allowed:
                self.report(line, f"{pending.method} must not fail with {name}")

    def _result(self, pending, result):
        if pending.method in ("config.subscribe", "flag.subscribe") and isinstance(result, dict):
            given = pending.params or {}
            if isinstance(given, list):
                given = dict(zip(["path", "namespace", "mode", "since"], given))
            bases = {given.get("since"), result.get("revision")}
            self.subscriptions[result.get("subscription")] = {"sequence": 0, "bases": bases}
        elif pending.method == "config.unsubscribe" and isinstance(result, dict):
            self.subscriptions.pop(result.get("subscription"), None)

    def _event(self, line, data, value):
        for problem in self.schemas.event_problems(data, value):
            self.report(line, f"event: {problem}")
        event = value.get("params") if isinstance(value.get("params"), dict) else {}
        number = event.get("subscription")
        known = self.subscriptions.get(number)
        if known is None:
            self.report(line, f"an event of subscription {number}, which is not open")
            return
        known["sequence"] += 1
        if event.get("sequence") != known["sequence"]:
            self.report(line, f"sequence {event.get('sequence')}, expected {known['sequence']}")
            known["sequence"] = event.get("sequence", 0)
        if event.get("kind") == "patch" and event.get("from") not in known["bases"]:
            self.report(line, f"a patch from revision {event.get('from')} for a client with one of {known['bases']}")
        known["bases"] = {event.get("revision")}
        if event.get("kind") == "end":
            del self.subscriptions[number]

    def _progress(self, line, value):
        self._problems(line, "progress.json", "", value)
        progress = value.get("params") if isinstance(value.get("params"), dict) else {}
        waiting = self.pending.get(key_of(progress.get("request")), [])
        method = "image.prefetch" if "done" in progress else "image.get"
        pending = next((pending for pending in waiting if pending.method == method), None)
        if pending is None:
            self.report(line, f"progress without a pending {method}")
            return
        if method == "image.get":
            if progress.get("receivedBytes", 0) > progress.get("totalBytes", float("inf")):
                self.report(line, f"progress exceeds the total: {progress}")
            return
        count = [progress.get(name, 0) for name in ("done", "failed", "bytes")]
        if any(now < before for now, before in zip(count, pending.progress)):
            self.report(line, f"progress decreases: {count} after {pending.progress}")
        if count[0] + count[1] > progress.get("total", 0):
            self.report(line, f"progress exceeds the total: {count[0]} done + {count[1]} failed of {progress.get('total')}")
        pending.progress = count

    # At the end

    def abandoned(self):
        self.early.clear()
        self.pending.clear()
        self.batches.clear()

    def ended(self):
        for waiting in self.pending.values():
            for pending in waiting:
                why = f", although {pending.must_fail}" if pending.must_fail else ""
                self.report(pending.line, f"no reply{why}")
        for line in self.early:
            self.report(line, "lineTooLong, but no line was too long")


class Run:
    """The check of one file with all its connections."""

    def __init__(self, path, schemas, line_bytes):
        self.path, self.schemas, self.line_bytes = path, schemas, line_bytes
        self.connections = {}
        self.found = 0
        self.messages = 0

    def connection(self, name):
        if name not in self.connections:
            report = lambda line, problem: self.report(line, problem, name)
            self.connections[name] = Connection(name, self.schemas, self.line_bytes, report)
        return self.connections[name]

    def report(self, line, problem, name=None):
        self.found += 1
        print(f"{self.path}:{line}: {name + ': ' if name else ''}{problem}")

    def entry(self, line, name, direction, data):
        connection = self.connection(name)
        if direction == "×":
            connection.abandoned()
            return
        self.messages += 1
        (connection.sent if direction == "→" else connection.received)(line, data)

    def record(self):
        numbered = {}
        with open(self.path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                try:
                    entry = json.loads(text)
                    direction = entry["dir"]
                    if direction not in ("→", "←", "×"):
                        raise ValueError(f"unknown direction {direction}")
                    data = b""
                    if "same" in entry:
                        data = numbered[entry["same"]]
                    elif direction != "×":
                        data = base64.b64decode(entry["base64"]) if "base64" in entry else entry["line"].encode("utf-8")
                    if "number" in entry:
                        numbered[entry["number"]] = data
                except (ValueError, KeyError, TypeError) as problem:
                    self.report(number, f"invalid entry: {problem!r}")
                    continue
                self.entry(number, entry.get("connection", ""), direction, data)

    def examples(self):
        """Checks the ```jsonl blocks of a Markdown file. Each block is a separate connection."""
        block, inside = 0, False
        for number, line in enumerate(pathlib.Path(self.path).read_text(encoding="utf-8").split("\n"), 1):
            if line.startswith("```"):
                inside = line == "```jsonl"
                block += inside
            elif inside:
                if line[:2] in ("→ ", "← "):
                    self.entry(number, f"example {block}", line[0], line[2:].encode("utf-8"))
                else:
                    self.report(number, "the line does not begin with → or ←")

    def finish(self):
        for connection in self.connections.values():
            connection.ended()
        return self.found


def main():
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", action="store_true", help="check the schemas and their examples")
    parser.add_argument("--line-bytes", type=int, default=DEFAULT_LINE_BYTES, help="the agent's limit for lines (default: %(default)s)")
    parser.add_argument("files", metavar="FILE", nargs="*")
    arguments = parser.parse_args()
    if not arguments.files and not arguments.schemas:
        parser.error("nothing to check")
    schemas = Schemas()
    found = 0
    if arguments.schemas:
        for problem in schemas.self_check():
            print(problem)
            found += 1
    messages = 0
    for path in arguments.files:
        run = Run(path, schemas, arguments.line_bytes)
        run.examples() if path.endswith(".md") else run.record()
        found += run.finish()
        messages += run.messages
    if arguments.files:
        print(f"{messages} messages, {found} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
