import LarderJSON

/// Arithmetic. Nothing traps: an integer that does not fit into 64 bits becomes a `Double`.
extension Evaluation {
    mutating func arithmetic(_ operation: Operator, _ rule: Rule) throws(EvaluationError) -> RuleValue {
        switch operation {
        case .subtract:
            let (left, right) = (try operand(rule, 0).number, try operand(rule, 1))
            return right.isNull ? Self.combine(.subtract, .int(0), left) : Self.combine(.subtract, left, right.number)
        case .divide, .remainder:
            let left = try operand(rule, 0).number
            return Self.combine(operation, left, try operand(rule, 1).number)
        default:
            var result: RuleValue? = operation == .add ? .int(0) : operation == .multiply ? .int(1) : nil
            for (index, operand) in rule.operands.enumerated() {
                let number = try value(of: operand, at: index).number
                result = result.map { Self.combine(operation, $0, number) } ?? number
            }
            return result ?? .double(.nan)
        }
    }

    private static func combine(_ operation: Operator, _ left: RuleValue, _ right: RuleValue) -> RuleValue {
        if case .int(let left) = left, case .int(let right) = right,
            let result = combine(operation, left, right)
        {
            return .int(result)
        }
        let (left, right) = (left.approximation, right.approximation)
        switch operation {
        case .add: return .double(left + right)
        case .subtract: return .double(left - right)
        case .multiply: return .double(left * right)
        case .divide: return .double(left / right)
        case .min: return .double(left.isNaN || right.isNaN ? .nan : Swift.min(left, right))
        case .max: return .double(left.isNaN || right.isNaN ? .nan : Swift.max(left, right))
        default: return .double(left.truncatingRemainder(dividingBy: right))
        }
    }

    /// The result if it is an integer that fits into 64 bits.
    private static func combine(_ operation: Operator, _ left: Int, _ right: Int) -> Int? {
        let (result, overflows): (Int, Bool)
        switch operation {
        case .add: (result, overflows) = left.addingReportingOverflow(right)
        case .subtract: (result, overflows) = left.subtractingReportingOverflow(right)
        case .multiply: (result, overflows) = left.multipliedReportingOverflow(by: right)
        case .divide:
            guard right != 0, left.remainderReportingOverflow(dividingBy: right).partialValue == 0 else { return nil }
            (result, overflows) = left.dividedReportingOverflow(by: right)
        case .remainder: (result, overflows) = left.remainderReportingOverflow(dividingBy: right)
        case .min: return Swift.min(left, right)
        case .max: return Swift.max(left, right)
        default: return nil
        }
        return overflows ? nil : result
    }
}

/// Operators that apply a rule to each element of an array.
extension Evaluation {
    mutating func iteration(_ operation: Operator, _ rule: Rule) throws(EvaluationError) -> RuleValue {
        if operation == .reduce { return try reduction(rule) }
        let outer = scope
        let elements = try operand(rule, 0).elements(&budget) ?? []
        defer { scope = outer }
        var results: [RuleValue] = []
        let wanted = operation == .some || operation == .none
        for element in elements {
            scope = .element(element)
            let result = try operand(rule, 1)
            switch operation {
            case .map: results.append(result)
            case .filter: if result.isTrue { results.append(element) }
            default:
                // The first element that decides the result ends the iteration.
                if result.isTrue == wanted { return .bool(operation == .some) }
            }
        }
        switch operation {
        case .map, .filter: return try .array(of: results)
        case .all: return .bool(!elements.isEmpty)
        default: return .bool(operation == .none)
        }
    }

    private mutating func reduction(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        let outer = scope
        let elements = try operand(rule, 0).elements(&budget) ?? []
        var accumulator = try operand(rule, 2)
        defer { scope = outer }
        for element in elements {
            scope = .reduction(current: element, accumulator: accumulator)
            accumulator = try operand(rule, 1)
        }
        return accumulator
    }
}

/// The assignment of subjects to buckets.
extension Evaluation {
    /// `fractional`: hashes a text, by default the name of the flag and the member `targetingKey`, and returns the
    /// bucket whose share of the hashes contains the result. Returns null if an operand is malformed.
    mutating func fractional(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        guard !rule.operands.isEmpty else { return .null }
        var key: String
        var bucket = 0
        let first = try operand(rule, 0)
        if case .string(let text) = first {
            key = text
            bucket = 1
        } else {
            guard case .string(let subject) = try variable(["targetingKey"]), !subject.isEmpty else { return .null }
            key = if case .context = scope { flag + subject } else { subject }
        }
        if key.isEmpty { return .null }
        try budget.take(bytes: key.utf8.count)
        var buckets: [(value: RuleValue, end: Int)] = []
        buckets.reserveCapacity(rule.operands.count)
        while bucket < rule.operands.count {
            let operand = bucket == 0 ? first : try value(of: rule.operands[bucket], at: bucket)
            guard let parts = try operand.elements(&budget), let weight = Self.weight(parts) else { return .null }
            let end = (buckets.last?.end ?? 0) + weight
            if end > Int32.max { return .null }
            buckets.append((parts[0], end))
            bucket += 1
        }
        let position = (Int(murmurHash3(key)) * (buckets.last?.end ?? 0)) >> 32
        return buckets.first { position < $0.end }?.value ?? .null
    }

    /// The weight in `[VALUE, WEIGHT]`, by default 1. A negative weight is 0. Nil if the weight is not an integer or
    /// exceeds `Int32.max`.
    private static func weight(_ parts: [RuleValue]) -> Int? {
        switch (parts.count, parts.last) {
        case (1, _): 1
        case (2, .int(let weight)): weight > Int32.max ? nil : max(0, weight)
        case (2, .double(let weight)) where weight.isFinite && weight.rounded(.towardZero) == weight:
            Int32(exactly: max(0, weight)).map { Int($0) }
        default: nil
        }
    }
}

/// MurmurHash3, the variant of 32 bits for x86, with the seed 0. All implementations of flagd use it to assign subjects
/// to buckets.
func murmurHash3(_ text: String) -> UInt32 {
    var text = text
    return text.withUTF8 { bytes in
        var hash: UInt32 = 0
        let blocks = bytes.count / 4
        let raw = UnsafeRawBufferPointer(bytes)
        for block in 0..<blocks {
            let word = raw.loadUnaligned(fromByteOffset: 4 &* block, as: UInt32.self)
            hash ^= scramble(UInt32(littleEndian: word))
            hash = rotated(hash, by: 13) &* 5 &+ 0xE654_6B64
        }
        var tail: UInt32 = 0
        for index in stride(from: bytes.count &- 1, through: 4 &* blocks, by: -1) {
            tail = tail &<< 8 | UInt32(bytes[index])
        }
        hash ^= scramble(tail)
        hash ^= UInt32(truncatingIfNeeded: bytes.count)
        hash = (hash ^ hash &>> 16) &* 0x85EB_CA6B
        hash = (hash ^ hash &>> 13) &* 0xC2B2_AE35
        return hash ^ hash &>> 16
    }
}

private func scramble(_ word: UInt32) -> UInt32 { rotated(word &* 0xCC9E_2D51, by: 15) &* 0x1B87_3593 }

private func rotated(_ word: UInt32, by bits: UInt32) -> UInt32 { word &<< bits | word &>> (32 &- bits) }
