"""The JSON Schemas.

The generator refers to a schema by its place: a file name relative to schemas/ and a JSON Pointer, such as
common.json#/$defs/Time.
"""

import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "schemas"


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


class Schemas:
    """All schema files."""

    def __init__(self, folder=FOLDER):
        self.files = {str(path.relative_to(folder)): load(path) for path in sorted(folder.rglob("*.json"))}
        self.methods = [file for file in self.files if file.startswith("methods/")]

    def node(self, place):
        """The schema at a place."""
        file, _, pointer = place.partition("#")
        try:
            node = self.files[file]
            for step in pointer.split("/")[1:]:
                node = node[int(step)] if isinstance(node, list) else node[step]
        except (KeyError, IndexError):
            raise SystemExit(f"there is no schema at {place}") from None
        return node

    def target(self, place):
        """The target of the `$ref` at a place, or the place itself if it has none."""
        reference = self.node(place).get("$ref")
        if reference is None:
            return place
        file, _, pointer = reference.partition("#")
        return f"{file.removeprefix('../') or place.partition('#')[0]}#{pointer}"

    def resolved(self, place):
        """The place after all references are followed."""
        target = self.target(place)
        return place if target == place else self.resolved(target)

    def description(self, place):
        """The description of a schema, or that of its reference's target."""
        node = self.node(place)
        if "description" in node or "$ref" not in node:
            return node.get("description")
        return self.description(self.target(place))


def nullable(node):
    """Whether a schema allows null besides other values."""
    return "null" in node.get("type", []) or any(choice == {"type": "null"} for choice in node.get("anyOf", []))
