@_spi(LarderSchema) import LarderJSON

/// Evaluates the keywords that apply subschemas to the value itself, such as `allOf` and `$ref`, and not to a part of
/// the value.
extension Validator {
    mutating func apply(_ range: PoolRange, _ index: Int, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        var isValid = true
        for position in range.range {
            let applicator = tables.pointee.applicators + position
            let nodes = tables.nodes(applicator.pointee.nodes)
            let accepted: Bool
            switch applicator.pointee.kind {
            case .reference: accepted = evaluate(Int(nodes[0]), value, kind)
            case .dynamicReference:
                accepted = evaluate(dynamicTarget(applicator.pointee.table, Int(nodes[0])), value, kind)
            case .allOf: accepted = all(nodes, value, kind)
            case .anyOf: accepted = collecting ? explain(nodes, index, value, kind, .anyOf) : any(nodes, value, kind)
            case .oneOf: accepted = collecting ? explain(nodes, index, value, kind, .oneOf) : one(nodes, value, kind)
            case .not:
                accepted = !test(Int(nodes[0]), value, kind, tracker: -1)
                if !accepted { fail(index, .not, value) }
            case .conditional: accepted = conditional(nodes, value, kind)
            }
            if !accepted {
                isValid = false
                if !collecting { return false }
            }
        }
        return isValid
    }

    /// Returns the target of a dynamic reference: the anchor in the outermost resource of `scope` that has such an
    /// anchor; `initial` if no resource has one.
    private mutating func dynamicTarget(_ table: RuleIndex, _ initial: Int) -> Int {
        let targets = program.dynamicTargets[table.position]
        for resource in scope {
            let target = targets[Int(resource)]
            if target >= 0 { return Int(target) }
        }
        return initial
    }

    private mutating func all(_ nodes: UnsafeBufferPointer<Int32>, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        var isValid = true
        for node in nodes where !evaluate(Int(node), value, kind) {
            isValid = false
            if !collecting { return false }
        }
        return isValid
    }

    private mutating func any(_ nodes: UnsafeBufferPointer<Int32>, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        var isValid = false
        for node in nodes where branch(Int(node), value, kind) {
            isValid = true
            // With a tracker all branches are evaluated, because `unevaluated…` depends on each branch that accepts the
            // value.
            if tracker < 0 { break }
        }
        return isValid
    }

    private mutating func one(_ nodes: UnsafeBufferPointer<Int32>, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        var matches = 0
        for node in nodes where branch(Int(node), value, kind) {
            matches += 1
            if matches > 1 { return false }
        }
        return matches == 1
    }

    /// Evaluates a schema. If it rejects the value, the members and elements that it evaluated do not count as
    /// evaluated.
    private mutating func branch(_ node: Int, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        guard tracker >= 0 else { return evaluate(node, value, kind) }
        let saved = trackers[tracker]
        let isValid = evaluate(node, value, kind)
        if !isValid { trackers[tracker] = saved }
        return isValid
    }

    /// Evaluates a schema without recording violations. `temporary` is the index of the tracker to use; negative for
    /// none.
    private mutating func test(_ node: Int, _ value: ValueCursor, _ kind: UInt8, tracker temporary: Int) -> Bool {
        let (wasCollecting, outer) = (collecting, tracker)
        collecting = false
        tracker = temporary
        let isValid = branch(node, value, kind)
        collecting = wasCollecting
        tracker = outer
        return isValid
    }

    private mutating func conditional(
        _ nodes: UnsafeBufferPointer<Int32>, _ value: ValueCursor, _ kind: UInt8
    ) -> Bool {
        let consequence = test(Int(nodes[0]), value, kind, tracker: tracker) ? nodes[1] : nodes[2]
        return consequence < 0 || evaluate(Int(consequence), value, kind)
    }

    /// Evaluates `anyOf` or `oneOf`. If no branch accepts the value, records the violations of the branch that fits
    /// best, unless no branch permits the type or the value itself. Then records the violation of the keyword. If the
    /// keyword has only one branch, only the violations of that branch are recorded.
    private mutating func explain(
        _ nodes: UnsafeBufferPointer<Int32>, _ index: Int, _ value: ValueCursor, _ kind: UInt8, _ keyword: Keyword
    ) -> Bool {
        if findings.count >= Self.maxFindings {
            return keyword == .anyOf ? any(nodes, value, kind) : one(nodes, value, kind)
        }
        var outer: [Finding] = []
        swap(&outer, &findings)
        var matches = 0
        var best: (rank: BranchRank, findings: [Finding])?
        for node in nodes {
            findings = []
            if branch(Int(node), value, kind) {
                matches += 1
                continue
            }
            let rank = BranchRank(findings, value, depth: path.count)
            if best.map({ rank < $0.rank }) ?? true { best = (rank, findings) }
        }
        swap(&outer, &findings)
        if keyword == .anyOf ? matches > 0 : matches == 1 { return true }
        if matches == 0, let best, nodes.count == 1 || !best.rank.isMismatch {
            findings += best.findings.prefix(max(0, Self.maxFindings - findings.count))
        }
        if nodes.count > 1 || matches > 0 { fail(index, keyword, value, detail: matches) }
        return false
    }
}

/// How badly a value fits a branch that rejects it. The branch with the lowest rank fits best.
private struct BranchRank {
    /// Whether the value itself violates `type`, `enum` or `const`, as opposed to a value inside of it.
    let isMismatch: Bool
    /// The number of members that violate `enum` or `const`. Such a member often selects the branch for a value.
    private let selectors: Int
    private let findings: Int

    init(_ findings: [Finding], _ value: ValueCursor, depth: Int) {
        func isSelector(_ finding: Finding) -> Bool {
            finding.keyword == .const || finding.keyword == .enum || finding.keyword == .type
        }
        isMismatch = findings.contains { $0.value.identity == value.identity && isSelector($0) }
        selectors = findings.count {
            $0.path.count == depth + 1 && ($0.keyword == .const || $0.keyword == .enum)
        }
        self.findings = findings.count
    }

    static func < (left: BranchRank, right: BranchRank) -> Bool {
        (left.isMismatch ? 1 : 0, left.selectors, left.findings)
            < (right.isMismatch ? 1 : 0, right.selectors, right.findings)
    }
}
