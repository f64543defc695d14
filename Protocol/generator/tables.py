"""The tables of README.md: the parameters of each method and the members of results that have a table (section 9), and the
methods that need each right (section 12). For a method without a section, a section is added. Edit its text by hand; its
tables remain generated.
"""

import json
import re
import textwrap

from .swift import third_person

SECTION = re.compile(r"(\n## 9\. Methods\n)(.*?)(?=\n## )", re.DOTALL)
METHOD = re.compile(r"(?<=\n)### (\S+)\n.*?(?=\n### |\Z)", re.DOTALL)
PARAMETERS = re.compile(r"(?<=\n)\| parameter \| type \| \|\n(?:\|.*\n)+")
MEMBERS = re.compile(r"(?<=\n)\| (member(?: of `([\w.]+)`)?) \| type \| \|\n(?:\|.*\n)+")
RIGHTS = re.compile(r"(?<=\n\| right \| needed for \|\n\| --- \| --- \|\n)(?:\|.*\n)+")
# For each of these rights, the text that is appended to the row of the right in the table of rights.
NOTES = {
    "read": ", which include only namespaces that the peer may read",
    "secrets": "in the namespace: unmasked secrets (section 6)",
    "images": "; clients without access to the cache directory get images by descriptor",
}
# The names that the tables use for types from common.json. Sections 2 and 6 of README.md describe these types.
CALLED = {"Path": "path", "Revision": "revision", "Value": "any", "Time": "time", "Epoch": "epoch", "State": "state"}


class Tables:
    """Generates the tables of README.md."""

    def __init__(self, schemas):
        self.schemas = schemas

    def text(self, text):
        """Return the text with all tables generated anew, and the problems found."""
        section = SECTION.search(text)
        methods = {source["title"]: file for file, source in self.schemas.files.items() if file.startswith("methods/")}
        added = self.with_missing_sections(section[2], methods)
        found = []

        def replaced(match):
            found.append(match[1])
            return self.method(match[0], methods[match[1]]) if match[1] in methods else match[0]

        body = METHOD.sub(replaced, added)
        problems = [f"README.md: {name} is not a method" for name in found if name not in methods]
        order = [methods[name] for name in found if name in methods]
        rest = RIGHTS.sub(lambda _: self.rights_table(order), text[section.end(2) :])
        return text[: section.start(2)] + body + rest, problems

    # Sections

    def with_missing_sections(self, text, methods):
        """Section 9 with a section for each method. New ones follow the other methods of their family."""
        for name, file in methods.items():
            sections = list(METHOD.finditer(text))
            if any(match[1] == name for match in sections):
                continue
            family = [match for match in sections if match[1].split(".")[0] == name.split(".")[0]] or sections
            end = family[-1].end()
            text = f"{text[:end].rstrip()}\n\n{self.section(name, file)}\n{text[end:].lstrip()}"
        return text

    def section(self, name, file):
        """The initial section of a method, from its schema."""
        source = self.schemas.files[file]
        parts = [f"### {name}"]
        if "x-right" in source:
            place = " in the namespace" if self.has_namespace(file) else ""
            parts.append(f"Needs the right `{source['x-right']}`{place}.")
        members = self.schemas.node(self.schemas.resolved(f"{file}#/$defs/result")).get("properties", {})
        result = "Result: " + ", ".join(f"`{member}`" for member in members) + "."
        errors = "; ".join(f"`{error}`" for error in source.get("x-errors", []))
        summary = third_person(source["summary"])
        about = marked(f"{summary[0].upper()}{summary[1:]} {source['description']}", members)
        parts += [fill(about), fill(result + (f" Errors: {errors}." if errors else ""))]
        for example in source.get("examples", []):
            request = {"id": 1, "method": name, **({"params": example["params"]} if example["params"] else {})}
            reply = {"jsonrpc": "2.0", "id": 1, "result": example["result"]}
            lines = [f"→ {compact(request)}", f"← {compact(reply)}"]
            parts.append("\n".join(["```jsonl", *lines, "```"]))
        return "\n\n".join(parts) + "\n"

    # Rights

    def has_namespace(self, file):
        return "namespace" in self.schemas.node(f"{file}#/$defs/params").get("properties", {})

    def rights_table(self, files):
        """The methods that need each right, in the order of section 9."""
        common = self.schemas.node("common.json#/$defs/Right")["enum"]
        rows = {right: {"in the namespace": [], "in any": [], "for the whole agent": []} for right in ["none", *common]}
        for file in files:
            source = self.schemas.files[file]
            name, right = f"`{source['title']}`", source.get("x-right", "none")
            also = source.get("x-right-also", [])
            if "x-right-or" in source:
                rows[source["x-right-or"]]["for the whole agent"].append(name)
            if "x-right" not in source:
                rows[right]["for the whole agent"].append(name)
            elif self.has_namespace(file):
                for flag, other in source.get("x-right-if", {}).items():
                    rows[other]["in the namespace"].append(f"{name} with `{flag}`")
                    name += f" without `{flag}`"
                if "x-right-also-for" in source:
                    extra = source["x-right-also-for"]
                    listed = " or ".join(f"`{one}`" for one in extra["parameters"])
                    name += f" (with {listed} also needs `{extra['right']}` there)"
                if also:
                    name += f" (which also needs {' and '.join(f'`{one}`' for one in also)} there)"
                if source.get("x-scope") == "anywhere":
                    rows[right]["in any"].append(f"{name} of all")
                    name += " of one namespace"
                rows[right]["in the namespace"].append(name)
            else:
                where = "in any" if source.get("x-scope") == "anywhere" else "for the whole agent"
                for one in [right, *also]:
                    rows[one][where].append(name)
        lines = []
        for right, places in rows.items():
            parts = [f"{place}: {', '.join(names)}" for place, names in places.items() if names]
            if right == "none":
                parts = [part.removeprefix("for the whole agent: ") for part in parts]
            text = "; ".join(parts) + NOTES.get(right, "")
            lines.append(f"| {right if right == 'none' else f'`{right}`'} | {text} |\n")
        return "".join(lines)

    # Tables

    def method(self, text, file):
        params = f"{file}#/$defs/params"
        if self.schemas.node(params).get("properties"):
            table = self.table("parameter", params)
            text = PARAMETERS.sub(lambda _: table, text, count=1) if PARAMETERS.search(text) else insert(text, table)
        result = f"{file}#/$defs/result"
        tables = [match[2] for match in MEMBERS.finditer(text)]

        def members(match):
            place = self.inside(result, match[2].split(".") if match[2] else [])
            return self.table(match[1], place, match[2], tables)

        return MEMBERS.sub(members, text)

    def inside(self, place, path):
        """The object at a path of member names. Arrays, maps and nullable types are traversed."""
        place = self.schemas.resolved(place)
        node = self.schemas.node(place)
        for index, choice in enumerate(node.get("anyOf", [])):
            if choice != {"type": "null"}:
                return self.inside(f"{place}/anyOf/{index}", path)
        for inner in ("items", "additionalProperties"):
            if isinstance(node.get(inner), dict):
                return self.inside(f"{place}/{inner}", path)
        return self.inside(f"{place}/properties/{path[0]}", path[1:]) if path else place

    def table(self, head, place, path=None, others=()):
        place = self.schemas.resolved(place)
        return "\n".join([f"| {head} | type | |", "| --- | --- | --- |", *self.rows(place, "", path, others)]) + "\n"

    def rows(self, place, prefix, path, others):
        """A row for each member. Rows of a nested object's members follow its row, unless they have a separate table."""
        node = self.schemas.node(place)
        lines = []
        for name in node["properties"]:
            member = f"{place}/properties/{name}"
            mark = "" if name in node.get("required", []) else " ?"
            about = marked(self.about(member), node["properties"])
            lines.append(f"| `{prefix}{name}`{mark} | {self.kind(member)} | {about} |".replace("|  |", "| |"))
            inner = self.inside(member, [])
            full = f"{path}.{prefix}{name}" if path else prefix + name
            shape = self.schemas.node(self.schemas.resolved(member))
            is_many = any(isinstance(shape.get(key), dict) for key in ("items", "additionalProperties"))
            if "properties" in self.schemas.node(inner) and not is_many and full not in others:
                lines += self.rows(inner, f"{prefix}{name}.", path, others)
        return lines

    def about(self, place):
        """The description of a member. That of its type is left out if the text describes the type."""
        node = self.schemas.node(place)
        while self.called(place) and "description" not in node:
            place = self.schemas.target(place)
            if place.removeprefix("common.json#/$defs/") in CALLED:
                return ""
            node = self.schemas.node(place)
        return node.get("description", "") if self.called(place) else self.schemas.description(place) or ""

    def called(self, place):
        definition = self.schemas.resolved(place)
        return CALLED.get(definition.removeprefix("common.json#/$defs/"))

    def kind(self, place):
        """The type of a value, as the tables name it."""
        resolved = self.schemas.resolved(place)
        if self.called(place):
            return self.called(place)
        node = self.schemas.node(resolved)
        choices = node.get("anyOf") or node.get("oneOf")
        if choices and "properties" not in node:
            key = "anyOf" if "anyOf" in node else "oneOf"
            kinds = [self.kind(f"{resolved}/{key}/{index}") for index in range(len(choices))]
            return either(dict.fromkeys(kinds))
        if "const" in node:
            return f"`{json.dumps(node['const'])}`"
        if "enum" in node:
            return ", ".join(f"`{json.dumps(word)}`" for word in node["enum"])
        types = node.get("type", "any")
        types = types if isinstance(types, list) else [types]
        return either(self.plain(one, node, resolved) for one in types)

    def plain(self, kind, node, place):
        low, high = node.get("minimum"), node.get("maximum")
        if low == 1 - 2**53 and high == 2**53 - 1:
            return kind
        if kind in ("integer", "number") and low is not None:
            return f"{kind} ≥ {low}" if high is None or high == 2**53 - 1 else f"{kind} from {low:,} to {high:,}"
        if kind == "array":
            counts = [node[key] for key in ("minItems", "maxItems") if key in node]
            return f"array of {counts[0]:,} to {counts[1]:,}" if len(counts) == 2 and counts[0] != counts[1] else "array"
        return kind


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def fill(text):
    return textwrap.fill(text, 128, break_long_words=False, break_on_hyphens=False)


def either(kinds):
    """The alternatives as a phrase: "a, b or c"."""
    *most, last = kinds
    return f"{', '.join(most)} or {last}" if most else last


def marked(text, names):
    """A description with names and quoted words formatted as code."""
    compound = [name for name in names if re.search("[A-Z]", name)]
    code = re.compile("|".join(["`[^`]*`", r'"[^"]*"', r"\b(?:agent|config|image|request|rpc)\.[a-z]+", *map(r"\b{}\b".format, compound)]))
    return code.sub(lambda match: match[0] if match[0].startswith("`") else f"`{match[0]}`", text)


def insert(text, table):
    """The section of a method with its table inserted after the heading and the sentence about rights."""
    head, _, rest = text.partition("\n\n")
    if rest.startswith("Needs the right"):
        sentence, _, rest = rest.partition("\n\n")
        head += "\n\n" + sentence
    return f"{head}\n\n{table}\n{rest}"
