import Foundation
import Testing

/// Checks that the parts of the specification agree: the text (`Protocol/README.md`), the OpenRPC document, the schemas
/// and the transcripts.
@Suite("Consistency of the specification")
struct AgreementTests {
    @Test("the OpenRPC document, and the generated parts of the text and of the Swift code, match the schemas")
    func generatedFilesAreCurrent() async throws {
        let run = try await Script.run("python3", ["Protocol/generate.py", "--check"])
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("the schemas are valid, and the examples in the schemas and the texts match the schemas")
    func examplesAreValid() async throws {
        let hasValidator = try await Script.run("/usr/bin/python3", ["-c", "import jsonschema"]).status == 0
        try #require(hasValidator, "needs the package python3-jsonschema")
        let run = try await Script.run(
            "/usr/bin/python3",
            ["contrib/validate-messages.py", "--schemas", "Protocol/README.md", "Protocol/core.md"])
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("text, OpenRPC document and schemas have the same methods, and the transcripts call all of them")
    func methodsAgree() throws {
        let inSchemas = Set(try Repository.names(in: "schemas/methods", extension: "json"))
        let inText = try Specification.methods()
        #expect(Set(inText.map(\.name)) == inSchemas)
        #expect(Set(try Document.methods().map(\.name)) == inSchemas)
        #expect(inText.count == inSchemas.count, "the text describes a method more than once")
        var unused = inSchemas
        for name in try Repository.names(in: "transcripts", extension: "jsonl") {
            let text = try Repository.text("transcripts/\(name).jsonl")
            unused = unused.filter { !text.contains("\"method\":\"\($0)\"") }
        }
        #expect(unused.isEmpty)
    }

    @Test("text and OpenRPC document list the same parameters of each method in the same order")
    func parametersAgree() throws {
        let inDocument = try Document.methods()
        for method in try Specification.methods() {
            let other = try #require(inDocument.first { $0.name == method.name })
            #expect(method.parameters == other.parameters, "\(method.name)")
        }
    }

    @Test("the table of rights, the method sections and the OpenRPC document agree on the right for each method")
    func rightsAgree() throws {
        let inTable = try Specification.rights()
        let inDocument = try Document.rights()
        #expect(Set(inTable.keys) == Set(inDocument.keys))
        for (method, right) in inDocument {
            let rights = try #require(inTable[method])
            #expect(rights.contains(right ?? "none"), "\(method)")
            // Only these methods have more than one row in the table: `config.refresh` needs another right for `force`,
            // `image.put` needs two rights, and for the last two another right suffices.
            let several = ["config.refresh", "image.put", "agent.stats", "config.status"]
            #expect(rights.count == 1 || several.contains(method), "\(method)")
            let section = try Repository.text("README.md").components(separatedBy: "\n### \(method)\n\n")
            try #require(section.count == 2)
            let sentence = section[1].prefix { $0 != "\n" }
            #expect(sentence.hasPrefix("Needs the right") == (right != nil), "\(method)")
            if let right { #expect(sentence.contains("`\(right)`"), "\(method)") }
        }
    }

    @Test("text, OpenRPC document and schemas have the same errors, and the transcripts contain no other errors")
    func errorsAgree() throws {
        let inText = try Specification.errors()
        #expect(inText == (try Document.errors()))
        let definitions = try #require(try Repository.json("schemas/error.json")["$defs"] as? [String: Any])
        #expect(Set(definitions.keys) == Set(inText.map(\.name)))
        for name in try Repository.names(in: "transcripts", extension: "jsonl") {
            for match in try Repository.text("transcripts/\(name).jsonl").matches(of: /"\$error":"(\w+)"/) {
                #expect(definitions[String(match.1)] != nil, "\(name)")
            }
        }
    }
}

/// A method as one part of the specification describes it.
struct MethodOutline: Equatable {
    struct Parameter: Hashable {
        var name: String
        var isRequired: Bool
    }

    var name: String
    var parameters: [Parameter]
}

/// An error as one part of the specification describes it.
struct ErrorOutline: Hashable {
    var code: Int
    var name: String
    var message: String
    var isRetryable: Bool
}

/// The methods, rights and errors in `Protocol/README.md`.
enum Specification {
    /// Returns the methods that section 9 describes, each with the parameters in the table of the method.
    static func methods() throws -> [MethodOutline] {
        let text = try Repository.text("README.md")
        let start = try #require(text.range(of: "\n## 9. Methods\n"))
        let end = try #require(text.range(of: "\n## ", range: start.upperBound..<text.endIndex))
        return text[start.upperBound..<end.lowerBound].components(separatedBy: "\n### ").dropFirst().map { section in
            let lines = section.components(separatedBy: "\n")
            let table = lines.drop { !$0.hasPrefix("| parameter |") }.dropFirst(2).prefix { $0.hasPrefix("|") }
            return MethodOutline(
                name: lines[0],
                parameters: table.compactMap { row in
                    row.prefixMatch(of: /\| `(\w+)`( \?)? \|/).map { match in
                        MethodOutline.Parameter(name: String(match.1), isRequired: match.2 == nil)
                    }
                })
        }
    }

    /// Returns the rights that each method needs: those whose row in the table of rights names the method.
    static func rights() throws -> [String: Set<String>] {
        let text = try Repository.text("README.md")
        let start = try #require(text.range(of: "\n| right | needed for |\n| --- | --- |\n"))
        var rights: [String: Set<String>] = [:]
        for row in text[start.upperBound...].components(separatedBy: "\n").prefix(while: { $0.hasPrefix("|") }) {
            let cells = row.split(separator: "|")
            let right = cells[0].filter(\.isLetter)
            for match in cells[1].matches(of: /`((?:agent|config|flag|image|request|rpc)\.[a-zA-Z]+)`/) {
                rights[String(match.1), default: []].insert(String(right))
            }
        }
        return rights
    }

    /// Returns the errors in the error table.
    static func errors() throws -> Set<ErrorOutline> {
        let rows = try Repository.text("README.md").matches(of: /\n\| (-?\d+) \| `(\w+)` \| ([^|]+) \| (yes|no) \|/)
        let errors = try rows.map { row in
            ErrorOutline(
                code: try #require(Int(row.1)),
                name: String(row.2),
                message: String(row.3),
                isRetryable: row.4 == "yes")
        }
        #expect(Set(errors).count == errors.count, "an error has more than one row")
        return Set(errors)
    }
}

/// The methods, rights and errors in `Protocol/openrpc.json`.
enum Document {
    /// Returns the right that each method needs; nil if it needs none.
    static func rights() throws -> [String: String?] {
        let methods = try #require(try Repository.json("openrpc.json")["methods"] as? [[String: Any]])
        var rights: [String: String?] = [:]
        for method in methods {
            rights.updateValue(method["x-right"] as? String, forKey: try #require(method["name"] as? String))
        }
        return rights
    }

    static func methods() throws -> [MethodOutline] {
        let methods = try #require(try Repository.json("openrpc.json")["methods"] as? [[String: Any]])
        return try methods.map { method in
            let parameters = try #require(method["params"] as? [[String: Any]])
            return MethodOutline(
                name: try #require(method["name"] as? String),
                parameters: try parameters.map { parameter in
                    MethodOutline.Parameter(
                        name: try #require(parameter["name"] as? String),
                        isRequired: try #require(parameter["required"] as? Bool))
                })
        }
    }

    static func errors() throws -> Set<ErrorOutline> {
        let components = try #require(try Repository.json("openrpc.json")["components"] as? [String: Any])
        let errors = try #require(components["errors"] as? [String: [String: Any]])
        return Set(
            try errors.map { name, error in
                let data = try #require(error["data"] as? [String: Any])
                #expect(data["name"] as? String == name)
                return ErrorOutline(
                    code: try #require(error["code"] as? Int), name: name,
                    message: try #require(error["message"] as? String),
                    isRetryable: try #require(data["retryable"] as? Bool))
            })
    }
}
