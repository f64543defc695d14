"""The generated modules of the Python client: types, errors, and the blocking client.

- _schema.py: a TypedDict for the parameters and the result of each method and for the objects in them
- _tables.py: the rights that the methods need, and the members that results have
- _agent_errors.py: a class for each error of the agent
- _client.py: the blocking client, which is _aio_client.py without `async` and `await`
"""

import json
import keyword
import pathlib
import re
import textwrap

from .schemas import Schemas

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "contrib" / "python" / "src" / "larder_client"
HEAD = '"""{doc}\n\nProtocol/generate.py writes this file.\n"""\n\n'
WIDTH = 120
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
CLASSES = {"str": "str", "int": "int", "float": "(int, float)", "bool": "bool"}

# What the blocking client has in place of the names of the client for asyncio. The longest come first.
BLOCKING = {
    "async def ": "def ",
    "async for ": "for ",
    "async with ": "with ",
    "await ": "",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "StopAsyncIteration": "StopIteration",
    "AsyncIterator": "Iterator",
    "larder_client.aio": "larder_client",
    "_aio_link": "_link",
}


def literal(value):
    return json.dumps(value) if isinstance(value, str) else repr(value)


def capitalized(text):
    return text[0].upper() + text[1:]


def class_name(method):
    return "".join(capitalized(part) for part in method.split("."))


class Types:
    """Collects the TypedDicts. A type is declared before the types that use it."""

    def __init__(self, schemas):
        self.schemas, self.declared, self.docs = schemas, {}, {}

    def of(self, place, name):
        """The annotation of the schema at a place. An object without a name of its own gets the given name."""
        place = self.schemas.resolved(place)
        node = self.schemas.node(place)
        if re.fullmatch(r"common\.json#/\$defs/[^/]+", place):
            name = place.rpartition("/")[2]
        if "const" in node:
            return f"Literal[{literal(node['const'])}]"
        if "enum" in node:
            return f"Literal[{', '.join(map(literal, node['enum']))}]"
        for choice in ("anyOf", "oneOf"):
            if choice in node and "properties" not in node:
                names = [self.of(f"{place}/{choice}/{index}", name) for index in range(len(node[choice]))]
                return " | ".join(dict.fromkeys(names))
        kind = node.get("type")
        if isinstance(kind, list):
            return " | ".join(SIMPLE[one] for one in kind)
        if kind == "array":
            return f"list[{self.of(f'{place}/items', self.singular(name))}]" if "items" in node else "list[Any]"
        if kind == "object" and node.get("properties"):
            return self.declare(place, node, name)
        if kind == "object":
            inner = node.get("additionalProperties")
            if len(patterns := node.get("patternProperties", {})) == 1 and inner is False:
                pattern = next(iter(patterns)).replace("~", "~0").replace("/", "~1")
                return f"dict[str, {self.of(f'{place}/patternProperties/{pattern}', self.singular(name))}]"
            if isinstance(inner, dict):
                return f"dict[str, {self.of(f'{place}/additionalProperties', self.singular(name))}]"
            return "dict[str, Any]"
        return SIMPLE.get(kind, "Any")

    @staticmethod
    def singular(name):
        return name[:-1] if name.endswith("s") and not name.endswith("ss") else name + "Item"

    def declare(self, place, node, name):
        if name in self.declared:
            return name
        self.declared[name] = ""
        required = node.get("required", [])
        members = {}
        for member in node["properties"]:
            text = self.of(f"{place}/properties/{member}", name.removesuffix("Result") + capitalized(member))
            members[member] = text if member in required else f"NotRequired[{text}]"
        doc = self.schemas.description(place) or self.docs.get(name, "An object of the protocol.")
        if all(member.isidentifier() and not keyword.iskeyword(member) for member in members):
            lines = [f"class {name}(TypedDict):"]
            lines += docstring(doc, members, lambda member: self.schemas.description(f"{place}/properties/{member}"))
            lines += [wrapped(f"    {member}: {text}") for member, text in members.items()]
        else:
            lines = [f"{name} = TypedDict(", f'    "{name}",', "    {"]
            lines += [wrapped(f'        "{member}": {text},') for member, text in members.items()]
            lines += ["    },", ")"]
        del self.declared[name]  # the types that this one uses come before it
        self.declared[name] = "\n".join(lines)
        return name


def wrapped(line):
    """Breaks a long list of literals."""
    if len(line) <= WIDTH:
        return line
    indent = re.match(" *", line).group()
    head, _, rest = line.partition("Literal[")
    values, _, tail = rest.partition("]")
    return f"{head}Literal[\n" + textwrap.indent(",\n".join(values.split(", ")), indent + "    ") + f",\n{indent}]{tail}"


def docstring(doc, members, description):
    """The docstring of a class, with the descriptions of its members."""
    lines = []
    for member in members:
        text = description(member)
        if text:
            lines += textwrap.wrap(f"{member}: {text}", WIDTH - 4, subsequent_indent="    ")
    text = textwrap.wrap(doc, WIDTH - 8) + ([""] if lines else []) + lines
    if len(text) == 1:
        return [f'    """{text[0]}"""', ""]
    text[0] = '"""' + text[0]
    quoted = "\n".join([*text, '"""']).replace("\\", "\\\\")
    return [*textwrap.indent(quoted, "    ").split("\n"), ""]


def schema_modules(schemas):
    types = Types(schemas)
    rights, results = [], []
    for file in schemas.methods:
        node = schemas.files[file]
        method, name = node["title"], class_name(node["title"])
        types.docs |= {name + "Params": f"The parameters of {method}.", name + "Result": f"The result of {method}."}
        types.of(f"{file}#/$defs/params", name + "Params")
        types.of(f"{file}#/$defs/result", name + "Result")
        rights.append(f'    "{method}": {quoted(node.get("x-right"))},')
        place = schemas.resolved(f"{file}#/$defs/result")
        result = schemas.node(place)
        required = []
        for member in result.get("required", []):
            inner = schemas.node(schemas.resolved(f"{place}/properties/{member}"))
            kind = inner.get("type")
            if kind is None and "const" in inner:
                kind = {bool: "boolean", str: "string", int: "integer"}[type(inner["const"])]
            if kind is None and "enum" in inner:
                kind = "string"
            known = {"array": "list", "object": "dict"} | {one: CLASSES.get(text) for one, text in SIMPLE.items()}
            required.append(f'("{member}", {known.get(kind) if isinstance(kind, str) else "object"})')
        inside = ", ".join(required) + ("," if len(required) == 1 else "")
        line = f'    "{method}": ({inside}),'
        if len(line) > WIDTH:
            line = f'    "{method}": (\n' + "".join(f"        {one},\n" for one in required) + "    ),"
        results.append(line)
    declarations = "\n\n\n".join(types.declared.values())
    schema = (
        HEAD.format(doc="The types of the protocol: parameters and results of the methods.")
        + f"from typing import Any, Literal, NotRequired, TypedDict\n\n\n{declarations}\n"
    )
    tables = (
        HEAD.format(doc="What the client has to know about the methods at run time.")
        + "from typing import Any\n\n# The right that each method needs.\n"
        + "RIGHTS: dict[str, str | None] = {\n" + "\n".join(rights) + "\n}\n\n"
        + "# The members that each result has, and their classes.\n"
        + "RESULTS: dict[str, tuple[tuple[str, Any], ...]] = {\n" + "\n".join(results) + "\n}\n"
    )
    return schema, tables


def quoted(text):
    return "None" if text is None else f'"{text}"'


def errors_module(schemas):
    parts = [
        HEAD.format(doc="The errors of the agent.").rstrip("\n") + "\n\nfrom .errors import AgentError"
    ]
    names = []
    for name, schema in schemas.files["error.json"]["$defs"].items():
        data = schema["properties"]["data"]["properties"]
        bases = "AgentError, TimeoutError" if name == "timeout" else "AgentError"
        title = "Timeout" if name == "timeout" else capitalized(name)
        doc = textwrap.wrap(schema["description"], WIDTH - 12)
        doc = f'    """{doc[0]}"""' if len(doc) == 1 else '    """' + "\n    ".join(doc) + '\n    """'
        parts.append(
            f"class {title}({bases}):\n{doc}\n\n"
            f'    name = "{name}"\n    code = {schema["properties"]["code"]["const"]}\n'
            f"    retryable = {data['retryable']['const']}"
        )
        names.append(title)
    parts.append(
        "# The classes by the names of the errors.\nCLASSES: dict[str, type[AgentError]] = {\n    error.name: error\n    for error in (\n"
        + "".join(f"        {name},\n" for name in names) + "    )\n}"
    )
    return "\n\n\n".join(parts) + "\n"


def blocking_module(text):
    """The blocking client from the text of the client for asyncio."""
    text = text.replace("for asyncio", "for threads", 1).replace('"""', '"""', 1)
    text = re.sub(r">>> \(await (.*)\)(?=[\[.])", r">>> \1", text)
    for name in sorted(BLOCKING, key=len, reverse=True):
        text = text.replace(name, BLOCKING[name])
    head, _, body = text.partition('"""\n')
    return head.rstrip("\n") + '\n\nProtocol/generate.py writes this file from _aio_client.py.\n"""\n' + body


def files():
    """The text of each generated file by path."""
    schemas = Schemas()
    schema, tables = schema_modules(schemas)
    return {
        FOLDER / "_schema.py": schema,
        FOLDER / "_tables.py": tables,
        FOLDER / "_agent_errors.py": errors_module(schemas),
        FOLDER / "_client.py": blocking_module((FOLDER / "_aio_client.py").read_text(encoding="utf-8")),
    }
