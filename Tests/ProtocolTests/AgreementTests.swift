import Foundation
import Testing

/// The specification exists as text, as an OpenRPC document, as schemas and as transcripts; these tests keep them saying
/// the same.
@Suite("The forms of the specification agree")
struct AgreementTests {
    @Test("the OpenRPC document, the tables of the text and the Swift types are what the schemas make them")
    func generatedFilesAreCurrent() async throws {
        let run = try await Script.run("python3", ["Protocol/generate.py", "--check"])
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("the schemas, their examples and those of the text are valid")
    func examplesAreValid() async throws {
        let hasValidator = try await Script.run("/usr/bin/python3", ["-c", "import jsonschema"]).status == 0
        try #require(hasValidator, "needs the package python3-jsonschema")
        let run = try await Script.run(
            "/usr/bin/python3", ["contrib/validate-messages.py", "--schemas", "Protocol/README.md"])
        #expect(run.status == 0, "\(run.output)")
    }

    @Test("the text, the OpenRPC document and the schemas name the same methods, and the transcripts use them all")
    func methodsAgree() throws {
        let inSchemas = Set(try Repository.names(in: "schemas/methods", extension: "json"))
        let inText = try Specification.methods()
        #expect(Set(inText.map(\.name)) == inSchemas)
        #expect(Set(try Document.methods().map(\.name)) == inSchemas)
        #expect(inText.count == inSchemas.count, "a method is described twice")
        var unused = inSchemas
        for name in try Repository.names(in: "transcripts", extension: "jsonl") {
            let text = try Repository.text("transcripts/\(name).jsonl")
            unused = unused.filter { !text.contains("\"method\":\"\($0)\"") }
        }
        #expect(unused.isEmpty)
    }

    @Test("the text and the OpenRPC document give each method the same parameters in the same order")
    func parametersAgree() throws {
        let inDocument = try Document.methods()
        for method in try Specification.methods() {
            let other = try #require(inDocument.first { $0.name == method.name })
            #expect(method.parameters == other.parameters, "\(method.name)")
        }
    }

    @Test("the table of rights, the section of each method and the OpenRPC document agree on what its caller needs")
    func rightsAgree() throws {
        let inTable = try Specification.rights()
        let inDocument = try Document.rights()
        #expect(Set(inTable.keys) == Set(inDocument.keys))
        for (method, right) in inDocument {
            let rights = try #require(inTable[method])
            #expect(rights.contains(right ?? "none"), "\(method)")
            // Only what is asked for by force needs another one.
            #expect(rights.count == 1 || ["config.refresh", "image.put"].contains(method), "\(method)")
            let section = try Repository.text("README.md").components(separatedBy: "\n### \(method)\n\n")
            try #require(section.count == 2)
            let sentence = right.map { "Needs the right `\($0)`" }
            #expect(section[1].hasPrefix(sentence ?? "Needs") == (sentence != nil), "\(method)")
        }
    }

    @Test("the text, the OpenRPC document and the schemas have the same errors, and the transcripts know no others")
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

/// A method as one form of the specification has it.
struct MethodOutline: Equatable {
    /// A parameter's name and whether it has to be there.
    struct Parameter: Hashable {
        var name: String
        var isRequired: Bool
    }

    var name: String
    var parameters: [Parameter]
}

/// A row of the error table.
struct ErrorOutline: Hashable {
    var code: Int
    var name: String
    var message: String
    var isRetryable: Bool
}

/// What `Protocol/README.md` says.
enum Specification {
    /// The headings of the section on methods, each with the rows of its table of parameters.
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

    /// The table of rights: of each method, the rows that name it.
    static func rights() throws -> [String: Set<String>] {
        let text = try Repository.text("README.md")
        let start = try #require(text.range(of: "\n| right | what needs it |\n| --- | --- |\n"))
        var rights: [String: Set<String>] = [:]
        for row in text[start.upperBound...].components(separatedBy: "\n").prefix(while: { $0.hasPrefix("|") }) {
            let cells = row.split(separator: "|")
            let right = cells[0].filter(\.isLetter)
            for match in cells[1].matches(of: /`([a-z]+\.[a-zA-Z]+)`/) {
                rights[String(match.1), default: []].insert(String(right))
            }
        }
        return rights
    }

    /// The rows of the error table.
    static func errors() throws -> Set<ErrorOutline> {
        let rows = try Repository.text("README.md").matches(of: /\n\| (-?\d+) \| `(\w+)` \| ([^|]+) \| (yes|no) \|/)
        let errors = try rows.map { row in
            ErrorOutline(
                code: try #require(Int(row.1)),
                name: String(row.2),
                message: String(row.3),
                isRetryable: row.4 == "yes")
        }
        #expect(Set(errors).count == errors.count, "an error has two rows")
        return Set(errors)
    }
}

/// What `Protocol/openrpc.json` says.
enum Document {
    /// The right that each method's caller needs, nil for none.
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
