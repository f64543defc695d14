"""The protocol's methods and errors, from its OpenRPC document."""

import json

from mdoc import argument, display, literal, prose


class Protocol:
    """The OpenRPC document, and the parts of a page that are generated from it."""

    def __init__(self, path):
        document = json.loads(path.read_text(encoding="utf-8"))
        self.methods = document["methods"]
        self.schemas = document["components"]["schemas"]
        self.errors_by_name = document["components"]["errors"]

    def sections(self):
        """One section for each method."""
        return [line for method in self.methods for line in self.section(method)]

    def section(self, method):
        lines = [f".Ss {method['name']}", prose(f"{method['summary']} {method['description']}")]
        if "x-right" in method:
            lines += [f"Needs the right {literal(method['x-right'])}."]
        if method["params"]:
            lines += [".Pp", "Parameters:", ".Bl -tag -width Ds -compact"]
            for one in method["params"]:
                kind = self.kind(one["schema"]) + (", required" if one["required"] else "")
                about = one.get("description") or self.description(one["schema"])
                lines += [f".It Ic {argument(one['name'])} Pq {argument(kind)}", prose(about) if about else "\\&"]
            lines += [".El"]
        lines += [".Pp", *self.result(method["result"]["schema"])]
        errors = [error["$ref"].rsplit("/", 1)[1] for error in method["errors"]]
        if errors:
            lines += [".Pp", f"Errors: {prose(', '.join(errors))}."]
        if method["examples"]:
            lines += [".Pp", "Example:", *display(self.example(method))]
        return lines

    def result(self, schema):
        members = self.members(schema)
        if not members:
            return ["The result is " + prose(self.kind(schema)) + "."]
        lines = ["Result:", ".Bl -tag -width Ds -compact"]
        for name, member, required in members:
            kind = self.kind(member) + ("" if required else ", may be absent")
            about = member.get("description") or self.description(member)
            lines += [f".It Ic {argument(name)} Pq {argument(kind)}", prose(about) if about else "\\&"]
        return lines + [".El"]

    def members(self, schema):
        """The members of an object, and whether each is required."""
        schema = self.resolved(schema)
        choices = schema.get("oneOf") or schema.get("anyOf") or []
        if choices:
            # If there are several shapes, a member is required only if all shapes require it.
            shapes = [self.members(choice) for choice in choices]
            required = [{name for name, _, always in shape if always} for shape in shapes]
            named = {name: member for shape in shapes for name, member, _ in shape}
            return [(name, member, all(name in names for names in required)) for name, member in named.items()]
        required = schema.get("required", [])
        return [(name, member, name in required) for name, member in schema.get("properties", {}).items()]

    def resolved(self, schema):
        reference = schema.get("$ref")
        return self.resolved(self.schemas[reference.rsplit("/", 1)[1]]) if reference else schema

    def description(self, schema):
        return self.resolved(schema).get("description")

    def kind(self, schema):
        """The type of a value, in a few words."""
        schema = self.resolved(schema)
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            return " or ".join(json.dumps(word) for word in schema["enum"])
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices:
            kinds = list(dict.fromkeys(self.kind(choice) for choice in choices))
            return " or ".join(kinds)
        kind = schema.get("type", "any value")
        kinds = kind if isinstance(kind, list) else [kind]
        if kinds == ["array"] and "items" in schema:
            return f"array of {self.kind(schema['items'])}"
        text = " or ".join(kinds)
        low, high = schema.get("minimum"), schema.get("maximum")
        # A maximum of 2^53 - 1 is omitted, because it is only the limit of exact integers in JSON.
        if low is not None and high is not None and high < 2**53 - 1:
            text += f" from {low} to {high}"
        return text

    @staticmethod
    def example(method):
        example = method["examples"][0]
        request = {"id": 1, "method": method["name"]}
        params = {one["name"]: one["value"] for one in example["params"]}
        if params:
            request["params"] = params
        reply = {"jsonrpc": "2.0", "id": 1, "result": example["result"]["value"]}
        return [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in (request, reply)]

    def errors(self):
        """The errors by name, with code, whether a retry may succeed, and description."""
        lines = [".Bl -tag -width Ds -compact"]
        for name, error in self.errors_by_name.items():
            again = "may succeed later" if error["data"]["retryable"] else "will not succeed later"
            lines += [
                f".It Er {argument(name)} Pq {argument(str(error['code']) + ', ' + again)}",
                prose(error["data"]["detail"]),
            ]
        return lines + [".El"]
