@_spi(LarderSchema) import LarderJSON

/// The path from the root of a document to a changed value, with the values on this path.
struct ValueChange {
    /// A member or element on the path.
    struct Step {
        /// The name in UTF-8; empty for elements.
        var name: [UInt8]
        /// The name in the new document; nil for elements, and if the member was removed.
        var nameCursor: ValueCursor?
        /// The position of an element.
        var index = 0
        /// The value in the new document; nil if it was removed.
        var value: ValueCursor?
        /// Whether the member was added or removed.
        var changesMembers = false
    }

    /// The steps of the path. They end early if the two documents have values of different types on the path, a member
    /// that only one of them has, or arrays of different lengths. The value at the end of the steps has to be evaluated
    /// completely.
    private(set) var steps: [Step] = []

    init(from old: ValueCursor, to new: ValueCursor, at path: JSONPath) {
        var (old, new) = (old, new)
        for segment in path.segments {
            guard old.rawKind == new.rawKind else { return }
            switch new.rawKind {
            case JSONValue.Kind.object.rawValue:
                let name = Array(segment.utf8)
                let (before, after) = name.withUnsafeBufferPointer { (old.member($0), new.member($0)) }
                if before == nil, after == nil { return }
                let changesMembers = before == nil || after == nil
                steps.append(
                    Step(name: name, nameCursor: after?.name, value: after?.value, changesMembers: changesMembers))
                guard let before, let after else { return }
                (old, new) = (before.value, after.value)
            case JSONValue.Kind.array.rawValue:
                guard let index = Int(segment), index >= 0, old.count == new.count, index < new.count else { return }
                (old, new) = (Self.element(old, index), Self.element(new, index))
                steps.append(Step(name: [], index: index, value: new))
            default: return
            }
        }
    }

    private static func element(_ array: ValueCursor, _ index: Int) -> ValueCursor {
        var elements = array.elements
        var element = array
        for _ in 0...index { element = elements.next() ?? element }
        return element
    }
}

/// Validation after a change. The previous document was valid, so keywords that the change does not affect are still
/// satisfied.
extension Validator {
    /// Whether the changed value is valid.
    mutating func run(_ root: ValueCursor, _ change: ValueChange) -> Bool {
        // The whole document is evaluated, because the target of a dynamic reference depends on the schemas that lead
        // to it.
        if hasDynamicReferences { return run(root) }
        return recheck(RuleIndex(0), root, change.steps[...]) && stopped == nil
    }

    private mutating func recheck(
        _ node: RuleIndex, _ value: ValueCursor, _ steps: ArraySlice<ValueChange.Step>
    ) -> Bool {
        let index = node.position
        let rule = tables.pointee.nodes[index]
        guard let step = steps.first, rule.values.isEmpty, rule.unevaluatedProperties.isNone,
            rule.unevaluatedItems.isNone
        else { return evaluate(index, value, value.rawKind) }
        guard isWithinLimits(index, value) else { return false }
        if rule.isFalse { return false }
        depth += 1
        defer { depth -= 1 }
        let isObject = value.rawKind == JSONValue.Kind.object.rawValue
        if isObject, !rule.object.isNone, !recheckObject(rule.object.position, index, value, step, steps) {
            return false
        }
        if !isObject, !rule.array.isNone, !recheckArray(rule.array.position, index, value, step, steps) {
            return false
        }
        for position in rule.applicators.range {
            let applicator = tables.pointee.applicators[position]
            switch applicator.kind {
            case .reference, .allOf:
                for target in tables.nodes(applicator.nodes)
                where !recheck(RuleIndex(rawValue: target), value, steps) { return false }
            default:
                // Branches are evaluated completely, because the change may decide which of them accepts the value.
                guard apply(PoolRange(position, 1), index, value, value.rawKind) else { return false }
            }
        }
        return true
    }

    private mutating func recheckObject(
        _ position: Int, _ index: Int, _ value: ValueCursor, _ step: ValueChange.Step,
        _ steps: ArraySlice<ValueChange.Step>
    ) -> Bool {
        let rule = tables.pointee.objects[position]
        if !rule.dependencies.isEmpty,
            !checkDependencies(tables.pointee.objects + position, index, value)
        {
            return false
        }
        if step.changesMembers {
            let count = value.count
            guard count >= rule.minProperties, count <= rule.maxProperties else { return false }
        }
        let tables = tables
        let entry = step.name.withUnsafeBufferPointer { name in
            tables.entry(rule.names, hash: ValueCursor.hash(ofName: UnsafeRawBufferPointer(name)), name)
        }
        guard let child = step.value, let name = step.nameCursor else { return entry?.pointee.isRequired != true }
        var isEvaluated = false
        if let node = entry?.pointee.node, !node.isNone {
            isEvaluated = true
            guard recheck(node, child, steps.dropFirst()) else { return false }
        }
        for position in rule.patterns.range {
            let pattern = tables.pointee.patternRules[position]
            guard matches(name, Int(pattern.pattern), pattern.node.position, .patternProperties) else { continue }
            isEvaluated = true
            guard recheck(pattern.node, child, steps.dropFirst()) else { return false }
        }
        if !isEvaluated, !rule.additional.isNone, !recheck(rule.additional, child, steps.dropFirst()) { return false }
        guard step.changesMembers, !rule.propertyNames.isNone else { return true }
        return self.child(rule.propertyNames, name, JSONValue.Kind.string.rawValue, .name(name))
    }

    private mutating func recheckArray(
        _ position: Int, _ index: Int, _ value: ValueCursor, _ step: ValueChange.Step,
        _ steps: ArraySlice<ValueChange.Step>
    ) -> Bool {
        let rule = tables.pointee.arrays[position]
        if rule.isUnique || !rule.contains.isNone { return checkArray(position, index, value) }
        let prefix = tables.nodes(rule.prefix)
        let node = step.index < prefix.count ? RuleIndex(rawValue: prefix[step.index]) : rule.items
        guard let child = step.value, !node.isNone else { return true }
        return recheck(node, child, steps.dropFirst())
    }
}
