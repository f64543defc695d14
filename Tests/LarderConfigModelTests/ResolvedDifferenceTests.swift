import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Differences of successive changes")
struct ResolvedDifferenceTests {
    private static let a = JSONValue.Replacement(at: ["a"], by: 1)
    private static let b = JSONValue.Replacement(at: ["b"], by: 2)

    @Test("the replacements of a sum are those of both differences, or nil if one of the differences is `any`")
    func order() {
        let all: [(ResolvedDifference, paths: [[String]]?)] = [
            (.none, []), (.scalar(Self.a, differs: true), [["a"]]),
            (.scalars([Self.a, Self.b]), [["a"], ["b"]]),
            (.any, nil),
        ]
        for (first, firstPaths) in all {
            for (later, laterPaths) in all {
                var sum = first
                sum.add(later)
                let expected = firstPaths.flatMap { paths in laterPaths.map { paths + $0 } }
                #expect(sum.replacements?.map(\.path) == expected, "\(first), then \(later)")
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
