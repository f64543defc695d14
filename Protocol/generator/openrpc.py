"""The OpenRPC document, which is the result of rpc.discover, from the JSON Schemas.

Each file in schemas/methods describes a method: its name (title), its parameters in positional order ($defs/params), its
result ($defs/result), its errors (x-errors, names from error.json), the right that its caller needs, if any (x-right), and
examples. The conditions on the right (x-scope, x-right-if, x-right-also, x-right-or) are only used for the generated code.
"""

import json
import pathlib
import sys

from .schemas import FOLDER as SCHEMAS, load

OUTPUT = SCHEMAS.parent / "openrpc.json"
WIDTH = 110


def pretty(value, indent=0, column=0):
    """JSON, indented by two spaces. Values that fit on one line are not broken."""
    flat = json.dumps(value, ensure_ascii=False)
    if column + len(flat) <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        keys = [inner + json.dumps(name, ensure_ascii=False) + ": " for name in value]
        parts = [key + pretty(member, indent + 2, len(key)) for key, member in zip(keys, value.values())]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    parts = [inner + pretty(element, indent + 2, indent + 2) for element in value]
    return "[\n" + ",\n".join(parts) + "\n" + " " * indent + "]"


def component(reference):
    """The name of the component for a reference between schema files: Time for common.json#/$defs/Time."""
    file, _, pointer = reference.partition("#")
    if pointer:
        return pointer.rsplit("/", 1)[1]
    return {"error.json": "Error"}[pathlib.PurePosixPath(file).name]


def rewritten(schema):
    """The schema with all references changed to components/schemas."""
    if isinstance(schema, list):
        return [rewritten(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: "#/components/schemas/" + component(member)
        if name == "$ref" and isinstance(member, str)
        else rewritten(member)
        for name, member in schema.items()
        if name not in ("$schema", "$defs")
    }


def method_object(file):
    source = load(file)
    name = source["title"]
    if name != file.name[: -len(".json")]:
        sys.exit(f"{file}: the title is {name}, but it must match the file name")
    params = source["$defs"]["params"]
    required = params.get("required", [])
    method = {"name": name, "summary": source["summary"], "description": source["description"]}
    method["paramStructure"] = "either"
    method["params"] = []
    for parameter, schema in params["properties"].items():
        descriptor = {"name": parameter}
        if "description" in schema:
            descriptor["description"] = schema["description"]
        descriptor["required"] = parameter in required
        descriptor["schema"] = rewritten({key: value for key, value in schema.items() if key != "description"})
        method["params"].append(descriptor)
    method["result"] = {"name": "result", "schema": rewritten(source["$defs"]["result"])}
    errors = source["x-errors"] + ["invalidParams"]
    if "x-right" in source:
        method["x-right"] = source["x-right"]
        errors.append("denied")
    method["errors"] = [{"$ref": "#/components/errors/" + error} for error in errors]
    method["examples"] = [
        {
            "name": name if index == 0 else f"{name} {index + 1}",
            "params": [{"name": key, "value": value} for key, value in example["params"].items()],
            "result": {"name": "result", "value": example["result"]},
        }
        for index, example in enumerate(source.get("examples", []))
    ]
    return method


def document():
    error, event, progress = (load(SCHEMAS / f"{name}.json") for name in ("error", "event", "progress"))
    schemas = dict(load(SCHEMAS / "common.json")["$defs"])
    schemas["Error"] = {
        "description": error["description"],
        "type": "object",
        "required": ["code", "message", "data"],
        "properties": {
            "code": {"type": "integer"},
            "message": {"type": "string"},
            "data": {
                "type": "object",
                "required": ["name", "retryable", "detail"],
                "properties": {
                    "name": {"$ref": "common.json#/$defs/ErrorName"},
                    "retryable": {"type": "boolean"},
                    "detail": {"type": "string"},
                    "reason": {"$ref": "common.json#/$defs/ErrorName"},
                    "right": {"$ref": "common.json#/$defs/Right"},
                    "namespace": {"$ref": "common.json#/$defs/Namespace"},
                },
            },
        },
    }
    schemas["Event"] = {key: value for key, value in event.items() if key not in ("title", "$defs")}
    schemas.update(event["$defs"])
    schemas["Progress"] = {key: value for key, value in progress.items() if key not in ("title", "$defs")}
    schemas.update(progress["$defs"])
    errors = {}
    for name, schema in error["$defs"].items():
        data = schema["properties"]["data"]["properties"]
        errors[name] = {
            "code": schema["properties"]["code"]["const"],
            "message": schema["properties"]["message"]["const"],
            "data": {"name": name, "retryable": data["retryable"]["const"], "detail": schema["description"]},
        }
    return {
        "openrpc": "1.3.2",
        "info": {
            "title": "Larder",
            "description": "The protocol of the local configuration agent: JSON-RPC 2.0, one message per line, over a "
            "Unix domain socket. Events and progress are notifications from the agent: see Event and Progress in "
            "components/schemas.",
            "version": "1.0.0",
            "license": {"name": "Apache-2.0"},
        },
        "methods": [method_object(file) for file in sorted((SCHEMAS / "methods").glob("*.json"))],
        "components": {"schemas": {name: rewritten(schema) for name, schema in schemas.items()}, "errors": errors},
    }


# The members that OpenRPC 1.3 allows in each object that this document uses, and whether they are required.
SHAPES = {
    "document": {"openrpc": True, "info": True, "methods": True, "components": False},
    "info": {"title": True, "version": True, "description": False, "license": False},
    "method": {
        "name": True,
        "params": True,
        "result": False,
        "summary": False,
        "description": False,
        "paramStructure": False,
        "errors": False,
        "examples": False,
        "x-right": False,
    },
    "descriptor": {"name": True, "schema": True, "description": False, "required": False},
    "error": {"code": True, "message": True, "data": False},
    "pairing": {"name": True, "params": True, "result": False},
    "example": {"name": True, "value": True},
    "components": {"schemas": False, "errors": False},
}


def problems(openrpc):
    """Return violations of the document's shape, references and uniqueness rules."""
    found = []

    def shape(kind, value, where):
        allowed = SHAPES[kind]
        found.extend(f"{where}: {name} is not allowed in an OpenRPC {kind}" for name in value if name not in allowed)
        found.extend(f"{where}: {name} is missing" for name, needed in allowed.items() if needed and name not in value)

    def references(value, where):
        if isinstance(value, list):
            for index, element in enumerate(value):
                references(element, f"{where}/{index}")
        elif isinstance(value, dict):
            target = value.get("$ref")
            if isinstance(target, str):
                node = openrpc
                for step in target.removeprefix("#/").split("/"):
                    node = node.get(step) if isinstance(node, dict) else None
                if node is None or not target.startswith("#/"):
                    found.append(f"{where}: {target} does not exist")
            for name, member in value.items():
                references(member, f"{where}/{name}")

    shape("document", openrpc, "document")
    shape("info", openrpc["info"], "info")
    shape("components", openrpc["components"], "components")
    for name, error in openrpc["components"]["errors"].items():
        shape("error", error, f"error {name}")
    names = [method["name"] for method in openrpc["methods"]]
    found.extend(f"method {name} occurs twice" for name in sorted(set(names)) if names.count(name) > 1)
    for method in openrpc["methods"]:
        where = f"method {method['name']}"
        shape("method", method, where)
        parameters = [parameter["name"] for parameter in method["params"]]
        needed = [parameter["required"] for parameter in method["params"]]
        if len(set(parameters)) != len(parameters):
            found.append(f"{where}: a parameter occurs twice")
        if needed != sorted(needed, reverse=True):
            found.append(f"{where}: a required parameter follows an optional one")
        for descriptor in [*method["params"], method["result"]]:
            shape("descriptor", descriptor, f"{where}, {descriptor['name']}")
        errors = [error["$ref"].rsplit("/", 1)[1] for error in method["errors"]]
        codes = [openrpc["components"]["errors"].get(error, {}).get("code") for error in errors]
        if len(set(codes)) != len(codes):
            found.append(f"{where}: an error code occurs twice")
        for pairing in method["examples"]:
            shape("pairing", pairing, f"{where}, example")
            for example in [*pairing["params"], pairing["result"]]:
                shape("example", example, f"{where}, example {example['name']}")
    references(openrpc, "")
    return found


def text():
    """Return the text of openrpc.json, and its problems."""
    openrpc = document()
    return pretty(openrpc) + "\n", problems(openrpc)
