"""The Swift type of each kind of value, and the code that reads and writes it."""

import re


def number(value):
    """An integer as a Swift literal."""
    if not isinstance(value, int):
        return str(value)
    return f"{value:_}" if value >= 10_000 else str(value)


def relative(name, scope):
    """The name of a type relative to the type that it is used in."""
    parts = scope.split(".")
    for length in range(len(parts), 0, -1):
        prefix = ".".join(parts[:length]) + "."
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def capitalized(text):
    return text[0].upper() + text[1:]


class Kind:
    """A kind of value."""

    is_namespace = False
    name = None
    swift_name = ""

    def swift(self, scope):
        return self.swift_name

    def read(self, member, target, scope):
        """Return the statements that read a member into a property."""
        if member.shape == "required":
            return [f"{target} = {self.required(member.wire, scope)}"]
        if member.shape == "default":
            return [f"{target} = {self.optional(member.wire, scope)} ?? {member.absent}"]
        return [f"{target} = {self.optional(member.wire, scope)}"]

    def write(self, member, expression, scope):
        """Return the statements that write a property as a member."""
        if member.shape == "nullable":
            return [f'writer.nullableMember("{member.wire}", {self.text(expression, True)})']
        if member.shape == "optional":
            return [f'writer.member("{member.wire}", {self.text(expression, True)})']
        line = f'writer.member("{member.wire}", {self.text(expression, False)})'
        if member.shape == "default":
            return [f"if {self.differs(expression, member.absent)} {{ {line} }}"]
        return [line]

    def differs(self, expression, absent):
        return f"{expression} != {absent}"

    def text(self, expression, is_optional):
        return expression

    def elements(self, scope):
        """The expression that converts the elements of a JSON array."""
        raise SystemExit(f"{scope}: arrays of {self.swift(scope)} are not supported")


class Simple(Kind):
    """A value that `MemberReader` and `JSONWriter` each have a method for."""

    def __init__(self, swift, reader, arguments="", suffix=""):
        self.swift_name, self.reader, self.arguments, self.suffix = swift, reader, arguments, suffix

    @staticmethod
    def of_value(value):
        if isinstance(value, bool):
            return Simple("Bool", "bool")
        return Simple("Int", "int") if isinstance(value, int) else Simple("String", "string")

    def required(self, wire, scope):
        return f'try reader.required{capitalized(self.reader)}("{wire}"{self.arguments})'

    def optional(self, wire, scope):
        if self.is_namespace and wire == "namespace":
            return 'try reader.string("namespace")'
        return f'try reader.{self.reader}("{wire}"{self.arguments})'

    def read(self, member, target, scope):
        if member.absent == "defaultNamespace" and member.wire == "namespace":
            return [f"{target} = try reader.namespace()"]
        return super().read(member, target, scope)

    def write(self, member, expression, scope):
        if member.absent == "defaultNamespace" and member.wire == "namespace":
            return [f"writer.namespace({expression})"]
        if self.swift_name == "Bool" and member.shape == "default":
            condition = expression if member.absent == "false" else f"!{expression}"
            value = "true" if member.absent == "false" else "false"
            return [f'if {condition} {{ writer.member("{member.wire}", {value}) }}']
        return super().write(member, expression, scope)

    def differs(self, expression, absent):
        return f"{expression} > 0" if absent == "0" else f"{expression} != {absent}"

    def text(self, expression, is_optional):
        return f"{expression}{'?' if is_optional and self.suffix else ''}{self.suffix}"

    def elements(self, scope):
        return f"compactMap(\\.{self.reader})"

    def write_element(self, expression):
        return f"writer.{self.reader}({expression})"


class Word(Kind):
    """A string from a fixed set of words."""

    def __init__(self, name, spec):
        self.name, self.spec, self.swift_name = name, spec, name

    def swift(self, scope):
        return relative(self.name, scope)

    def required(self, wire, scope):
        made = f'{self.swift(scope)}(rawValue: try reader.requiredString("{wire}"))'
        unknown = self.spec.get("unknown")
        return f"{made} ?? .{unknown}" if unknown else made

    def optional(self, wire, scope):
        if self.spec.get("open"):
            return f'try reader.string("{wire}").map({self.swift(scope)}.init(rawValue:))'
        return f'try reader.string("{wire}").flatMap({self.swift(scope)}.init(rawValue:))'

    def read(self, member, target, scope):
        if scope.endswith(".Parameters") and not self.spec.get("open"):
            word = f'try reader.word("{member.wire}", {self.swift(scope)}.self)'
            return [f"{target} = {word}" + (f" ?? {member.absent}" if member.shape == "default" else "")]
        return super().read(member, target, scope)

    def text(self, expression, is_optional):
        return f"{expression}{'?' if is_optional else ''}.rawValue"

    def elements(self, scope):
        return f"compactMap {{ $0.string.flatMap({self.swift(scope)}.init(rawValue:)) }}"

    def write_element(self, expression):
        return f"writer.string({expression}.rawValue)"


class Path(Kind):
    """A path in a document."""

    swift_name = "JSONPath"

    def read(self, member, target, scope):
        name = "" if member.wire == "path" else f'"{member.wire}"'
        return [f"{target} = try reader.{'path' if member.shape == 'default' else 'requiredPath'}({name})"]

    def write(self, member, expression, scope):
        if member.shape == "default" and member.wire == "path":
            return [f"writer.path({expression})"]
        line = f'writer.member("{member.wire}", {expression}.pointer)'
        return [f"if !{expression}.segments.isEmpty {{ {line} }}"] if member.shape == "default" else [line]


class Value(Kind):
    """Any JSON value."""

    swift_name = "JSONValue"

    def required(self, wire, scope):
        return f'try reader.requiredValue("{wire}")'

    def optional(self, wire, scope):
        return f'reader.value("{wire}")'


class AnyObject(Value):
    """Any JSON object."""

    def required(self, wire, scope):
        return f'try reader.requiredObject("{wire}")'


class Custom(Kind):
    """A hand-written type. swift-names.json contains the code that reads and writes it."""

    def __init__(self, swift):
        self.swift_name = swift


class Struct(Kind):
    """An object with a separate Swift type."""

    def __init__(self, name, is_result):
        self.name, self.is_result, self.swift_name = name, is_result, name

    def swift(self, scope):
        return relative(self.name, scope)

    def element(self, variable, scope):
        argument = variable if self.is_result else f"MemberReader(object: {variable})"
        return f"try {self.swift(scope)}(from: {argument})"

    def read(self, member, target, scope):
        wire, swift = member.wire, self.swift(scope)
        if member.shape == "required":
            argument = f'reader.requiredValue("{wire}")'
            argument = argument if self.is_result else f"MemberReader(object: {argument})"
            return [f"{target} = try {swift}(from: {argument})"]
        line = f'try reader.object("{wire}").map({swift}.init(from:))'
        return [f"{target} = {line} ?? {member.absent}" if member.shape == "default" else f"{target} = {line}"]

    def write(self, member, expression, scope):
        name = f'writer.name("{member.wire}")'
        if member.shape == "nullable":
            return [name, f"if let {expression} {{ {expression}.write(to: &writer) }} else {{ writer.null() }}"]
        if member.shape == "optional":
            return [f"if let {expression} {{", f"    {name}", f"    {expression}.write(to: &writer)", "}"]
        return [name, f"{expression}.write(to: &writer)"]

    def write_element(self, expression):
        return f"{expression}.write(to: &writer)"


class Array(Kind):
    """An array."""

    def __init__(self, element):
        self.element = element

    def swift(self, scope):
        return f"[{self.element.swift(scope)}]"

    def read(self, member, target, scope):
        wire = member.wire
        given = f'try reader.requiredValue("{wire}")'
        if not isinstance(self.element, Struct):
            elements = self.element.elements(scope)
            if member.shape == "default":
                return [f'{target} = reader.value("{wire}")?.elements.{elements} ?? []']
            return [f"{target} = {given}.elements.{elements}"]
        one = singular(member.prop)
        append = f"{member.prop}.append({self.element.element(one, scope)})"
        if member.shape == "optional" and len(append) > 60:
            return [
                f'if let given = reader.value("{wire}"), !given.isNull {{',
                f"    var {member.prop}: {self.swift(scope)} = []",
                f"    for {one} in given.elements {{",
                f"        {append}",
                "    }",
                f"    self.{member.prop} = {member.prop}",
                "}",
            ]
        if member.shape == "optional":
            return [
                f'if let given = reader.value("{wire}"), !given.isNull {{',
                f"    var {member.prop}: {self.swift(scope)} = []",
                f"    for {one} in given.elements {{ {append} }}",
                f"    self.{member.prop} = {member.prop}",
                "}",
            ]
        if member.shape == "default":
            given = f'(reader.value("{wire}") ?? .array([]))'
        return [f"{target} = []", f"for {one} in {given}.elements {{", f"    {append}", "}"]

    def write(self, member, expression, scope):
        one = singular(member.prop)
        lines = [
            f'writer.name("{member.wire}")',
            "writer.beginArray()",
            f"for {one} in {expression} {{ {self.element.write_element(one)} }}",
            "writer.endArray()",
        ]
        if member.shape == "optional":
            return [f"if let {expression} {{", *("    " + line for line in lines), "}"]
        return lines


class Dictionary(Kind):
    """An object with arbitrary member names."""

    def __init__(self, key, element):
        self.key, self.element = key, element

    def swift(self, scope):
        return f"[{self.key}: {self.element.swift(scope)}]"

    def read(self, member, target, scope):
        given = f'try reader.requiredValue("{member.wire}").members'
        if self.key == "Int":
            return [
                f"{target} = [:]",
                f"for (key, value) in {given} {{",
                f"    if let key = Int(key), let value = value.{self.element.reader} {{ {member.prop}[key] = value }}",
                "}",
            ]
        if isinstance(self.element, Struct):
            made = self.element.element("value", scope)
        elif isinstance(self.element, Array):
            made = f"value.elements.{self.element.element.elements(scope)}"
        return [f"{target} = [:]", f"for (name, value) in {given} {{", f"    {member.prop}[name] = {made}", "}"]

    def write(self, member, expression, scope):
        one = singular(member.prop)
        key, name = ("key", "String(key)") if self.key == "Int" else ("name", "name")
        if isinstance(self.element, Array):
            # The variable for one inner array: the last word of the property's name, such as "rights" of
            # namespaceRights.
            one = re.split(r"(?=[A-Z])", member.prop)[-1].lower()
            inner = self.element.element
            element = singular(one)
            written = [
                "writer.beginArray()",
                f"for {element} in {one} {{ {inner.write_element(element)} }}",
                "writer.endArray()",
            ]
        else:
            written = [self.element.write_element(one)]
        return [
            f'writer.name("{member.wire}")',
            "writer.beginObject()",
            f"for ({key}, {one}) in {expression}.sorted(by: {{ $0.key < $1.key }}) {{",
            f"    writer.name({name})",
            *("    " + line for line in written),
            "}",
            "writer.endObject()",
        ]


def singular(plural):
    """The name of one element."""
    return plural[:-1] if plural.endswith("s") else "element"


SHARED = {
    "timestamp": Simple("Timestamp", "timestamp", suffix=".description"),
    "digest": Simple("WireDigest", "digest", suffix=".description"),
    "requestID": Simple("RequestID", "requestID"),
    "path": Path(),
    "value": Value(),
}
