@_spi(LarderSchema) import LarderJSON

/// Keywords for arrays.
extension Validator {
    mutating func checkArray(_ position: Int, _ index: Int, _ value: ValueCursor) -> Bool {
        let rule = tables.pointee.arrays + position
        let count = value.count
        var isValid = true
        if count < rule.pointee.minItems { isValid = fail(index, .minItems, value) }
        if count > rule.pointee.maxItems { isValid = fail(index, .maxItems, value) }
        if !isValid, !collecting { return false }
        if rule.pointee.hasElementRules, !checkElements(rule, index, value) {
            isValid = false
            if !collecting { return false }
        }
        if rule.pointee.isUnique {
            self.count(value.span)
            if let (duplicate, earlier) = ValueComparison.firstDuplicate(in: value) {
                isValid = fail(index, .uniqueItems, value, detail: duplicate << 32 | earlier)
            }
        }
        return isValid
    }

    private mutating func checkElements(_ rule: UnsafePointer<ArrayRule>, _ index: Int, _ value: ValueCursor) -> Bool {
        let isTracking = tracker >= 0
        let prefix = tables.nodes(rule.pointee.prefix)
        let (items, contains) = (rule.pointee.items, rule.pointee.contains)
        var isValid = true
        var matches = 0
        var position = 0
        var elements = value.elements
        while let element = elements.next() {
            let node = position < prefix.count ? RuleIndex(rawValue: prefix[position]) : items
            if !node.isNone, !child(node, element, element.rawKind, .index(position)) {
                if !collecting { return false }
                isValid = false
            }
            var isEvaluated = !node.isNone
            if !contains.isNone {
                let wasCollecting = collecting
                collecting = false
                if child(contains, element, element.rawKind, .index(position)) {
                    matches += 1
                    isEvaluated = isEvaluated || rule.pointee.containsEvaluates
                }
                collecting = wasCollecting
            }
            if isTracking, isEvaluated { trackers[tracker][position] = true }
            position &+= 1
            // The remaining elements need no check if no rule applies to them.
            if position >= prefix.count, items.isNone, contains.isNone { break }
        }
        count(position)
        guard !contains.isNone else { return isValid }
        if matches < rule.pointee.minContains {
            isValid = fail(index, rule.pointee.minContains == 1 ? .contains : .minContains, value, detail: matches)
        }
        if matches > rule.pointee.maxContains { isValid = fail(index, .maxContains, value, detail: matches) }
        return isValid
    }
}

/// `unevaluatedProperties` and `unevaluatedItems`.
extension Validator {
    /// Checks the other rules of a node with `unevaluated…`, and then the members or elements that these rules did not
    /// evaluate.
    mutating func checkTracked(_ index: Int, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        let node = tables.pointee.nodes + index
        let outer = tracker
        trackers.append(Array(repeating: false, count: value.count))
        tracker = trackers.count - 1
        var isValid = checkRules(index, value, kind)
        if isValid || collecting {
            let isObject = kind == JSONValue.Kind.object.rawValue
            let rest = isObject ? node.pointee.unevaluatedProperties : node.pointee.unevaluatedItems
            if !checkRest(rest, value, isObject) { isValid = false }
        }
        let evaluated = trackers.removeLast()
        tracker = outer
        if outer >= 0, isValid {
            for position in evaluated.indices where evaluated[position] { trackers[outer][position] = true }
        }
        return isValid
    }

    private mutating func checkRest(_ node: RuleIndex, _ value: ValueCursor, _ isObject: Bool) -> Bool {
        var isValid = true
        var position = 0
        var members = isObject ? value.members : nil
        var elements = isObject ? nil : value.elements
        while true {
            let child: ValueCursor
            let step: PathStep
            if let (name, member) = members?.next() {
                (child, step) = (member, .name(name))
            } else if let element = elements?.next() {
                (child, step) = (element, .index(position))
            } else {
                break
            }
            if !trackers[tracker][position] {
                if !self.child(node, child, child.rawKind, step) {
                    if !collecting { return false }
                    isValid = false
                }
                trackers[tracker][position] = true
            }
            position += 1
        }
        count(position)
        return isValid
    }
}
