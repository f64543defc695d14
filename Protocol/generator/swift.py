"""The Swift types of the protocol's messages, from the JSON Schemas and swift-names.json.

Each method becomes an enumeration with the types of its parameters and result, their readers and writers, and the right that
its caller needs. The methods of a family share a file, and the types that several methods share have one. swift-names.json
contains what is specific to Swift: names of types and properties, groups of members that form one property, and hand-written
code. A method needs no entry there if its names and types follow from the schemas.
"""

import json
import pathlib
import re

from . import kinds
from .layout import brace, comment, fill, joined
from .model import Struct, Word, nil_doc
from .schemas import nullable

HERE = pathlib.Path(__file__).resolve().parent.parent
NAMES = HERE / "swift-names.json"
OUTPUT = HERE.parent / "Sources" / "LarderProtocol" / "Generated"
REGISTRY = HERE.parent / "Sources" / "LarderServer" / "Dispatch" / "Generated" / "AllMethods.swift"


class Generator:
    """Generates all types and files."""

    def __init__(self, schemas):
        self.schemas = schemas
        self.names = json.loads(NAMES.read_text(encoding="utf-8"))
        self.structs, self.words = self.names["structs"], self.names["words"]
        self.definitions = self.names["definitions"]
        self.added = self.names.get("added", [])
        self.method_names = {self.enum(file): schemas.files[file]["title"] for file in schemas.methods}
        # The names of the generated Swift types. Each key is the place of the schema from which the type is generated.
        self.types = {}
        for name, spec in self.structs.items():
            for place in [spec.get("schema"), *spec.get("same", [])]:
                if place and "only" not in spec:
                    self.types[place] = name
        self.types.update({spec["schema"]: name for name, spec in self.words.items()})
        self.group_uses, self.object_uses = set(), set()
        self.built = {}

    # Names

    def enum(self, file):
        method = self.schemas.files[file]["title"]
        given = self.names["methods"].get(method, {}).get("name")
        return given or "".join(word[0].upper() + word[1:] for word in method.split("."))

    def family(self, file):
        """The family of a method, which names its file. Methods of config.… are split into reading and writing ones."""
        source = self.schemas.files[file]
        family = source["title"].split(".")[0]
        if family == "config":
            return "ConfigReading" if source.get("x-right", "read") == "read" else "ConfigWriting"
        return {"image": "Image", "flag": "Flag"}.get(family, "Agent")

    def place(self, name):
        if "schema" in self.structs.get(name, {}):
            return self.structs[name]["schema"]
        outer, _, short = name.rpartition(".")
        part = {"Parameters": "params", "Result": "result"}.get(short)
        if outer in self.method_names and part:
            return f"methods/{self.method_names[outer]}.json#/$defs/{part}"
        raise SystemExit(f"{name}: swift-names.json does not name its schema")

    def group_members(self, options):
        if "members" in options:
            return options["members"]
        spec = self.structs[options["type"]]
        return spec.get("only") or list(self.schemas.node(spec["schema"])["properties"])

    # Kinds of values

    def named(self, name):
        if name in self.words:
            return kinds.Word(name, self.words[name])
        if name in self.structs and "by hand" not in self.structs[name]:
            return kinds.Struct(name, self.struct(name).is_result)
        return kinds.Struct(name, False)

    def kind(self, place, options, is_parameters, constants):
        if "type" in options:
            name = options["type"]
            if name in self.words or name in self.structs:
                return self.named(name)
            return kinds.Custom(name)
        if place in self.types:
            return self.named(self.types[place])
        definition = place.rpartition("/")[2] if place.startswith("common.json#/$defs/") else None
        shared = self.definitions.get(definition, {})
        if "kind" in shared:
            return kinds.SHARED[shared["kind"]]
        options = {**shared, **options}
        target = self.schemas.target(place)
        if target != place:
            found = self.kind(target, options, is_parameters, constants)
            found.is_namespace = found.is_namespace or target == "common.json#/$defs/Namespace"
            return found
        node = self.schemas.node(place)
        for index, choice in enumerate(node.get("anyOf", [])):
            if {"type": "null"} in node["anyOf"] and choice != {"type": "null"}:
                return self.kind(f"{place}/anyOf/{index}", options, is_parameters, constants)
        types = node.get("type", [])
        types = [one for one in (types if isinstance(types, list) else [types]) if one != "null"]
        if "const" in node:
            return kinds.Simple.of_value(node["const"])
        if "enum" in node or types == ["string"]:
            if is_parameters and "maxLength" in node:
                longest = self.constant(options, "maximum", node["maxLength"], constants)
                return kinds.Simple("String", "text", f", bytes: {node.get('minLength', 0)}...{longest}")
            return kinds.Simple("String", "string")
        if types == ["integer"]:
            return kinds.Simple("Int", "int", self.range(node, options, is_parameters, constants))
        if types == ["number"]:
            return kinds.Simple("Double", "seconds" if node.get("maximum") == 316_224_000 else "number")
        if types == ["boolean"]:
            return kinds.Simple("Bool", "bool")
        if types == ["array"]:
            return kinds.Array(self.kind(f"{place}/items", {}, is_parameters, constants))
        if types == ["object"] and "properties" not in node:
            if isinstance(node.get("additionalProperties"), dict):
                return kinds.Dictionary("String", self.kind(f"{place}/additionalProperties", {}, False, constants))
            for pattern in node.get("patternProperties", {}):
                keys = "Int" if pattern == "^[0-9]+$" else "String"
                return kinds.Dictionary(keys, self.kind(f"{place}/patternProperties/{pattern}", {}, False, constants))
            return kinds.AnyObject()
        if not types and "properties" not in node and "oneOf" not in node and "anyOf" not in node:
            return kinds.Value()
        raise SystemExit(f"{place}: name its Swift type in swift-names.json")

    def range(self, node, options, is_parameters, constants):
        given = options.get("range")
        if given == "unchecked" or (given is None and not is_parameters):
            return ""
        if given:
            return f", in: {given}"
        if "maximum" not in node:
            return f", in: {node['minimum']}...Int.max" if node.get("minimum") else ""
        highest = self.constant(options, "maximum", node["maximum"], constants)
        return f", in: {kinds.number(node['minimum'])}...{highest}"

    def constant(self, options, role, value, constants):
        """The Swift expression for a limit. A constant that the type itself declares is added to `constants`."""
        if value == 2**53 - 1:
            return "largestRevision"
        named = options.get(role)
        if named is None:
            return kinds.number(value)
        if isinstance(named, dict):
            constants.append((named["name"], value, named.get("doc")))
            return f"Self.{named['name']}"
        return named

    def allows_null(self, place):
        return nullable(self.schemas.node(place))

    def documentation(self, place):
        """The documentation of a property; empty if the schema only repeats the name of its type."""
        node = self.schemas.node(place)
        target = self.schemas.target(place)
        definition = target.rpartition("/")[2] if target.startswith("common.json#/$defs/") else None
        shared = self.definitions.get(definition, {}).get("doc")
        own = node.get("description")
        if own and re.fullmatch(r"Default: [^.]*\.", own) and shared:
            own = f"{shared} {own}"
        if own is None and target in self.types:
            return shared
        text = own or shared or ("" if definition in self.definitions else self.schemas.description(place))
        return nil_doc(text, False) if text and self.allows_null(place) else text

    # Uses and files

    def struct(self, name):
        if name not in self.built:
            self.built[name] = None
            self.built[name] = Struct(self, name)
        return self.built[name] or _Unfinished(self.structs.get(name, {}), name)

    def nested(self, name):
        """The nested types of a type, in the order of swift-names.json."""
        return [self.type_lines(full) for full in self.generated() if full.rpartition(".")[0] == name]

    def generated(self):
        """The names of all types in swift-names.json, except for hand-written ones."""
        return [name for name in [*self.words, *self.structs] if "by hand" not in self.structs.get(name, {})]

    def type_lines(self, name):
        if name in self.words:
            return Word(self, name).lines()
        return self.struct(name).lines()

    def used_in_group(self, name):
        return name in self.group_uses

    def used_as_object(self, name):
        return name in self.object_uses

    def note_uses(self):
        """Determine which types are read and written as members of another object, and which as objects."""
        wanted = [f"{enum}.{part}" for enum in self.method_names for part in ("Parameters", "Result")] + list(self.structs)
        for name in wanted:
            if "by hand" in self.structs.get(name, {}) or self.is_alias(name) or "document" in self.structs.get(name, {}):
                continue
            for member in self.struct(name).members:
                if member.shape == "group" or (member.presence and self.struct(name).is_group(member)):
                    self.group_uses.add(member.kind.name)
                else:
                    kind = member.kind
                    while isinstance(kind, (kinds.Array, kinds.Dictionary)):
                        kind = kind.element
                    if isinstance(kind, kinds.Struct):
                        self.object_uses.add(kind.name)

    def is_alias(self, name):
        """The shared type of a method's parameters or result; None if they have a separate type."""
        if name in self.structs and "schema" not in self.structs[name]:
            return None
        outer, _, short = name.rpartition(".")
        if outer not in self.method_names or short not in ("Parameters", "Result"):
            return None
        place = self.place(name)
        if short == "Parameters" and not self.schemas.node(place).get("properties"):
            return "NoParameters"
        return self.types.get(place) or self.types.get(self.schemas.target(place))

    def method_lines(self, file):
        source, enum = self.schemas.files[file], self.enum(file)
        summary = third_person(source["summary"])
        doc = f"`{source['title']}`: {summary} {source['description']}"
        parts = [[f'package static let name = "{source["title"]}"']]
        bodies = []
        for short in ("Parameters", "Result"):
            full, alias = f"{enum}.{short}", self.is_alias(f"{enum}.{short}")
            if alias:
                parts[0].append(f"package typealias {short} = {alias}")
            else:
                bodies.append(self.struct(full).lines())
        nested = [
            self.type_lines(full)
            for full in self.generated()
            if full.rpartition(".")[0] == enum and full.rpartition(".")[2] not in ("Parameters", "Result")
        ]
        if self.is_alias(f"{enum}.Parameters") or not bodies:
            parts += nested + bodies
        else:
            parts += bodies[:1] + nested + bodies[1:]
        parts.append(self.requirement(source, enum))
        return comment(doc, 0) + brace(f"package enum {enum}: WireMethod, AuthorizedMethod", joined(parts))

    def requirement(self, source, enum):
        """The right that the caller needs, according to `x-right`, `x-right-if`, `x-right-also`,
        `x-right-also-for`, `x-right-or` and `x-scope`."""
        title, right = source["title"], source.get("x-right")
        properties = source["$defs"]["params"].get("properties", {})
        parameter = "_ parameters: Parameters"
        if right is None:
            need, parameter = ".nothing", "_: Parameters"
        elif "x-right-or" in source:
            if (right, source["x-right-or"], source.get("x-scope")) != ("read", "monitor", "anywhere"):
                raise SystemExit(f"{title}: there is only a requirement of `read` anywhere or `monitor`")
            if "namespace" in properties:
                need = ".monitoring(parameters.namespace)"
            else:
                need, parameter = ".monitoring(nil)", "_: Parameters"
        elif "namespace" in properties:
            rights = f".{right}"
            for flag, other in source.get("x-right-if", {}).items():
                rights = f"parameters.{flag} ? .{other} : {rights}"
            also = source.get("x-right-also", [])
            if "x-right-also-for" in source:
                other = source["x-right-also-for"]["right"]
                listed = f".allInNamespace([.{right}, .{other}], parameters.namespace)"
                body = ["parameters.comparesValues", f"    ? {listed} : .inNamespace({rights}, parameters.namespace)"]
                return brace(f"package static func requirement({parameter}) -> Requirement", body)
            elif also:
                listed = ", ".join("." + one for one in [right, *also])
                need = f".allInNamespace([{listed}], parameters.namespace)"
            elif source.get("x-scope") == "anywhere":
                need = f"parameters.namespace.map {{ .inNamespace({rights}, $0) }} ?? .anywhere({rights})"
            else:
                need = f".inNamespace({rights}, parameters.namespace)"
        elif "url" in properties:
            # The right to images is checked first, because a peer without that right must learn nothing about an image.
            rights = sorted([right, *source.get("x-right-also", [])], key=lambda one: one != "images")
            if len(rights) > 2:
                raise SystemExit(f"{title}: there is no requirement of three rights for an image")
            need = f".image(url: {self.url(enum)}, {', and: '.join('.' + one for one in rights)})"
        else:
            parameter = "_: Parameters"
            if "x-right-also" in source:
                raise SystemExit(f"{title}: there is no requirement of two rights for the whole agent")
            where = "anywhere" if source.get("x-scope") == "anywhere" else "general"
            need = f".{where}(.{right})"
        return brace(f"package static func requirement({parameter}) -> Requirement", [need], one_line=True)

    def url(self, enum):
        """The expression for the URL among the parameters of a method."""
        for prop, group in self.structs.get(f"{enum}.Parameters", {}).get("groups", {}).items():
            if "url" in self.group_members(group):
                return f"parameters.{prop}.url"
        return "parameters.url"

    def file(self, types):
        text = "\n".join(line for lines in types for line in lines)
        imports = []
        if re.search(r"JSON(Value|Path|Writer)|MemberReader", text):
            imports = ["package import LarderJSON" if re.search(r"package .*JSON(Value|Path|Writer)", text) else "import LarderJSON", ""]
        head = ["// Generated by Protocol/generate.py from the schemas in Protocol/schemas. Do not edit.", ""]
        lines = [line.rstrip() for line in head + imports + joined(types)]
        return "\n".join(lines) + "\n"

    def error_codes(self):
        """The table of errors."""
        errors = self.schemas.files["error.json"]["$defs"]
        body = []
        for name, schema in errors.items():
            properties = schema["properties"]
            number, message = properties["code"]["const"], json.dumps(properties["message"]["const"])
            retryable = ", retryable: true" if properties["data"]["properties"]["retryable"]["const"] else ""
            body += comment(schema["description"], 4)
            body.append(f'package static let {name} = Self({number}, "{name}", {message}{retryable})')
        body += ["", "/// All errors of the protocol."]
        body += fill("package static let all: [Self] = [", list(errors), "]", 4)
        return brace("extension WireErrorCode", body)

    def all_methods(self):
        """The list of the types of all methods, for tests."""
        types = fill("[", [f"{enum}.self" for enum in sorted(self.method_names)], "]", 8)
        body = comment("All methods of the protocol.", 4) + brace(
            "package static var types: [any AuthorizedMethod.Type]", types
        )
        return [*comment("The methods of the protocol.", 0), *brace("package enum AllMethods", body)]

    def registry(self):
        """The file that registers all methods with the server. It does not compile if the server lacks one."""
        body = ["var registry = MethodRegistry()"]
        body += [f"registry.register({enum}.self)" for enum in sorted(self.method_names)]
        body = comment("All methods of the protocol.", 4) + brace(
            "static var agent: MethodRegistry", [*body, "return registry"]
        )
        head = ["// Generated by Protocol/generate.py from the schemas of the methods. Do not edit.", ""]
        lines = [*head, "import LarderProtocol", "", *brace("extension MethodRegistry", body)]
        return "\n".join(lines) + "\n"

    def files(self):
        """The text of each file by its path below the output folder."""
        self.note_uses()
        families = {}
        for file in self.schemas.methods:
            families.setdefault(self.family(file), []).append(self.method_lines(file))
        files = {f"{family}Methods.swift": self.file(types) for family, types in families.items()}
        shared = [self.type_lines(name) for name in self.generated() if "." not in name]
        files["SharedTypes.swift"] = self.file([*shared, self.error_codes(), self.all_methods()])
        return files


class _Unfinished:
    """A placeholder for a type that refers to itself, while its members are being read."""

    def __init__(self, spec, name):
        self.is_result = name.endswith(".Result") or spec.get("result", False)


def third_person(sentence):
    """Convert an imperative sentence to the third person: "Read a value." becomes "reads a value."."""
    verb, _, rest = sentence.partition(" ")
    ending = "es" if verb.endswith(("o", "s", "x", "ch", "sh")) else "s"
    return f"{verb.lower()}{ending} {rest}"
