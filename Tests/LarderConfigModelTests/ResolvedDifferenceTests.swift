import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Differences of successive changes")
struct ResolvedDifferenceTests {
    private static let a = JSONValue.Replacement(at: ["a"], by: 1)
    private static let b = JSONValue.Replacement(at: ["b"], by: 2)

    @Test("a sum has the paths and replacements of both differences, or none if one of the differences has none")
    func order() {
        let all: [(ResolvedDifference, paths: [[String]]?, hasReplacements: Bool)] = [
            (.none, [], true), (.scalar(Self.a, differs: true), [["a"]], true),
            (.scalars([Self.a, Self.b]), [["a"], ["b"]], true),
            (.paths([["c"], ["d", "e"]]), [["c"], ["d", "e"]], false), (.any, nil, false),
        ]
        for (first, firstPaths, firstReplaces) in all {
            for (later, laterPaths, laterReplaces) in all {
                var sum = first
                sum.add(later)
                let expected = firstPaths.flatMap { paths in laterPaths.map { paths + $0 } }
                #expect(sum.paths == expected, "\(first), then \(later)")
                let replacements = firstReplaces && laterReplaces ? expected : nil
                #expect(sum.replacements?.map(\.path) == replacements, "\(first), then \(later)")
            }
        }
    }

    @Test("only a difference with a single replacement records whether the old and new scalars differ")
    func lone() {
        var difference = ResolvedDifference.none
        difference.add(.scalar(Self.a, differs: true))
        guard case .scalar(_, differs: true) = difference else { return #expect(Bool(false)) }
        difference.add(.scalar(Self.b, differs: true))
        guard case .scalars = difference else { return #expect(Bool(false)) }
    }
}
