import Glibc
import LarderFlagRules
import LarderJSON

/// Evaluates the cases that `compare.py` writes to standard input, one JSON object per line, and prints the outcomes. With
/// the argument `--benchmark`, measures the time of evaluations instead.
@main
enum Program {
    static func main() {
        if CommandLine.arguments.contains("--benchmark") { return benchmark() }
        while let line = readLine() {
            guard let fields = try? JSONValue(parsing: line, maximumDepth: 10_000), let document = fields["document"]
            else { fatalError("not JSON: \(line)") }
            let outcome = FlagSet(document).evaluate(
                fields["flag"]?.string ?? "", type: fields["type"]?.string.flatMap { FlagValueType(rawValue: $0) },
                context: FlagContext(fields["context"] ?? .emptyObject), now: Int64(fields["now"]?.int ?? 0))
            let result: JSONValue = [
                "reason": .string(outcome.reason.rawValue), "variant": outcome.variant.map { .string($0) } ?? .null,
                "value": outcome.value ?? .null, "error": outcome.errorCode.map { .string($0.rawValue) } ?? .null,
                "message": outcome.errorMessage.map { .string($0) } ?? .null, "metadata": outcome.metadata,
            ]
            print(result.compactText)
        }
    }

    static let rules = [
        (
            "three comparisons",
            """
            {"if": [{"and": [{"==": [{"var": "country"}, "CH"]}, {">=": [{"var": "age"}, 18]},
            {"ends_with": [{"var": "email"}, "@example.org"]}]}, "on", "off"]}
            """
        ),
        (
            "version",
            """
            {"if": [{"sem_ver": [{"var": "version"}, ">=", "2.3.0"]}, "on", "off"]}
            """
        ),
        (
            "fractional",
            """
            {"fractional": [["on", 10], ["off", 90]]}
            """
        ),
        (
            "fractional with a key",
            """
            {"fractional": [{"cat": [{"var": "$flagd.flagKey"}, {"var": "email"}]}, ["on", 10], ["off", 90]]}
            """
        ),
        ("static", "{}"),
    ]

    static func benchmark() {
        for (name, rule) in rules {
            let text = """
                {"flags": {"banner": {"state": "ENABLED", "variants": {"on": true, "off": false},
                "defaultVariant": "off", "targeting": \(rule)}}}
                """
            let context = """
                {"targetingKey": "5c3d8535-f81a-4478-a6d3-afaa4d51199e", "country": "CH", "age": 41,
                "email": "someone@example.org", "version": "2.10.1"}
                """
            guard let document = try? JSONValue(parsing: text), let object = try? JSONValue(parsing: context) else {
                fatalError("not JSON")
            }
            let (flags, facts, count) = (FlagSet(document), FlagContext(object), 1_000_000)
            var found = 0
            // Processor time, which other programs on the machine change little.
            let best =
                (0..<5).map { _ in
                    let start = clock()
                    for _ in 0..<count {
                        let outcome = flags.evaluate("banner", type: .boolean, context: facts, now: 1_700_000_000)
                        if outcome.errorCode == nil { found += 1 }
                    }
                    return clock() - start
                }.min() ?? 0
            precondition(found == 5 * count)
            print("\(name): \(best * 1_000 / count) ns")
        }
    }
}
