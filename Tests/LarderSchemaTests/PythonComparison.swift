import LarderJSON
import TestSupport
import Testing

extension Trait where Self == ConditionTrait {
    static var needsPythonSchemas: Self {
        .enabled(if: PythonComparison.isAvailable, "needs the package python3-jsonschema")
    }
}

/// Validates with the Python package `jsonschema`, as a reference for the results of `LarderSchema`.
enum PythonComparison {
    struct Pair {
        var schema: JSONValue
        var value: JSONValue
    }

    static let isAvailable = (try? Command.run("python3", ["-c", "import jsonschema"]))?.status == 0

    private static let program = """
        import json, sys
        import jsonschema
        classes = {True: jsonschema.Draft7Validator, False: jsonschema.Draft202012Validator}
        for line in sys.stdin.buffer.read().decode().split("\\n")[:-1]:
            schema, value = json.loads(line)
            draft7 = isinstance(schema, dict) and "draft-07" in schema.get("$schema", "")
            try:
                print(1 if classes[draft7](schema).is_valid(value) else 0)
            except Exception as error:
                print(type(error).__name__)
        """

    /// Returns for each pair whether Python accepts the value; nil for a pair for which Python reports an error.
    static func validate(_ pairs: [Pair]) throws -> [Bool?] {
        let lines = pairs.map { "[\($0.schema.compactText),\($0.value.compactText)]\n" }.joined()
        let results = try Command.run("python3", ["-c", program], input: lines, until: .after(.seconds(600))).output
        return results.map { $0 == "1" ? true : $0 == "0" ? false : nil }
    }
}
