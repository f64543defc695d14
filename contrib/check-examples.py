#!/usr/bin/env python3
"""Type-checks the Swift examples of the documentation, and the packages in contrib/examples.

The examples are the ```swift blocks in the doc comments of the library's modules, in the articles and tutorials of its
DocC catalog, in README.md and in the guides for programs. All of them are compiled together, against the modules that
`swift build` built. A file of contrib/examples that imports a module of NOT_BUILT is skipped, with a message;
`contrib/examples/build.sh` builds the packages completely.

The script also fails for public symbols without documentation, and for public types and methods without an example.

  contrib/check-examples.py           check everything
  contrib/check-examples.py --write   write GUIDE_TESTS, after a change of an example in it

Examples that follow a snapshot stream are also run: GUIDE_TESTS has the text of those in the guides, in the articles and
in the tutorial. `GuideExampleTests` runs each with an agent that has no value, with a wrong value, and across a restart.
This script fails if the file is not up to date.

How an example is compiled:

- A doc comment and a Markdown file are one document each. Each step of a tutorial is a document with the newest
  version of each file of the program so far.
- Imports are moved to the start of the file that is generated for the document. Declarations of types, and of functions
  with an attribute such as @Test, are visible in all blocks of the document. The statements of each block are compiled
  in each place where a program could have them: as the body of an async throwing function of the main actor, of a
  `Task`, and of a child task of a group. The last one is not on the main actor, so blocks that need the main actor
  (MAIN_ACTOR below) are not compiled there.
- The names of PRELUDE below, such as `client`, are visible everywhere. A block can declare its own.
- Of `#if`, `#else` and `#endif`, the first branch is compiled.
- A block that has a line of a package manifest (`.package(url:` or `.product(name:`) is skipped. SwiftPM reads the
  manifests of tutorials.
- Warnings are errors, except for values that are never used or changed.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The modules with examples, and the imports of the examples of each.
MODULES = {
    "LarderJSON": ["LarderClient"],
    "LarderClientCore": ["LarderClient"],
    "LarderClient": ["LarderClient"],
    "LarderFlags": ["LarderFlags"],
    "LarderTesting": ["LarderClient", "LarderTesting", "Testing"],
    "LarderServiceLifecycle": ["LarderClient", "LarderServiceLifecycle", "ServiceLifecycle", "Logging"],
    "ConfigurationLarder": ["LarderClient", "ConfigurationLarder", "Configuration"],
}
# The modules whose public symbols must be documented and have examples.
DOCUMENTED = [
    "LarderClientCore", "LarderClient", "LarderFlags", "LarderTesting", "LarderServiceLifecycle", "ConfigurationLarder",
]
CATALOG = "Sources/LarderClient/LarderClient.docc"
DOCUMENTS = [
    "README.md", "contrib/guides/clients.md", "contrib/guides/swift.md", "contrib/guides/swift-configuration.md",
    "contrib/guides/flags.md",
]

# The file with the examples that tests run.
GUIDE_TESTS = "Tests/LarderServiceLifecycleTests/GuideExamples.swift"

# The modules that the packages in contrib/examples import, and that Larder does not depend on.
NOT_BUILT = ["Hummingbird"]

# Names that the examples use without declaring them.
PRELUDE = """
import Foundation
import LarderClient
import LarderTesting

/// The connection to the agent.
let client = LarderClient()
/// A snapshot that the example got before.
let snapshot = LarderSnapshot(value: ["limit": 25], revision: 1, epoch: "1", state: .fresh)
/// The URLs of some images.
let urls: [String] = []
/// The bytes of an image.
let png = Data()

/// The configuration at `search`.
struct Search: Codable, Sendable, Equatable {
    var limit = 10
    var hosts: [String] = []
}

/// The records of a repository, and the rows of a file to import.
struct Ticket: Codable, Identifiable, Sendable {
    var id: String
    var title: String
}
let tickets = LarderRepository(client.config, at: "tickets", of: Ticket.self)

/// The program that uses a configuration.
actor Server {
    func apply(_ search: Search) throws {}
    func setLimit(_ limit: Int) {}
}
let server = Server()

/// The agent of a test, its image origin, and the program under test.
let agent: TestAgent = { fatalError("examples are not run") }()
let origin = TestImageOrigin()
actor SearchService {
    init(client: LarderClient) {}
    var limit: Int { 10 }
}
let service = SearchService(client: client)
"""

MANIFEST = (".package(url:", ".product(name:", ".package(path:", ".package(name:")
# What only code on the main actor can use without `await`.
MAIN_ACTOR = re.compile(r"\b(ConfigViewModel|ImageViewModel|MainActor|model|images|RunLoop)\b(?!\.)")
UNUSED = re.compile(r"never used|never mutated|never read|is unused|consider replacing with '_'|never written to")
DECLARATION = re.compile(
    r"(?:(?:public|private|fileprivate|internal|final|indirect|nonisolated|static|@\w+(?:\([^)]*\))?)\s+)*"
    r"(struct|class|enum|actor|protocol|extension|typealias|func|init)\b")


class Block:
    """The lines of one example, its file, and the number of its first line."""

    def __init__(self, path, start, lines):
        self.path, self.start, self.lines = path, start, lines

    def items(self):
        """Yields (kind, line number, lines) for each import, declaration and statement of the outermost level."""
        items = []
        attributed = False  # the last line has only attributes, which belong to the next line
        for offset, line in enumerate(self.lines):
            is_outermost = line[:1] not in ("", " ", "\t", "}", ")", "]", ".", "/", "#")
            if not is_outermost or attributed:
                if not items:
                    items.append([None, self.start + offset, []])
                items[-1][2].append(line)
                if attributed and is_outermost:
                    items[-1][0] = kind_of(f"{items[-1][2][-2].strip()} {line}")
            elif items and items[-1][0] == kind_of(line) == "statement":
                items[-1][2].append(line)
            else:
                items.append([kind_of(line), self.start + offset, [line]])
            if is_outermost:
                attributed = bool(re.fullmatch(r"(@\w+(\([^)]*\))?\s*)+(//.*)?", line.strip()))
        return items


def kind_of(line):
    if re.match(r"(@\w+\s+)?(public\s+)?import\s", line):
        return "import"
    match = DECLARATION.match(line)
    if not match:
        return "statement"
    if match[1] == "func":
        return "declaration" if "@" in line else "statement"
    return "extension" if match[1] == "extension" else "declaration"


def first_branch(lines):
    """Returns the lines with empty ones in place of `#if`, `#endif`, and the lines between `#else` and `#endif`.

    The lines of the first branch lose the indentation that swift-format gives them."""
    result, is_kept, indentation = [], True, ""
    for line in lines:
        if line.startswith(("#if ", "#else", "#endif")):
            is_kept = not line.startswith("#else")
            indentation = None if line.startswith("#if ") else ""
            result.append("")
            continue
        if indentation is None and line:
            indentation = "    " if line.startswith("    ") else ""
        result.append(line.removeprefix(indentation or "") if is_kept else "")
    return result


def fenced_blocks(path, lines, first):
    """Returns the ```swift blocks of Markdown lines, without the indentation of the fence."""
    blocks, block, indent = [], None, 0
    for number, line in enumerate(lines, first):
        fence = re.match(r"( *)```(.*)$", line)
        if block is not None and fence:
            block.lines = first_branch(block.lines)
            blocks.append(block)
            block = None
        elif block is not None:
            block.lines.append(line[indent:] if not line[:indent].strip() else line)
        elif fence and fence[2].strip() == "swift":
            block, indent = Block(path, number + 1, []), len(fence[1])
        elif fence:
            block, indent = Block(path, number + 1, []), len(fence[1])
            block.lines.append(MANIFEST[0])  # another language: skipped below
    return [block for block in blocks if not any(mark in line for line in block.lines for mark in MANIFEST)]


def doc_comments(text):
    """Yields (number of the first line, lines) for each doc comment."""
    comment = []
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = re.match(r"\s*/// ?(.*)$", line)
        if match:
            comment.append(match[1])
        elif comment:
            yield number - len(comment), comment
            comment = []


def tutorial_steps():
    """Yields (tutorial, step, blocks) for each step of a tutorial: the newest version of each file of the program."""
    for tutorial in sorted((ROOT / CATALOG).rglob("*.tutorial")):
        newest = {}  # the block of each file of the program
        files = re.findall(r'@Code\(name: "([^"]+)", file: "([^"]+\.swift)"\)', tutorial.read_text())
        for step, (name, file) in enumerate(files, 1):
            if name == "Package.swift":
                continue
            path = ROOT / CATALOG / "Resources" / file
            own = {pathlib.Path(name).parent.name for name in [*newest, name]}
            newest[name] = Block(path, 1, [
                "" if line.startswith(tuple(f"@testable import {module}" for module in own)) else line
                for line in first_branch(path.read_text().splitlines())])
            yield tutorial, step, list(newest.values())


def documents():
    """Yields (modules to import, blocks) for each document."""
    for module, imports in MODULES.items():
        for path in sorted((ROOT / "Sources" / module).rglob("*.swift")):
            if ".docc" in str(path):
                continue
            for first, lines in doc_comments(path.read_text()):
                yield imports, fenced_blocks(path, lines, first)
    for path in sorted((ROOT / CATALOG).rglob("*.md")) + [ROOT / name for name in DOCUMENTS]:
        if path.exists():
            yield ["LarderClient"], fenced_blocks(path, path.read_text().splitlines(), 1)
    for _, _, blocks in tutorial_steps():
        yield ["LarderClient"], blocks


def swift_file(modules, blocks, number):
    """Returns the text of the Swift file for a document."""
    imports, extensions, declarations, functions = [], [], [], []
    for index, block in enumerate(blocks):
        statements = []
        for kind, line, lines in block.items():
            # A program has one @main, but every example may.
            lines = [re.sub(r"^@main\b", "", text) for text in lines]
            located = [
                f'#sourceLocation(file: "{block.path.relative_to(ROOT)}", line: {line})', *lines, "#sourceLocation()"]
            lists = {"import": imports, "extension": extensions, "declaration": declarations}
            lists.get(kind, statements).extend(located)
        functions += [f"@MainActor func example{index}() async throws {{", *statements, "}"]
        if any(MAIN_ACTOR.search(text) for text in block.lines):
            functions += [f"@MainActor func task{index}() {{ _ = Task {{", *statements, "} }"]
        else:
            functions += [
                f"func task{index}() {{ _ = Task {{", *statements, "} }",
                # The type of the operation of `addTask`.
                f"func child{index}() {{ let _: @Sendable () async throws -> Void = {{", *statements, "} }"]
    return "\n".join(
        ["import Foundation", *(f"import {module}" for module in modules), *imports, *extensions,
         f"struct Document{number} {{", *declarations, *functions, "}", ""])


def manifest_faults():
    """Returns an error for each manifest of a tutorial that SwiftPM cannot read."""
    faults = []
    for manifest in sorted((ROOT / CATALOG / "Resources").glob("*-package.swift")):
        with tempfile.TemporaryDirectory() as package:
            (pathlib.Path(package) / "Package.swift").write_text(manifest.read_text())
            result = subprocess.run(
                ["swift", "package", "--package-path", package, "dump-package"], capture_output=True, text=True)
        if result.returncode != 0:
            faults.append(f"{manifest.relative_to(ROOT)}: {result.stderr}")
    return faults


def guide_tests():
    """Returns the text of GUIDE_TESTS: a function for each example that follows the configuration at `search`."""
    functions, names = [], []

    def add(name, lines):
        names.append(name)
        functions.extend(
            [f"// {name}", f"@Sendable private func guideExample{len(names)}() async throws {{",
             *(f"    {line}".rstrip().replace("LarderClient()", "client") for line in lines
               if not re.match(r"(@testable )?import ", line)), "}", ""])

    def follows(text):
        return "for try await" in text and '.snapshots(at: "search' in text

    for path in [ROOT / name for name in DOCUMENTS] + sorted((ROOT / CATALOG).rglob("*.md")):
        number = 0
        for block in fenced_blocks(path, path.read_text().splitlines(), 1):
            text = "\n".join(block.lines)
            # A test has no socket to connect to, and functions have no caller.
            if follows(text) and "withConnection" not in text and not re.search("^func ", text, re.MULTILINE):
                number += 1
                add(f"{path.relative_to(ROOT)}, example {number}",
                    # The signals of the process that runs the tests are not for the example.
                    [line.replace(" gracefulShutdownSignals: [.sigterm],", "") for line in block.lines
                     if line != "let client = LarderClient()"])
    for tutorial, step, blocks in tutorial_steps():
        lines = [line for block in blocks for line in block.lines]
        # The steps that change the service. The later ones run and test it.
        if follows("\n".join(blocks[-1].lines)):
            add(f"{tutorial.relative_to(ROOT)}, step {step}",
                [*lines, "let service = SearchService(client: client)",
                 "ExampleRun.current.output.observe { await service.settings.limit }", "try await service.run()"])
    return "\n".join(
        [f"// Generated by contrib/check-examples.py from the documents that it names. Do not edit.",
         "// swift-format-ignore-file", "", "import LarderServiceLifecycle", "import Logging", "import Synchronization", "", "private typealias Search = ExampleRun.Search",
         "private var client: LarderClient { ExampleRun.current.client }",
         "private var server: ExampleRun.Server { ExampleRun.current.server }",
         "private func print(_ text: String) { ExampleRun.current.output.add(text) }", "",
         "/// The examples, by the document and their number in it.", "let guideExamples: [GuideExample] = [",
         *(f'    GuideExample("{name}", guideExample{number}),' for number, name in enumerate(names, 1)), "]", "",
         *functions])


def packages():
    """Yields (name, files) for each package of contrib/examples: the files that import no module of NOT_BUILT."""
    for package in sorted((ROOT / "contrib/examples").glob("*/Package.swift")):
        files = []
        for path in sorted(package.parent.glob("Sources/**/*.swift")):
            absent = [module for module in NOT_BUILT if re.search(rf"^import {module}\b", path.read_text(), re.MULTILINE)]
            if absent:
                print(f"check-examples: {path.relative_to(ROOT)} is not checked: {', '.join(absent)} is not built")
            else:
                files.append(path)
        yield package.parent.name, files


class Toolchain:
    def __init__(self):
        modules = ROOT / ".build/debug/Modules"
        if not modules.is_dir():
            sys.exit(f"check-examples: {modules} does not exist; run `swift build` first")
        maps = [*ROOT.glob(".build/debug/*.build/module.modulemap"),
                *ROOT.glob(".build/checkouts/*/Sources/*/include/module.modulemap"),
                *ROOT.glob("Sources/*/module.modulemap")]
        self.search = ["-I", str(modules)]
        for module_map in maps:
            self.search += ["-Xcc", f"-fmodule-map-file={module_map}"]

    def check(self, files, has_modules=True):
        """Type-checks the files of a module, which can import those of Larder if `has_modules`.

        Returns the diagnostics that are errors."""
        plugins = pathlib.Path(run("swiftc", "-print-target-info", parse=json.loads)["paths"]["runtimeResourcePath"])
        result = subprocess.run(
            ["swiftc", "-typecheck", "-wmo", "-swift-version", "6", "-parse-as-library", "-module-name", "Examples",
             "-plugin-path", str(plugins / "host/plugins/testing"), *(self.search if has_modules else []), *map(str, files)],
            cwd=ROOT, capture_output=True, text=True)
        diagnostics = []
        for match in re.finditer(r"^(\S+?:\d+):\d+: (error|warning): (.*)$", result.stderr, re.MULTILINE):
            if match[2] == "error" or not UNUSED.search(match[3]):
                diagnostics.append(f"{match[1]}: {match[2]}: {match[3]}")
        if result.returncode != 0 and not diagnostics:
            diagnostics.append(result.stderr)
        return list(dict.fromkeys(diagnostics))

    def symbols(self, module):
        """Returns the public symbols that a module declares. `isWitness`: it implements a requirement of a protocol."""
        target = run("swiftc", "-print-target-info", parse=json.loads)["target"]["triple"]
        with tempfile.TemporaryDirectory() as graphs:
            run("swift", "symbolgraph-extract", "-module-name", module, "-target", target, *self.search,
                "-minimum-access-level", "public", "-skip-synthesized-members", "-output-dir", graphs)
            symbols, witnesses = [], set()
            for graph in sorted(pathlib.Path(graphs).glob("*.json")):
                contents = json.loads(graph.read_text())
                symbols += [symbol for symbol in contents["symbols"] if "location" in symbol]
                witnesses |= {link["source"] for link in contents["relationships"] if "sourceOrigin" in link}
        for symbol in symbols:
            symbol["isWitness"] = symbol["identifier"]["precise"] in witnesses
        return symbols


def run(*command, parse=str):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"check-examples: {' '.join(command[:2])} failed:\n{result.stderr}")
    return parse(result.stdout)


def symbol_faults(symbols):
    """Returns an error for each public symbol without documentation, and for each method, class and protocol, and each
    other type with methods, that has no example.

    A method is covered by an example of its own, or by one of its type that calls it. A nested type, an initializer and a
    property are covered by an example of the type. A symbol that implements a requirement of a protocol needs no example.
    """
    texts = {}  # the documentation of each type
    for symbol in symbols:
        texts.setdefault(".".join(symbol["pathComponents"]), text_of(symbol))
    methods = ("method", "type.method", "func")
    with_methods = {
        ".".join(symbol["pathComponents"][:-1]) for symbol in symbols
        if symbol["kind"]["identifier"].removeprefix("swift.") in methods and not symbol["isWitness"]
    }
    faults = []
    for symbol in symbols:
        components, kind = symbol["pathComponents"], symbol["kind"]["identifier"].removeprefix("swift.")
        name = ".".join(components)
        place = f"{relative(symbol['location']['uri'])}:{symbol['location']['position']['line'] + 1}"
        own = text_of(symbol)
        enclosing = [texts.get(".".join(components[:count]), "") for count in range(1, len(components))]
        if not own:
            faults.append(f"{place}: error: {name} has no documentation")
        elif "```swift" not in own and not symbol["isWitness"]:
            if kind in ("class", "protocol") or kind in ("struct", "enum") and name in with_methods:
                if not any("```swift" in text for text in enclosing):
                    faults.append(f"{place}: error: {name} has no example")
            elif kind in methods:
                method = re.match(r"[^(]*", components[-1])[0]
                calls = re.compile(rf"\b{re.escape(method)}\b *[({{]")
                if not any(calls.search(examples(text)) for text in enclosing):
                    faults.append(f"{place}: error: {name} has no example")
    return faults


def text_of(symbol):
    return "\n".join(line["text"] for line in symbol.get("docComment", {"lines": []})["lines"])


def examples(text):
    return "\n".join(line for block in fenced_blocks(None, text.splitlines(), 1) for line in block.lines)


def relative(uri):
    path = uri.removeprefix("file://")
    return path[path.rindex("/Sources/") + 1:] if "/Sources/" in path else path


def main():
    tests = ROOT / GUIDE_TESTS
    if sys.argv[1:] == ["--write"]:
        tests.write_text(guide_tests())
        return
    if sys.argv[1:]:
        sys.exit(f"check-examples: unknown argument {sys.argv[1]!r}; the only option is --write")
    toolchain = Toolchain()
    count = 0
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        files = [directory / "Prelude.swift"]
        files[0].write_text(PRELUDE)
        for number, (modules, blocks) in enumerate(documents()):
            if not blocks:
                continue
            count += len(blocks)
            files.append(directory / f"Document{number}.swift")
            files[-1].write_text(swift_file(modules, blocks, number))
        faults = toolchain.check(files)
    programs = list(packages())
    for name, sources in programs:
        faults += [f"{name}: {fault}" for fault in toolchain.check(sources)]
        if any("canImport(LarderClient)" in source.read_text() for source in sources):
            # The program on a system for which the package does not build the library.
            faults += [f"{name} without LarderClient: {fault}" for fault in toolchain.check(sources, has_modules=False)]

    if not tests.exists() or tests.read_text() != guide_tests():
        faults.append(f"{GUIDE_TESTS}: error: an example has changed; run contrib/check-examples.py --write")
    faults += manifest_faults()
    symbols = [symbol for module in DOCUMENTED for symbol in toolchain.symbols(module)]
    faults += symbol_faults(symbols)
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        sys.exit(f"check-examples: {len(faults)} errors")
    checked = sum(len(sources) for _, sources in programs)
    print(f"{count} examples and {checked} files of packages compile; {len(symbols)} public symbols are documented")


main()
