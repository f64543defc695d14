import Foundation
import LarderJSON
import LarderSchema
import TestSupport
import Testing

@Suite("Comparison with Python", .needsPythonSchemas)
struct PythonComparisonTests {
    /// The number of random pairs of a schema and a value. contrib/fuzz/README.md sets the variable.
    private static let count =
        ProcessInfo.processInfo.environment["LARDER_SCHEMA_PAIRS"].flatMap { Int($0) } ?? 1_000

    @Test("Python's jsonschema accepts and rejects the same random values", arguments: [false, true])
    func random(isDraft7: Bool) throws {
        let seed = SeededGenerator.randomSeed
        var random = RandomSchema(seed: seed, isDraft7: isDraft7)
        // Version 4.10 of jsonschema, which Debian 12 has, does not implement `unevaluated…` completely.
        random.usesUnevaluated = false
        let valuesPerSchema = 10
        for _ in 0..<max(1, Self.count / 10_000) {
            var pairs: [PythonComparison.Pair] = []
            for _ in 0..<min(Self.count, 10_000) / valuesPerSchema {
                let schema = random.document()
                for _ in 0..<valuesPerSchema { pairs.append(.init(schema: schema, value: random.value())) }
            }
            let expected = try PythonComparison.validate(pairs)
            try #require(expected.count == pairs.count)
            var (accepted, unknown) = (0, 0)
            for (pair, expectation) in zip(pairs, expected) {
                let schema = try JSONSchema(pair.schema)
                let isValid = schema.isValid(pair.value)
                accepted += isValid ? 1 : 0
                #expect(schema.validate(pair.value).isEmpty == isValid)
                guard let expectation else {
                    // Version 4.10 of jsonschema reports an error for `additionalItems` if `items` is a boolean.
                    unknown += 1
                    continue
                }
                #expect(
                    isValid == expectation, "\(pair.schema.compactText)  \(pair.value.compactText), seed \(seed)")
            }
            #expect(accepted > pairs.count / 20)
            #expect(unknown <= 20)
        }
    }
}
