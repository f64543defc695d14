#!/usr/bin/env python3
"""Checks that the source files of no module have a dependency cycle of more than three files. The compiler refuses cycles
between modules. Also checks that no `@concurrent` function throws (see `concurrently` in LarderEncoding), and that no property
has 128 bits (see `IPAddress` in LarderUpstream).

The script finds references by name, without a compiler: top-level types, nested types declared in an extension, global
functions and constants, and members of extensions. A member counts if only one file of the module declares its name, and
a method only if it is called. Comments and string literals are ignored, except for interpolations.

  contrib/check-layers.py            check
  contrib/check-layers.py FILE...    also print references from and to these files (names without .swift)
"""
import collections
import pathlib
import re
import sys

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "Sources"
MAX_CYCLE = 3

TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[{}().:]|\S")
LITERAL = re.compile(r'(#+)".*?"\1|"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*"|//.*')
TYPES = {"struct", "class", "enum", "actor", "protocol", "typealias"}
MEMBERS = {"func", "var", "let", "case"}
HIDDEN = {"private", "fileprivate"}
CALLS = {"(", "{", "<"}


def code(text):
    """Returns the text without comments and without string literals, except for the interpolated expressions."""
    def replacement(match):
        literal = match[0]
        depth, kept = 0, []
        for index, character in enumerate(literal):
            if depth == 0:
                depth = int(literal.startswith('"') and literal[index - 1 : index + 1] == "\\(")
            else:
                depth += {"(": 1, ")": -1}.get(character, 0)
            kept.append(character if depth or character == "\n" else " ")
        return "".join(kept)
    return LITERAL.sub(replacement, text)


class File:
    """A source file, or one declaration of a generated file. Those are in one file only to be fewer files."""

    def __init__(self, path, lines):
        self.path = path
        self.tokens = []
        for number, line in lines:
            self.tokens += [(token, number) for token in TOKEN.findall(line)]
        self.types = set()  # top-level types
        self.nested = set()  # the last names of nested types
        self.qualified = set()  # types nested in an extension, as "Outer.Inner"
        self.globals = set()
        self.own_names = set()  # all functions, variables and cases, also private ones
        self.own_members = set()  # members of types that this file declares
        self.values = set()  # members that are not functions
        self.extended = collections.defaultdict(set)  # type -> members that its extensions in this file add
        self.read_declarations()

    @staticmethod
    def all(path):
        parts = [[]]
        for number, line in enumerate(code(path.read_text()).split("\n"), 1):
            parts[-1].append((number, line))
            if line == "}" and path.parent.name == "Generated":
                parts.append([])
        return [File(path, lines) for lines in parts]

    def read_declarations(self):
        scopes = []  # (kind, name) of each open brace; kind is "type", "extension" or "other"
        pending = None
        hidden = False
        words = [token for token, _ in self.tokens]
        for index, word in enumerate(words):
            before = words[index - 1] if index else ""
            after = words[index + 1] if index + 1 < len(words) else ""
            if word == "{":
                scopes.append(pending or ("other", None))
                pending = None
            elif word == "}":
                if scopes:
                    scopes.pop()
            elif before == ".":
                continue
            elif word in HIDDEN:
                hidden = after != "("  # private(set) applies to the setter only
            elif word == "extension" and not scopes:
                name, at = after, index + 2
                while words[at : at + 1] == ["."]:
                    name, at = name + "." + words[at + 1], at + 2
                pending, hidden = ("extension", name), False
            elif word in TYPES and after not in MEMBERS and re.match(r"[A-Za-z_]", after):
                self.declare_type(after, scopes, hidden)
                if word != "typealias":
                    pending = ("type", after)
                hidden = False
            elif word in MEMBERS and all(kind != "other" for kind, _ in scopes):
                if re.match(r"[A-Za-z_]", after):
                    self.own_names.add(after)
                    if not hidden:
                        self.declare_member(after, scopes)
                        if word != "func":
                            self.values.add(after)
                hidden = False
            elif word == "init":
                hidden = False

    def declare_type(self, name, scopes, hidden):
        if not scopes:
            if not hidden:
                self.types.add(name)
        elif all(kind != "other" for kind, _ in scopes):
            self.nested.add(name)
            if scopes[0][0] == "extension" and not hidden:
                self.qualified.add(scopes[0][1].split(".")[-1] + "." + name)

    def declare_member(self, name, scopes):
        if not scopes:
            self.globals.add(name)
        elif scopes[0][0] == "extension" and len(scopes) == 1:
            self.extended[scopes[0][1].split(".")[0]].add(name)
        else:
            self.own_members.add(name)

    def __str__(self):
        return str(self.path.relative_to(SOURCES))


def references(files):
    """Returns {(file, referenced file): [(name, line)]}."""
    homes = collections.defaultdict(set)
    members = collections.defaultdict(set)
    for file in files:
        for name in file.types:
            homes[name].add(file)
        for name in file.qualified:
            homes[name].add(file)
        for name in file.globals:
            homes[name].add(file)
        for name in file.own_members:
            members[name].add((file, False))
        for type_name, names in file.extended.items():
            for name in names:
                members[name].add((file, type_name not in file.types))
    found = collections.defaultdict(list)

    def note(file, home, name, line):
        if home is not file:
            found[file, home].append((name, line))

    for file in files:
        for index, (word, line) in enumerate(file.tokens):
            before = file.tokens[index - 1][0] if index else ""
            after = file.tokens[index + 1][0] if index + 1 < len(file.tokens) else ""
            if before != "." and word not in file.nested:
                for home in homes.get(word, ()):
                    is_label = after == ":" and word in home.globals
                    if len(homes[word]) == 1 and not is_label:
                        note(file, home, word, line)
            if after == "." and index + 2 < len(file.tokens):
                for home in homes.get(word + "." + file.tokens[index + 2][0], ()):
                    note(file, home, word + "." + file.tokens[index + 2][0], line)
            if len(members.get(word, ())) == 1 and after != ":" and word not in file.own_names:
                home, is_extension = next(iter(members[word]))
                is_call = after in CALLS or word in home.values
                if is_extension and is_call and (before == "." or after == "("):
                    note(file, home, word, line)
    return found


def cycles(files, found):
    """Returns the strongly connected components of the graph (Tarjan 1972)."""
    successors = collections.defaultdict(list)
    for file, home in found:
        successors[file].append(home)
    index, low, stack, result = {}, {}, [], []

    def visit(file):
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in successors[file]:
            if other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            component = []
            while not component or component[-1] is not file:
                component.append(stack.pop())
            result.append(component)

    for file in files:
        if file not in index:
            visit(file)
    return result


def miscompiled(path):
    """Returns a problem for each function of a file that is `@concurrent` and throws, and each property of 128 bits."""
    problems = []
    text = code(path.read_text())
    for name in re.findall(r"\b(?:let|var) (\w+): U?Int128\b\??(?! *\{)", text):
        problems.append(f"{path}: {name} has 128 bits; store two halves, because Swift 6.3 miscompiles asynchronous calls")
    for name, signature in re.findall(r"@concurrent\b[^{}]*?\bfunc (\w+)([^{}]*)", text):
        # The last match is the function's own, the others are those of its parameters.
        if re.findall(r"\)\s*async(\s+throws)?", signature)[-1]:
            problems.append(f"{path}: {name} is @concurrent and throws; let it call `concurrently` instead")
    return problems


def check(module):
    """Returns the number of files of a module, its largest cycle and the problems; prints the wanted references."""
    paths = sorted(module.rglob("*.swift"))
    files = [file for path in paths for file in File.all(path)]
    found = references(files)
    for wanted in sys.argv[1:]:
        for (file, home), names in sorted(found.items(), key=str):
            if wanted in (file.path.stem, home.path.stem):
                print(f"{file} → {home}: {', '.join(sorted({name for name, _ in names}))}")
    components = cycles(files, found)
    problems = [problem for path in paths for problem in miscompiled(path)]
    for component in components:
        if len(component) <= MAX_CYCLE:
            continue
        lines = [f"a cycle of {len(component)} files; at most {MAX_CYCLE} may depend on each other:"]
        for file in sorted(component, key=str):
            for home in sorted(component, key=str):
                if (file, home) in found:
                    name, line = found[file, home][0]
                    lines.append(f"  {file}:{line} refers to {name} of {home}")
        problems.append("\n".join(lines))
    return len(paths), max((len(component) for component in components), default=0), problems


def main():
    sys.setrecursionlimit(10_000)
    total, largest, problems = 0, 0, []
    for module in sorted(path for path in SOURCES.iterdir() if path.is_dir()):
        count, size, found = check(module)
        total, largest = total + count, max(largest, size)
        problems += found
    if problems:
        print("\n".join(problems), file=sys.stderr)
        print("check-layers: in a cycle, move the declaration down, pass a value, or invert the reference", file=sys.stderr)
        return 1
    print(f"check-layers: {total} files; the largest cycle has {largest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
