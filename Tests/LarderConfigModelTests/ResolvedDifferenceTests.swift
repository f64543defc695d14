import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("How changes differ together")
struct ResolvedDifferenceTests {
    private static let a = JSONValue.Replacement(at: ["a"], by: 1)
    private static let b = JSONValue.Replacement(at: ["b"], by: 2)

    @Test("the first difference counts as it is, and one with anything in it is anything")
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

    @Test("whether a scalar differs is known only of a lone one")
    func lone() {
        var difference = ResolvedDifference.none
        difference.add(.scalar(Self.a, differs: true))
        guard case .scalar(_, differs: true) = difference else { return #expect(Bool(false)) }
        difference.add(.scalar(Self.b, differs: true))
        guard case .scalars = difference else { return #expect(Bool(false)) }
    }
}
