#!/usr/bin/env python3
"""Lists the public symbols of the library products, from the modules that `swift build` built.

  contrib/public-api.py            write the list, contrib/public-api.txt
  contrib/public-api.py --check    write nothing; fail if the list is out of date, and print the difference

  --build DIR      the build directory; by default .build
  --modules DIR    a directory whose modules are used in preference to those of the build directory

A program that imports a product can use its public symbols, so each of them must stay. The list shows in a review which symbols
a change adds, changes or removes. It has one line for each symbol: its declaration, after the name of the type that contains it.
The line of a type also has the protocols that it conforms to. Symbols that the compiler adds, such as `!=`, are not listed.
"""
import argparse
import difflib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "contrib" / "public-api.txt"
# The modules of the library products, and LarderJSON, which LarderClientCore re-exports.
MODULES = [
    "LarderJSON", "LarderClientCore", "LarderClient", "LarderFlags", "LarderServiceLifecycle", "LarderTesting", "ConfigurationLarder",
]
# Protocols to which every type conforms, or which follow from others.
IMPLIED = {"Copyable", "Escapable", "SendableMetatype", "BitwiseCopyable"}
TYPES = {"swift.struct", "swift.class", "swift.enum", "swift.protocol", "swift.actor"}


def run(*command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"public-api: {' '.join(command[:2])} failed:\n{result.stderr}")
    return result.stdout


def search_options(build, modules):
    built = build / "debug" / "Modules"
    if not built.is_dir():
        sys.exit(f"public-api: {built} does not exist; run `swift build` first")
    options = [word for directory in [*modules, built] for word in ("-I", str(directory))]
    maps = [*build.glob("debug/*.build/module.modulemap"), *build.glob("checkouts/*/Sources/*/include/module.modulemap"),
            *ROOT.glob("Sources/*/module.modulemap")]
    for module_map in maps:
        options += ["-Xcc", f"-fmodule-map-file={module_map}"]
    target = json.loads(run("swiftc", "-print-target-info"))["target"]["triple"]
    return ["-target", target, *options]


def has_own_setter(location):
    """Whether the setter at a location has an access level of its own, which symbol graphs do not show."""
    path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(location["uri"]).path))
    text = path.read_text(encoding="utf-8").splitlines()[location["position"]["line"]]
    return re.search(r"\b(private|fileprivate|internal|package)\(set\)", text) is not None


def lines(module, options):
    """Returns a line for each public symbol that a module declares."""
    with tempfile.TemporaryDirectory() as graphs:
        run("swift", "symbolgraph-extract", "-module-name", module, *options, "-minimum-access-level", "public",
            "-skip-synthesized-members", "-output-dir", graphs)
        contents = [json.loads(path.read_text()) for path in sorted(pathlib.Path(graphs).glob("*.json"))]
    conformances = {}
    for graph in contents:
        for link in graph["relationships"]:
            if link["kind"] in ("conformsTo", "inheritsFrom"):
                name = link["targetFallback"].rpartition(".")[2] if "targetFallback" in link else None
                conformances.setdefault(link["source"], set()).add(name or link["target"])
    symbols = [symbol for graph in contents for symbol in graph["symbols"] if "location" in symbol]
    names = {symbol["identifier"]["precise"]: ".".join(symbol["pathComponents"]) for symbol in symbols}
    found = set()
    for symbol in symbols:
        declaration = " ".join("".join(part["spelling"] for part in symbol["declarationFragments"]).split())
        if declaration.endswith("{ get set }") and has_own_setter(symbol["location"]):
            declaration = declaration.removesuffix("{ get set }") + "{ get }"
        *outer, _ = symbol["pathComponents"]
        protocols = {names.get(one, one) for one in conformances.get(symbol["identifier"]["precise"], ())} - IMPLIED
        if symbol["kind"]["identifier"] in TYPES and protocols:
            declaration += ": " + ", ".join(sorted(protocols))
        found.add(f"{'.'.join([module, *outer])}: {declaration}")
    return sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / ".build", help="the build directory")
    parser.add_argument("--modules", type=pathlib.Path, action="append", default=[], help="a preferred directory of modules")
    arguments = parser.parse_args()

    options = search_options(arguments.build, arguments.modules)
    text = "".join(line + "\n" for module in MODULES for line in lines(module, options))
    if not arguments.check:
        LIST.write_text(text, encoding="utf-8")
        return 0
    old = LIST.read_text(encoding="utf-8") if LIST.exists() else ""
    if old == text:
        return 0
    name = str(LIST.relative_to(ROOT))
    sys.stderr.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), name, "the modules", n=0))
    print("public-api: the public symbols have changed; if that is intended, run contrib/public-api.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
