"""The structures and enumerations in the generated Swift code.

A structure can have these entries in swift-names.json ("structs"):

    schema       the place of its schema; without it, the type is the parameters or the result of a method
    same         further places with the same type
    only         the members of the schema that belong to this type, which is a group in another one
    allRequired  the members are not optional although the schema does not require them, because only the whole group may be
                 absent
    doc          its documentation, instead of the schema's description
    members      see below, by name on the wire
    groups       several members as one property: its "type", "doc" and "default"; "members" if the type is hand-written; with
                 "spread", each member is written at its place in the schema
    unlabeled    the properties that come first in the initializer, without labels
    last         the properties that come last in the initializer
    constants    further constants: a "value", or the place of one, and a "doc"
    counters     all members are integers that start at 0, or optional
    parameters, result, hashable    the conformance, if it does not follow from the name
    document     the result is the whole JSON value: its "property" and "doc"
    writer       "by hand": the code that writes the type is hand-written
    by hand      the whole type is hand-written; it has init(from: MemberReader) and writeMembers(to:)

A member can have these entries:

    property, doc, type     its name, documentation and type in Swift
    default                 the default of the initializer's parameter
    absent                  the value of an absent member; with "name" and "value", a constant is declared for it
    maximum                 the constant for the schema's limit: one of another type or, with "name", one of this type
    range                   "unchecked", or the range of an integer
    flatten, docs           members of an object that become properties of this type, and their documentation
    presenceOf              the member is a Boolean: whether the member or group of this property is present; with
                            "isProperty", it is also a property
    verify                  a constant that is read and checked, not only written
    read, write             the Swift code that reads or writes the member

"words" contains the enumerations: "schema"; "doc"; "cases" with their documentation; "open" if newer agents may send other
words; "unknown", the case for unknown words. "definitions" applies to all members of a type from common.json. "added" lists
the types with a += operator.
"""

import json
import re

from . import kinds
from .layout import brace, comment, fill, joined, statement


class Member:
    """A member of an object on the wire, or a group of members that is one property in Swift."""

    def __init__(self, wire, prop, kind, shape, **extra):
        self.wire, self.prop, self.kind, self.shape = wire, prop, kind, shape
        self.doc = extra.get("doc")
        # The default value of this member's parameter in the generated initializer.
        self.initial = extra.get("initial")
        # For shape "default": the value of an absent member.
        self.absent = extra.get("absent")
        self.read_code, self.write_code = extra.get("read"), extra.get("write")
        # The name of the Boolean member on the wire that records whether this member or group is present.
        self.presence = extra.get("presence")
        # The members of a nested object that become properties of this type.
        self.flattened = extra.get("flattened", [])
        # The members of the group, if each is written at its own place in the schema; empty if the group is written as a whole.
        self.spread = extra.get("spread", [])
        self.constants = extra.get("constants", [])

    @property
    def is_optional(self):
        return self.shape in ("optional", "nullable")


class Struct:
    """A structure."""

    def __init__(self, generator, name):
        self.generator, self.name = generator, name
        self.spec = generator.structs.get(name, {})
        self.place = generator.place(name)
        self.outer, _, self.short = name.rpartition(".")
        self.is_parameters = self.short == "Parameters" or self.spec.get("parameters", False)
        self.is_result = self.short == "Result" or self.spec.get("result", False)
        self.is_zero = self.spec.get("counters", False)
        # Whether the structure also reads a part of other parameters, so that only its use as a whole rejects unknown ones.
        self.is_shared = bool(self.spec.get("parameters", False))
        # The indentation of the members in the generated Swift type, in spaces.
        self.indent = 4 * (name.count(".") + 1)
        self.order = []
        self.members = self.read_members()

    # Members

    def read_members(self):
        node = self.generator.schemas.node(self.place)
        properties = {
            wire: f"{self.place}/properties/{wire}"
            for wire in node.get("properties", {})
            if wire in self.spec.get("only", node["properties"])
        }
        unknown = set(self.spec.get("members", {})) - set(properties)
        if unknown:
            raise SystemExit(f"{self.name}: the schema has no {', '.join(sorted(unknown))}")
        self.order = list(properties)
        required = list(properties) if self.spec.get("allRequired") else node.get("required", [])
        groups = {
            prop: [wire for wire in properties if wire in self.generator.group_members(group)]
            for prop, group in self.spec.get("groups", {}).items()
        }
        for group in self.spec.get("groups", {}).values():
            unknown = set(group.get("members", [])) - set(properties)
            if unknown:
                raise SystemExit(f"{self.name}: the schema has no {', '.join(sorted(unknown))}")
        owner = {wire: prop for prop, wires in groups.items() for wire in wires}
        members, presence, done = [], None, set()
        for wire, place in properties.items():
            options = self.spec.get("members", {}).get(wire, {})
            if "presenceOf" in options:
                presence = (wire, options["presenceOf"])
                continue
            if wire in owner:
                if owner[wire] not in done:
                    done.add(owner[wire])
                    members.append(self.group(owner[wire], groups[owner[wire]], properties, required))
            else:
                members.append(self.member(wire, place, wire in required, options))
            if presence and members[-1].prop == presence[1]:
                members[-1].presence, members[-1].shape = presence[0], "optional"
                # If swift-names.json has no default for this member, the parameter of the generated initializer has no
                # default value, so callers must pass nil explicitly.
                members[-1].initial = options.get("default")
                presence = None
        return members

    def group(self, prop, wires, properties, required):
        options = self.spec["groups"][prop]
        kind = self.generator.named(options["type"])
        spread = []
        if options.get("spread"):
            for wire in wires:
                inner = self.spec.get("members", {}).get(wire, {})
                spread.append(self.member(wire, properties[wire], wire in required, inner))
        return Member(
            wires[0], prop, kind, "group", doc=options.get("doc"), initial=options.get("default"), spread=spread
        )

    def member(self, wire, place, is_required, options):
        generator, node = self.generator, self.generator.schemas.node(place)
        prop = options.get("property", wire)
        extra = {"doc": options.get("doc"), "initial": options.get("default"), "constants": []}
        extra["read"], extra["write"] = options.get("read"), options.get("write")
        if "flatten" in options:
            return self.flattened(wire, prop, place, is_required, options)
        const = generator.schemas.node(generator.schemas.resolved(place)).get("const")
        if const is not None and is_required and "property" not in options:
            kind = kinds.Simple.of_value(const)
            return Member(wire, wire, kind, "verified" if options.get("verify") else "constant", absent=const)
        kind = generator.kind(place, options, self.is_parameters, extra["constants"])
        extra["doc"] = extra["doc"] or generator.documentation(place)
        if is_required and "absent" in options:
            extra["initial"] = extra["absent"] = options["absent"]
            return Member(wire, prop, kind, "default", **extra)
        if generator.allows_null(place) and not isinstance(kind, kinds.Custom):
            return Member(wire, prop, kind, "nullable", **extra)
        if is_required:
            return Member(wire, prop, kind, "required", **extra)
        default = self.default(place, kind, const, options, extra["constants"])
        if default is None:
            extra["initial"] = extra["initial"] or "nil"
            extra["doc"] = nil_doc(extra["doc"], self.is_parameters)
            return Member(wire, prop, kind, "optional", **extra)
        extra["initial"], extra["absent"] = default, default
        extra["doc"] = default_doc(extra["doc"], kind)
        return Member(wire, prop, kind, "default", **extra)

    def default(self, place, kind, const, options, constants):
        """The value of an absent member in Swift; None if it is nil."""
        if "absent" in options:
            absent = options["absent"]
            if isinstance(absent, dict):
                constants.append((absent["name"], absent["value"], absent.get("doc")))
                return f"Self.{absent['name']}"
            return absent
        if const is not None:
            return "false"
        if not self.is_parameters:
            return None
        described = self.generator.schemas.description(place) or ""
        match = re.search(r'Default: ("[^"]*"|true|false)\.', described)
        if isinstance(kind, kinds.Path):
            return "JSONPath([])"
        if kind.is_namespace:
            return "defaultNamespace" if match else None
        if kind.swift_name == "Bool":
            return match[1] if match else "false"
        if isinstance(kind, kinds.Word) and match:
            return "." + json.loads(match[1])
        return None

    def flattened(self, wire, prop, place, is_required, options):
        inner = self.generator.schemas.resolved(place)
        members = []
        for name, target in options["flatten"].items():
            child = f"{inner}/properties/{name}"
            kind = self.generator.kind(child, {}, False, [])
            doc = options.get("docs", {}).get(name) or self.generator.documentation(child)
            members.append(Member(name, target, kind, "required", doc=doc))
        missing = set(self.generator.schemas.node(inner)["properties"]) - set(options["flatten"])
        if missing:
            raise SystemExit(f"{self.name}: {wire}.{', '.join(sorted(missing))} has no property in swift-names.json")
        shape = "flattened" if is_required else "flattenedOptional"
        doc = options.get("doc") or nil_doc(self.generator.schemas.description(place), False)
        return Member(wire, prop, None, shape, flattened=members, doc=doc, initial=None if is_required else "nil")

    def properties(self):
        """The properties with their types, in the order of the members on the wire."""
        found = []
        for member in self.members:
            if member.shape in ("constant", "verified"):
                continue
            if member.shape in ("flattened", "flattenedOptional"):
                for inner in member.flattened:
                    optional = member.shape == "flattenedOptional"
                    doc = member.doc if optional else inner.doc
                    found.append((inner.prop, inner.kind.swift(self.name), optional, doc, member.initial))
            else:
                found.append(
                    (member.prop, member.kind.swift(self.name), member.is_optional, member.doc, member.initial)
                )
        return found

    # Code

    def lines(self):
        if "document" in self.spec:
            body = self.document_lines()
        else:
            body = self.sections()
        doc = comment(self.documentation(), self.indent - 4)
        return doc + brace(f"package struct {self.short}: {self.conformances()}", body)

    def documentation(self):
        if "doc" in self.spec:
            return self.spec["doc"]
        if self.short in ("Parameters", "Result") and self.outer in self.generator.method_names:
            return f"The {self.short.lower()} of `{self.generator.method_names[self.outer]}`."
        return self.generator.schemas.description(self.place)

    def conformances(self):
        role = "WireParameters" if self.is_parameters else "WireResult" if self.is_result else "Sendable"
        is_hashable = self.spec.get("hashable", self.name.startswith(("Image", "WireImage")))
        equality = "Hashable" if is_hashable else "Equatable"
        return role if self.is_parameters and not is_hashable else f"{role}, {equality}"

    def sections(self):
        """The parts of the type, separated by blank lines."""
        parts = [self.constant_lines(), self.nested_lines(), self.property_lines()]
        if self.is_parameters:
            parts[-1] = parts[-1] + ([""] if parts[-1] else []) + self.positional()
            parts.append(self.names())
        parts.append(self.initializer())
        if self.is_shared:
            parts.append(self.params_reader())
        parts.append(self.reader())
        parts += self.writers()
        if self.is_zero and self.name in self.generator.added:
            parts.append(self.addition())
        return joined(parts)

    def constant_lines(self):
        lines = []
        for name, value, doc in (constant for member in self.members for constant in member.constants):
            lines += comment(doc, self.indent) + [f"package static let {name} = {kinds.number(value)}"]
        for name, constant in self.spec.get("constants", {}).items():
            value = self.generator.schemas.node(constant["value"]) if "#" in str(constant["value"]) else constant["value"]
            lines += comment(constant.get("doc"), self.indent) + [f"package static let {name} = {kinds.number(value)}"]
        return lines

    def nested_lines(self):
        return joined([lines for lines in self.generator.nested(self.name)])

    def property_lines(self):
        lines = []
        for prop, swift, optional, doc, _ in self.properties():
            lines += comment(doc, self.indent)
            zero = f" = {swift}()" if swift not in ("Int",) else " = 0"
            has_start = self.is_zero and not optional
            lines.append(f"package var {prop}{zero}" if has_start else f"package var {prop}: {swift}{'?' if optional else ''}")
        for member in self.members:
            if member.presence and self.spec.get("members", {}).get(member.presence, {}).get("isProperty"):
                lines += comment(self.generator.documentation(f"{self.place}/properties/{member.presence}"), self.indent)
                lines.append(f"package var {member.presence}: Bool {{ {member.prop} != nil }}")
        return lines

    def positional(self):
        names = [f'"{wire}"' for wire in self.order]
        return brace("package static var positional: [String]", fill("[", names, "]", self.indent + 4), one_line=True)

    def names(self):
        access = "" if self.is_shared else "private "
        names = [f'"{wire}"' for wire in self.order]
        return fill(f"{access}static let names: [StaticString] = [", names, "]", self.indent)

    def initializer(self):
        if self.is_zero:
            return ["package init() {}"]
        properties = {prop: (swift, optional, initial) for prop, swift, optional, _, initial in self.properties()}
        first, last = self.spec.get("unlabeled", []), self.spec.get("last", [])
        parameters = []
        for prop in first + [prop for prop in properties if prop not in first + last] + last:
            swift, optional, initial = properties[prop]
            label = "_ " if prop in first else ""
            default = f" = {initial}" if initial is not None else ""
            parameters.append(f"{label}{prop}: {swift}{'?' if optional else ''}{default}")
        signature = fill("package init(", parameters, ")", self.indent, closing=" {")
        assignments = [f"self.{prop} = {prop}" for prop in properties]
        return brace(signature, assignments, one_line=True)

    def params_reader(self):
        body = [
            "let reader = try MemberReader(params: params, positional: Self.positional)",
            "try reader.rejectUnknown(Self.names)",
            "try self.init(from: reader)",
        ]
        return brace("package init(params: JSONValue?) throws(WireError)", body)

    def reader(self):
        body = []
        checks = self.is_parameters and not self.is_shared
        for member in self.members:
            lines = self.read(member)
            # Most requests have no parameter except their path, so that reading an optional path first is the whole check.
            if checks and lines == ["path = try reader.path()"]:
                lines.append("try reader.rejectUnknown(Self.names, found: path.isRoot ? 0 : 1)")
                checks = False
            elif checks:
                lines.insert(0, "try reader.rejectUnknown(Self.names)")
                checks = False
            body += lines
        if self.is_parameters:
            if not body:
                return brace("package init(from reader: MemberReader)", [])
            return brace("package init(from reader: MemberReader) throws(WireError)", body)
        if not self.is_result:
            return brace("init(from reader: MemberReader) throws(WireError)", body)
        uses = sum(line.count("reader") for line in body)
        if len(body) == 1 and uses == 1:
            body = [body[0].replace("reader", "MemberReader(object: value)")]
        else:
            body = ["let reader = try MemberReader(object: value)"] + body
        return brace("package init(from value: JSONValue) throws(WireError)", body)

    def writers(self):
        if self.spec.get("writer") == "by hand":
            return []
        body = self.all_writes()
        access = "package " if self.is_parameters or self.is_result else ""
        used = self.generator.used_in_group(self.name)
        whole = self.is_parameters or self.is_result or not used or self.generator.used_as_object(self.name)
        inner = ["writeMembers(to: &writer)"] if used else body
        parts = []
        if whole:
            parts.append(
                brace(
                    f"{access}func write(to writer: inout JSONWriter)",
                    ["writer.beginObject()"] + inner + ["writer.endObject()"],
                )
            )
        if used:
            parts.append(
                ["/// Writes the members into the object that the writer has begun."]
                + brace("func writeMembers(to writer: inout JSONWriter)", body)
            )
        return parts

    def addition(self):
        body = [f"left.{prop} += right.{prop}" for prop, *_ in self.properties()]
        return brace("package static func += (left: inout Self, right: Self)", body)

    def document_lines(self):
        prop = self.spec["document"]["property"]
        return joined(
            [
                comment(self.spec["document"].get("doc"), self.indent) + [f"package var {prop}: JSONValue"],
                [f"package init({prop}: JSONValue) {{ self.{prop} = {prop} }}"],
                [f"package init(from value: JSONValue) throws(WireError) {{ {prop} = value }}"],
                [f"package func write(to writer: inout JSONWriter) {{ writer.value({prop}) }}"],
            ]
        )

    def read(self, member):
        # The initializer of a result has a parameter called "value", which hides a property of that name.
        is_hidden = member.prop == "value" and self.is_result
        target = f"self.{member.prop}" if is_hidden else member.prop
        if member.read_code:
            return statement(target, member.read_code, self.indent + 4)
        if member.shape == "constant":
            return []
        if member.shape == "verified":
            return [f"_ = {member.kind.required(member.wire, self.name)}"]
        if member.presence:
            if self.is_group(member):
                return statement(
                    target,
                    f'try reader.requiredBool("{member.presence}") ? {member.kind.swift(self.name)}(from: reader) : nil',
                    self.indent + 4,
                )
            required = member.kind.required(member.wire, self.name).removeprefix("try ")
            return statement(target, f'try reader.requiredBool("{member.presence}") ? {required} : nil', self.indent + 4)
        if member.shape == "group":
            return [f"{target} = try {member.kind.swift(self.name)}(from: reader)"]
        if member.shape == "flattened":
            lines = [f'let {member.wire} = try MemberReader(object: reader.requiredValue("{member.wire}"))']
            for inner in member.flattened:
                expression = inner.kind.required(inner.wire, self.name).replace("reader.", f"{member.wire}.", 1)
                lines.append(f"{inner.prop} = {expression}")
            return lines
        if member.shape == "flattenedOptional":
            (inner,) = member.flattened
            expression = inner.kind.required(inner.wire, self.name).replace("reader.", f"{member.wire}.", 1)
            return [
                f'{inner.prop} = try reader.object("{member.wire}").map {{ ({member.wire}) throws(WireError) in',
                f"    {expression}",
                "}",
            ]
        lines = member.kind.read(member, target, self.name)
        return statement(*lines[0].split(" = ", 1), self.indent + 4) if len(lines) == 1 else lines

    def is_group(self, member):
        return any(member.prop == prop for prop in self.spec.get("groups", {}))

    def write(self, member, owner=""):
        if member.write_code:
            return member.write_code if isinstance(member.write_code, list) else [member.write_code]
        wire, expression = member.wire, owner + member.prop
        if member.shape in ("constant", "verified"):
            return [f'writer.member("{wire}", {json.dumps(member.absent)})']
        if member.spread:
            return []
        lines = []
        if member.presence:
            lines.append(f'writer.member("{member.presence}", {expression} != nil)')
            if self.is_group(member):
                return lines + [f"{expression}?.writeMembers(to: &writer)"]
        if member.shape == "group":
            return [f"{expression}.writeMembers(to: &writer)"]
        if member.shape == "flattened":
            inside = [line for inner in member.flattened for line in self.write(inner)]
            return [f'writer.name("{wire}")', "writer.beginObject()"] + inside + ["writer.endObject()"]
        if member.shape == "flattenedOptional":
            (inner,) = member.flattened
            inside = [f'writer.name("{wire}")', "writer.beginObject()"] + self.write(inner) + ["writer.endObject()"]
            return brace(f"if let {inner.prop}", inside)
        return lines + member.kind.write(member, expression, self.name)

    def all_writes(self):
        """The statements that write the members. Members of spread groups are written at their places in the schema."""
        spread = {inner.wire: (member, inner) for member in self.members for inner in member.spread}
        if not spread:
            return [line for member in self.members for line in self.write(member)]
        plain = {member.wire: member for member in self.members if not member.spread}
        lines = []
        for wire in self.order:
            if wire in spread:
                member, inner = spread[wire]
                lines += self.write(inner, owner=f"{member.prop}.")
            elif wire in plain:
                lines += self.write(plain[wire])
        return lines


class Word:
    """An enumeration, or a structure if newer versions may add words."""

    def __init__(self, generator, name):
        self.generator, self.name = generator, name
        self.spec = generator.words[name]
        self.short = name.rpartition(".")[2]
        self.indent = 4 * (name.count(".") + 1)
        self.values = generator.schemas.node(self.spec["schema"])["enum"]
        unknown = set(self.spec.get("cases", {})) - set(self.values)
        if unknown:
            raise SystemExit(f"{name}: the schema has no {', '.join(sorted(unknown))}")

    def lines(self):
        doc = self.spec.get("doc") or self.generator.schemas.description(self.spec["schema"])
        cases = self.spec.get("cases", {})
        if self.spec.get("open"):
            doc = f"{doc} Values that this version does not know are preserved."
            body = ["package let rawValue: String", "package init(rawValue: String) { self.rawValue = rawValue }", ""]
            for value in self.values:
                body += comment(cases.get(value), self.indent) + [f'package static let {case(value)} = Self(rawValue: "{value}")']
            body += ["", "package var description: String { rawValue }"]
            protocols = "RawRepresentable, Sendable, Hashable, CustomStringConvertible"
            return comment(doc, self.indent - 4) + brace(f"package struct {self.short}: {protocols}", body)
        body = []
        for value in self.values:
            body += comment(cases.get(value), self.indent) + [f"case {case(value)}"]
        doc = comment(doc, self.indent - 4)
        return doc + brace(f"package enum {self.short}: String, Sendable, Hashable, CaseIterable", body)


def case(value):
    return f"`{value}`" if value in ("default", "as", "in", "is", "init", "self") else value


def nil_doc(text, is_parameter):
    """A description with "nil" instead of "absent" and "null", except in code."""
    if not text:
        return text
    text = re.sub(r"(?<!`)\b(?:absent|null)\b", "nil", text)
    text = re.sub(r"\b(?:Absent|Null)\b", "Nil", text)
    return text.replace("Default:", "Nil:") if is_parameter else text


def default_doc(text, kind):
    """A description without the default, which the initializer shows, and with "false" instead of "absent" for a Boolean."""
    if not text:
        return text
    text = re.sub(r" ?Default: [^.]*\.", "", text).strip()
    return re.sub(r"\babsent\b", "false", text) if kind.swift_name == "Bool" else text
