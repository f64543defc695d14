#!/usr/bin/python3
"""Check recorded traffic, and the examples in the documentation, against Protocol/schemas.

    validate-messages.py RECORD...             lines written by run-transcripts.py --record, or by a test
    validate-messages.py Protocol/README.md    its ```jsonl blocks
    validate-messages.py --schemas             the schemas themselves and the examples in them

A record has one JSON object per line, in the order in which things happened on each connection:

    {"connection":"a","dir":"→","line":"…"}    a line from the client, without its LF
    {"connection":"a","dir":"←","line":"…"}    a line from the agent
    {"connection":"a","dir":"×"}               the recorder stopped reading: what is unanswered may stay so

A line with "number":"n" may come again as "same":"n", so that a crowd's record stays small. "base64" stands for
"line" where the bytes are not UTF-8. Connections without a name are one. What the client sends may be wrong in every
way, but what is wrong must be answered with an error. What the agent sends must fit the schemas, say nothing that they
do not mention (unless --lenient), answer each request once, with no error but those that its method may give, and keep
the promises about subscriptions. Exit status: 0 all is well, 1 something is not, 2 usage.

Needs Debian's python3-jsonschema.
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
COMMON_ERRORS = {"invalidParams", "internalError", "denied", "shuttingDown", "limitExceeded"}


# --- Schemas ---------------------------------------------------------------------------------------------------


class Schemas:
    """All schema files as one schema, so that references need no network and no resolver."""

    def __init__(self, strict):
        self.files = {}
        for path in sorted(SCHEMAS.rglob("*.json")):
            self.files[path.relative_to(SCHEMAS).as_posix()] = json.loads(path.read_text(encoding="utf-8"))
        self.definitions = {name: self._located(schema, name) for name, schema in self.files.items()}
        self.strict = strict
        self.methods = {file["title"]: name for name, file in self.files.items() if name.startswith("methods/")}
        self.errors = {schema["properties"]["code"]["const"] for schema in self.files["error.json"]["$defs"].values()}
        self._validators = {}
        self._events = {}

    def _located(self, schema, file):
        """The schema with its references made absolute inside the one schema."""
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
        """The schema with every object limited to the members that it mentions."""
        if isinstance(schema, list):
            return [self._closed(element) for element in schema]
        if not isinstance(schema, dict):
            return schema
        closed = {name: self._closed(member) for name, member in schema.items()}
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            closed.setdefault("additionalProperties", False)
        return closed

    def problems(self, file, pointer, value, from_agent=True):
        """What is wrong with a value, one line each."""
        key = (file, pointer, from_agent)
        if key not in self._validators:
            definitions = self._closed(self.definitions) if from_agent and self.strict else self.definitions
            schema = {"$ref": self._reference(file, pointer), "$defs": definitions}
            self._validators[key] = jsonschema.Draft202012Validator(schema)
        found = []
        for error in self._validators[key].iter_errors(value):
            best = jsonschema.exceptions.best_match([error])
            where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in best.absolute_path)
            found.append(f"${where}: {shortened(best.message)}")
        return found

    def event_problems(self, data, value):
        """What is wrong with an event, which many subscribers may get in the same words."""
        if data not in self._events:
            if len(self._events) == 10_000:
                self._events.clear()
            self._events[data] = self.problems("event.json", "", value)
        return self._events[data]

    def method_file(self, method):
        return self.files[self.methods[method]]

    def self_check(self):
        """What is wrong with the schemas and their examples."""
        for name, file in self.files.items():
            try:
                jsonschema.Draft202012Validator.check_schema(file)
            except jsonschema.SchemaError as error:
                yield f"{name}: {error.message}"
            for reference in references(file):
                target, _, pointer = reference.partition("#")
                if not self._exists(self._resolved(name, target), pointer):
                    yield f"{name}: {reference} leads nowhere"
        known = set(self.files["error.json"]["$defs"])
        for method, name in self.methods.items():
            file = self.files[name]
            for error in file["x-errors"]:
                if error not in known:
                    yield f"{name}: there is no error {error}"
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
    """An integer that remembers how it was written."""


class Real(float):
    """A number with fraction or exponent that remembers how it was written."""


def number(kind):
    def parse(text):
        value = kind(text)
        value.text = text
        return value

    return parse


def parse(data):
    """A line as the agent must read it; raises ValueError where it must refuse."""
    text = data.decode("utf-8")

    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    depth = deepest = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', text, re.DOTALL):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token, 0)
        deepest = max(deepest, depth)
    if deepest > NESTING + 3:
        raise ValueError("nests too deep")
    value = json.loads(text, parse_int=number(Integer), parse_float=number(Real), parse_constant=refuse)
    json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # refuses lone surrogates
    return value, deepest


@functools.lru_cache(maxsize=4096)
def parsed_again(data):
    """The same for what may come many times; nobody changes the value."""
    return parse(data)


def key_of(identifier):
    """Ids are equal when type and text are."""
    if identifier is None or isinstance(identifier, str):
        return (type(identifier).__name__, identifier)
    return ("number", getattr(identifier, "text", repr(identifier)))


def shortened(text, limit=240):
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


# --- Conversations ---------------------------------------------------------------------------------------------


class Pending:
    """A request that has no reply yet. must_fail says why it has to be an error, method whose result it may be."""

    def __init__(self, line, method=None, params=None, must_fail=None):
        self.line, self.method, self.params, self.must_fail = line, method, params, must_fail
        self.progress = [0, 0, 0]  # done, failed, bytes


class Connection:
    """What was said on one connection."""

    def __init__(self, name, schemas, line_bytes, report):
        self.name, self.schemas, self.line_bytes, self.report = name, schemas, line_bytes, report
        self.pending = {}
        self.batches = []
        self.subscriptions = {}
        self.early = []  # lineTooLong that came before the end of its line

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
                raise ValueError("nests too deep")
        except (ValueError, RecursionError) as problem:
            self._expect(None, Pending(line, must_fail=str(problem)))
            return
        if isinstance(value, list):
            if not 1 <= len(value) <= BATCH:
                self._expect(None, Pending(line, must_fail=f"a batch of {len(value)}"))
                return
            answered = [self._request(line, member) for member in value]
            if any(answered):
                self.batches.append([key for key in answered if key])
        else:
            self._request(line, value)

    def _request(self, line, value):
        """Notes what has to come for it, and returns the key of the id, or None for a notification."""
        if self.schemas.problems("request.json", "/$defs/Request", value, from_agent=False):
            identifier = value.get("id") if isinstance(value, dict) else None
            if isinstance(identifier, (bool, list, dict)):
                identifier = None
            return self._expect(identifier, Pending(line, must_fail="it is not a request"))
        method, params = value["method"], value.get("params")
        pending = Pending(line, method, params)
        if method not in self.schemas.methods:
            pending.must_fail = f"there is no method {method}"
        else:
            wrong = self._wrong_params(method, params)
            if wrong:
                pending.must_fail = f"its params are wrong: {wrong[0]}"
        if "id" not in value:
            return None
        return self._expect(value["id"], pending)

    def _wrong_params(self, method, params):
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
            value, _ = parsed_again(data)
        except (ValueError, RecursionError) as problem:
            self.report(line, f"the agent sent what is not JSON: {problem}")
            return
        if data != data.strip():
            self.report(line, "the agent sent white space around its message")
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
                self.report(line, "an array of replies that fits no batch, or in another order than its requests")
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
            elif not (reply["id"] is None and name == "limitExceeded"):  # one connection too many
                self.report(line, f"a reply to nothing: {shortened(json.dumps(reply['id'], default=str))}")
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
                self.report(line, f"{pending.method} may not fail with {name}")

    def _result(self, pending, result):
        if pending.method == "config.subscribe" and isinstance(result, dict):
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
            self.report(line, f"an event of subscription {number}, which is none, before its reply or after its end")
            return
        known["sequence"] += 1
        if event.get("sequence") != known["sequence"]:
            self.report(line, f"sequence {event.get('sequence')} where {known['sequence']} is due")
            known["sequence"] = event.get("sequence", 0)
        if event.get("kind") == "patch" and event.get("from") not in known["bases"]:
            self.report(line, f"a patch from {event.get('from')} for a client that holds {known['bases']}")
        known["bases"] = {event.get("revision")}
        if event.get("kind") == "end":
            del self.subscriptions[number]

    def _progress(self, line, value):
        self._problems(line, "progress.json", "", value)
        progress = value.get("params") if isinstance(value.get("params"), dict) else {}
        waiting = self.pending.get(key_of(progress.get("request")), [])
        pending = next((pending for pending in waiting if pending.method == "image.prefetch"), None)
        if pending is None:
            self.report(line, "progress of no image.prefetch, or behind its reply")
            return
        count = [progress.get(name, 0) for name in ("done", "failed", "bytes")]
        if any(now < before for now, before in zip(count, pending.progress)):
            self.report(line, f"progress goes back: {count} after {pending.progress}")
        if count[0] + count[1] > progress.get("total", 0):
            self.report(line, f"progress of {count[0]} + {count[1]} images of {progress.get('total')}")
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
                self.report(pending.line, f"never answered{why}")
        for line in self.early:
            self.report(line, "lineTooLong, although no line was")


class Run:
    """All connections of one file."""

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
                        raise ValueError(f"no direction: {direction}")
                    data = b""
                    if "same" in entry:
                        data = numbered[entry["same"]]
                    elif direction != "×":
                        data = base64.b64decode(entry["base64"]) if "base64" in entry else entry["line"].encode("utf-8")
                    if "number" in entry:
                        numbered[entry["number"]] = data
                except (ValueError, KeyError, TypeError) as problem:
                    self.report(number, f"not a record: {problem!r}")
                    continue
                self.entry(number, entry.get("connection", ""), direction, data)

    def examples(self):
        """The ```jsonl blocks of a Markdown file, each a connection of its own."""
        block, inside = 0, False
        for number, line in enumerate(pathlib.Path(self.path).read_text(encoding="utf-8").split("\n"), 1):
            if line.startswith("```"):
                inside = line == "```jsonl"
                block += inside
            elif inside:
                if line[:2] in ("→ ", "← "):
                    self.entry(number, f"example {block}", line[0], line[2:].encode("utf-8"))
                else:
                    self.report(number, "neither → nor ←")

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
    parser.add_argument("--lenient", action="store_true", help="let the agent say more than the schemas mention")
    parser.add_argument("--line-bytes", type=int, default=DEFAULT_LINE_BYTES, help="the agent's limit for lines")
    parser.add_argument("files", metavar="FILE", nargs="*")
    arguments = parser.parse_args()
    if not arguments.files and not arguments.schemas:
        parser.error("nothing to check")
    schemas = Schemas(strict=not arguments.lenient)
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
