import Foundation
import LarderJSON

/// Validates with the Python package `jsonschema`, as another opinion.
enum PythonComparison {
    struct Pair {
        var schema: JSONValue
        var value: JSONValue
    }

    static let isAvailable: Bool = {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", "import jsonschema"]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()

    private static let program = """
        import json, sys
        import jsonschema
        classes = {True: jsonschema.Draft7Validator, False: jsonschema.Draft202012Validator}
        for line in open(sys.argv[1], encoding="utf-8"):
            schema, value = json.loads(line)
            draft7 = isinstance(schema, dict) and "draft-07" in schema.get("$schema", "")
            try:
                print(1 if classes[draft7](schema).is_valid(value) else 0)
            except Exception as error:
                print(type(error).__name__)
        """

    /// Returns for each pair whether Python accepts the value; nil if it reports an error.
    static func validate(_ pairs: [Pair]) throws -> [Bool?] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "larder-schemas-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let (input, output) = (folder.appending(path: "pairs"), folder.appending(path: "results"))
        let lines = pairs.map { "[\($0.schema.compactText),\($0.value.compactText)]\n" }.joined()
        try Data(lines.utf8).write(to: input)
        try Data().write(to: output)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", program, input.path]
        process.standardOutput = try FileHandle(forWritingTo: output)
        try process.run()
        process.waitUntilExit()
        let results = try String(contentsOf: output, encoding: .utf8).split(separator: "\n")
        return results.map { $0 == "1" ? true : $0 == "0" ? false : nil }
    }
}
