@_spi(LarderSchema) import LarderJSON

/// Compares values as JSON Schema does: numbers by value (`1` equals `1.0`), objects without regard to order.
enum ValueComparison {
    /// Values that are nested deeper are treated as unequal, so that the recursion cannot exhaust the stack.
    static let maxDepth = 512

    static func equal(_ left: ValueCursor, _ right: ValueCursor, depth: Int = 0) -> Bool {
        guard left.rawKind == right.rawKind, depth < maxDepth else { return false }
        switch left.rawKind {
        case JSONValue.Kind.null.rawValue: return true
        case JSONValue.Kind.bool.rawValue: return left.isTrue == right.isTrue
        case JSONValue.Kind.number.rawValue: return equalNumbers(left, right)
        case JSONValue.Kind.string.rawValue: return equalStrings(left, right)
        case JSONValue.Kind.array.rawValue:
            guard left.count == right.count else { return false }
            var (elements, others) = (left.elements, right.elements)
            while let element = elements.next(), let other = others.next() {
                guard equal(element, other, depth: depth + 1) else { return false }
            }
            return true
        default: return equalObjects(left, right, depth: depth)
        }
    }

    private static func equalNumbers(_ left: ValueCursor, _ right: ValueCursor) -> Bool {
        if let integer = DecimalNumber.shortInteger(left.source),
            let other = DecimalNumber.shortInteger(right.source)
        {
            return integer == other
        }
        return DecimalNumber(left.source) == DecimalNumber(right.source)
    }

    /// Compares two strings or two names byte by byte.
    static func equalStrings(_ left: ValueCursor, _ right: ValueCursor) -> Bool {
        left.withString { bytes in right.withString { bytes.equals($0) } }
    }

    private static func equalObjects(_ left: ValueCursor, _ right: ValueCursor, depth: Int) -> Bool {
        let count = left.count
        guard count == right.count else { return false }
        if count > 16 { return equalLargeObjects(left, right, depth: depth) }
        var members = left.members
        while let (name, value) = members.next() {
            let other = name.withString { right.member($0)?.value }
            guard let other, equal(value, other, depth: depth + 1) else { return false }
        }
        return true
    }

    private static func equalLargeObjects(_ left: ValueCursor, _ right: ValueCursor, depth: Int) -> Bool {
        // The keys are bytes, because Swift strings are equal if they are only canonically equivalent.
        var byName: [[UInt8]: ValueCursor] = [:]
        var others = right.members
        while let (name, value) = others.next() { byName[name.withString { Array($0) }] = value }
        var members = left.members
        while let (name, value) = members.next() {
            guard let other = byName[name.withString({ Array($0) })], equal(value, other, depth: depth + 1) else {
                return false
            }
        }
        return true
    }

    /// Returns the index of the first element that equals an earlier element, and the index of that earlier element;
    /// nil if all elements are different.
    static func firstDuplicate(in array: ValueCursor) -> (index: Int, earlier: Int)? {
        var elements = array.elements
        var values: [ValueCursor] = []
        values.reserveCapacity(array.count)
        while let element = elements.next() { values.append(element) }
        var byHash: [Int: [Int]] = Dictionary(minimumCapacity: values.count)
        for index in values.indices {
            let hash = hash(values[index])
            if let earlier = byHash[hash]?.first(where: { equal(values[index], values[$0]) }) {
                return (index, earlier)
            }
            byHash[hash, default: []].append(index)
        }
        return nil
    }

    /// A hash with the property that equal values have equal hashes. `Hasher` has a random key for each process, so
    /// collisions cannot be constructed.
    private static func hash(_ value: ValueCursor, depth: Int = 0) -> Int {
        var hasher = Hasher()
        hasher.combine(value.rawKind)
        guard depth < maxDepth else { return hasher.finalize() }
        switch value.rawKind {
        case JSONValue.Kind.bool.rawValue: hasher.combine(value.isTrue)
        case JSONValue.Kind.number.rawValue: hasher.combine(DecimalNumber(value.source))
        case JSONValue.Kind.string.rawValue:
            value.withString { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        case JSONValue.Kind.array.rawValue:
            var elements = value.elements
            while let element = elements.next() { hasher.combine(hash(element, depth: depth + 1)) }
        case JSONValue.Kind.object.rawValue:
            // The hashes of the members are added, so that the result does not depend on their order.
            var sum = 0
            var members = value.members
            while let (name, value) = members.next() {
                var member = Hasher()
                name.withString { member.combine(bytes: UnsafeRawBufferPointer($0)) }
                member.combine(hash(value, depth: depth + 1))
                sum &+= member.finalize()
            }
            hasher.combine(sum)
        default: break
        }
        return hasher.finalize()
    }
}
