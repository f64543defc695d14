import Foundation
import LarderJSON
import LarderSchema

/// The official test suite of JSON Schema (github.com/json-schema-org/JSON-Schema-Test-Suite). Its tests run only if
/// `LARDER_SUITES` names a folder that contains the suite in the subfolder `json-schema`.
enum OfficialSuite {
    struct Case: Sendable, CustomStringConvertible {
        /// The path of the file in the tests of the draft, without extension, such as `optional/format/date`.
        var file: String
        var group: String
        var test: String
        var schema: JSONValue
        var data: JSONValue
        var isValid: Bool

        var description: String { "\(file): \(group): \(test)" }
    }

    static let folder: URL? = {
        guard let suites = ProcessInfo.processInfo.environment["LARDER_SUITES"], !suites.isEmpty else { return nil }
        let folder = URL(filePath: suites).appending(path: "json-schema")
        return FileManager.default.fileExists(atPath: folder.path) ? folder : nil
    }()

    /// The cases for draft 2020-12 in the files of a folder, without those in its subfolders.
    static func cases(in subfolder: String) throws -> [Case] {
        guard let folder = folder?.appending(path: "tests/draft2020-12").appending(path: subfolder) else { return [] }
        var cases: [Case] = []
        for file in try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        where file.hasSuffix(".json") {
            let groups = try JSONValue(parsing: Array(Data(contentsOf: folder.appending(path: file))))
            for group in groups.elements {
                for test in group["tests"]?.elements ?? JSONValue.null.elements {
                    guard let schema = group["schema"], let data = test["data"] else { continue }
                    let name = subfolder.isEmpty ? "" : subfolder + "/"
                    cases.append(
                        Case(
                            file: name + file.dropLast(5), group: group["description"]?.string ?? "",
                            test: test["description"]?.string ?? "", schema: schema, data: data,
                            isValid: test["valid"]?.bool ?? false))
                }
            }
        }
        return cases
    }

    /// Loads one of the documents that the suite expects at `http://localhost:1234/` from its folder `remotes`.
    static func load(_ uri: String) -> JSONValue? {
        let prefix = "http://localhost:1234/"
        guard uri.hasPrefix(prefix), let folder,
            let data = try? Data(contentsOf: folder.appending(path: "remotes/" + uri.dropFirst(prefix.count)))
        else { return nil }
        return try? JSONValue(parsing: Array(data))
    }

    /// Why a case fails; nil if it passes.
    static func failure(_ testCase: Case, assertFormats: Bool) -> String? {
        do {
            let schema = try JSONSchema(testCase.schema, assertsFormats: assertFormats ? true : nil, loading: load)
            let violations = schema.validate(testCase.data)
            if schema.isValid(testCase.data) != violations.isEmpty { return "isValid and validate disagree" }
            if violations.isEmpty == testCase.isValid { return nil }
            return violations.isEmpty ? "accepted" : "rejected: \(violations[0])"
        } catch {
            return "schema error: \(error)"
        }
    }
}
