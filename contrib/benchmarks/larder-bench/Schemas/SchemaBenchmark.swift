import ArgumentParser
import Foundation
import LarderJSON
import LarderSchema

/// `larder-bench schema`: the time to validate a parsed document.
struct SchemaBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schema", abstract: "Validate a document with a JSON Schema.",
        discussion: """
            Prints the time of each validation in microseconds, one per line. The document must be valid. \
            contrib/benchmarks/schemas/compare.py alternates with other validators.
            """)

    @Option(help: "The file of the schema.")
    var schema: String

    @Option(help: "The file of the document.")
    var document: String

    @Option(help: "The number of validations.")
    var validations = 5

    mutating func validate() throws {
        guard validations >= 1 else { throw ValidationError("--validations must be at least 1.") }
    }

    mutating func run() throws {
        let schema = try JSONSchema(JSONValue(parsing: Array(Data(contentsOf: URL(fileURLWithPath: schema)))))
        let document = try JSONValue(parsing: Array(Data(contentsOf: URL(fileURLWithPath: self.document))))
        if let violation = schema.validate(document, maxErrors: 1).first {
            throw BenchError("the document is invalid: \(violation)")
        }
        for _ in 0..<validations {
            let started = MonotonicClock.nanoseconds()
            guard schema.isValid(document) else { throw BenchError("the document became invalid") }
            print(Double(MonotonicClock.nanoseconds() &- started) / 1000)
        }
    }
}
