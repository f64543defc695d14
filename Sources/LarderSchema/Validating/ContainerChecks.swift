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

/// Keywords for objects.
extension Validator {
    mutating func checkObject(_ position: Int, _ index: Int, _ value: ValueCursor) -> Bool {
        let rule = tables.pointee.objects + position
        let count = value.count
        var isValid = true
        if count < rule.pointee.minProperties { isValid = fail(index, .minProperties, value) }
        if count > rule.pointee.maxProperties { isValid = fail(index, .maxProperties, value) }
        if !isValid, !collecting { return false }
        if rule.pointee.requiredCount > count, !collecting { return false }
        if rule.pointee.hasMemberRules, !checkMembers(rule, index, value) {
            isValid = false
            if !collecting { return false }
        }
        if !rule.pointee.dependencies.isEmpty, !checkDependencies(rule, index, value) { isValid = false }
        return isValid
    }

    private mutating func checkMembers(
        _ rule: UnsafePointer<ObjectRule>, _ index: Int, _ value: ValueCursor
    ) -> Bool {
        let isTracking = tracker >= 0
        var additional = rule.pointee.additional
        if !additional.isNone, !isTracking, tables.pointee.nodes[additional.position].isTrue { additional = .none }
        let string = JSONValue.Kind.string.rawValue
        var isValid = true
        var required = 0
        var position = 0
        var members = value.members
        while let (name, member) = members.next() {
            var isEvaluated = false
            if let entry = entry(rule.pointee.names, name) {
                required &+= entry.pointee.isRequired ? 1 : 0
                if !entry.pointee.node.isNone {
                    isEvaluated = true
                    if !child(entry.pointee.node, member, member.rawKind, .name(name)) {
                        if !collecting { return false }
                        isValid = false
                    }
                }
            }
            if !rule.pointee.patterns.isEmpty {
                let (matched, accepted) = checkPatterns(rule.pointee.patterns, index, name, member)
                isEvaluated = isEvaluated || matched
                if !accepted {
                    if !collecting { return false }
                    isValid = false
                }
            }
            if !isEvaluated, !additional.isNone {
                isEvaluated = true
                if !child(additional, member, member.rawKind, .name(name)) {
                    if !collecting { return false }
                    isValid = false
                }
            }
            if !rule.pointee.propertyNames.isNone, !child(rule.pointee.propertyNames, name, string, .name(name)) {
                if !collecting { return false }
                isValid = false
            }
            if isTracking, isEvaluated { trackers[tracker][position] = true }
            position &+= 1
        }
        count(position)
        if required < rule.pointee.requiredCount {
            if !collecting { return false }
            reportMissing(rule.pointee.names, index, value)
            isValid = false
        }
        return isValid
    }

    @inline(__always)
    private mutating func entry(_ names: NameSet, _ name: ValueCursor) -> UnsafePointer<NameSet.Entry>? {
        guard names.count > 0 else { return nil }
        // A closure that captured `self` would copy the whole structure.
        let tables = tables
        return name.withString { tables.entry(names, hash: name.nameHash, $0) }
    }

    /// Returns whether any pattern matches the name, and whether the member satisfies the schemas of all patterns that
    /// match.
    private mutating func checkPatterns(
        _ range: PoolRange, _ index: Int, _ name: ValueCursor, _ member: ValueCursor
    ) -> (matched: Bool, accepted: Bool) {
        var result = (matched: false, accepted: true)
        for position in range.range {
            let rule = tables.pointee.patternRules[position]
            guard matches(name, Int(rule.pattern), rule.node.position, .patternProperties) else { continue }
            result.matched = true
            if !child(rule.node, member, member.rawKind, .name(name)) {
                result.accepted = false
                if !collecting { break }
            }
        }
        return result
    }

    private mutating func reportMissing(_ names: NameSet, _ index: Int, _ value: ValueCursor) {
        for entry in program.entries(of: names) where entry.isRequired && !contains(value, entry.name) {
            fail(index, .required, value, detail: Int(entry.name))
        }
    }

    /// Whether an object has a member. `name` is the index of the name of the member.
    mutating func contains(_ value: ValueCursor, _ name: Int32) -> Bool {
        value.member(tables.name(name)) != nil
    }

    mutating func checkDependencies(
        _ rule: UnsafePointer<ObjectRule>, _ index: Int, _ value: ValueCursor
    ) -> Bool {
        var isValid = true
        for position in rule.pointee.dependencies.range {
            let dependency = tables.pointee.dependencies[position]
            count(value.count)
            guard contains(value, dependency.name) else { continue }
            for required in tables.nodes(dependency.required) where !contains(value, required) {
                fail(index, dependency.keyword, value, detail: Int(required) << 32 | Int(dependency.name))
                isValid = false
            }
            if !dependency.node.isNone,
                !evaluate(dependency.node.position, value, JSONValue.Kind.object.rawValue)
            {
                isValid = false
            }
            if !isValid, !collecting { return false }
        }
        return isValid
    }
}
