@_spi(LarderSchema) import LarderJSON

/// Keywords for strings, numbers, and fixed values.
extension Validator {
    mutating func checkString(_ position: Int, _ index: Int, _ value: ValueCursor) -> Bool {
        let rule = tables.pointee.strings + position
        var isValid = true
        if rule.pointee.minLength > 0 || rule.pointee.maxLength < .max {
            let length = value.withString { Self.length($0) }
            if length < rule.pointee.minLength { isValid = fail(index, .minLength, value, detail: length) }
            if length > rule.pointee.maxLength { isValid = fail(index, .maxLength, value, detail: length) }
            if !isValid, !collecting { return false }
        }
        if !rule.pointee.pattern.isNone, !matches(value, rule.pointee.pattern.position, index, .pattern) {
            if stopped == nil { fail(index, .pattern, value) }
            isValid = false
        }
        if let format = rule.pointee.format, !value.withString({ format.accepts($0) }) {
            isValid = fail(index, .format, value)
        }
        return isValid
    }

    /// Returns the number of code points in a text in UTF-8.
    private static func length(_ text: UnsafeBufferPointer<UInt8>) -> Int {
        var length = 0
        for byte in text where byte & 0xC0 != 0x80 { length &+= 1 }
        return length
    }

    /// Whether a pattern matches a string or name. Stops the validation if the search takes too many steps.
    mutating func matches(_ text: ValueCursor, _ pattern: Int, _ index: Int, _ keyword: Keyword) -> Bool {
        var outcome = PatternMatcher.Outcome.differs
        text.withString { outcome = matcher.search($0, for: program.patterns[pattern]) }
        switch outcome {
        case .matches: return true
        case .differs: return false
        case .limitReached: return stop(.pattern, index, keyword, text)
        }
    }

    mutating func checkNumber(_ position: Int, _ index: Int, _ value: ValueCursor) -> Bool {
        let rule = tables.pointee.numbers + position
        if let integer = DecimalNumber.shortInteger(value.source) {
            let (minimum, maximum, divisor) = (
                rule.pointee.minInteger, rule.pointee.maxInteger, rule.pointee.integerDivisor
            )
            let isMultiple = rule.pointee.multipleOf.isNone || (divisor > 0 && integer % divisor == 0)
            if integer >= minimum, integer <= maximum, isMultiple { return true }
        }
        let number = DecimalNumber(value.source)
        var isValid = true
        if let minimum = decimal(rule.pointee.minimum), number < minimum { isValid = fail(index, .minimum, value) }
        if let minimum = decimal(rule.pointee.exclusiveMinimum), !(minimum < number) {
            isValid = fail(index, .exclusiveMinimum, value)
        }
        if let maximum = decimal(rule.pointee.maximum), maximum < number { isValid = fail(index, .maximum, value) }
        if let maximum = decimal(rule.pointee.exclusiveMaximum), !(number < maximum) {
            isValid = fail(index, .exclusiveMaximum, value)
        }
        if let divisor = decimal(rule.pointee.multipleOf), !number.isMultiple(of: divisor) {
            isValid = fail(index, .multipleOf, value)
        }
        return isValid
    }

    private mutating func decimal(_ index: RuleIndex) -> DecimalNumber? {
        index.isNone ? nil : program.decimals[index.position]
    }

    /// Checks `enum` and `const`.
    mutating func checkValues(_ index: Int, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        var isValid = true
        for position in tables.pointee.nodes[index].values.range {
            let rule = tables.pointee.values + position
            if !accepts(rule, value, kind) { isValid = fail(index, rule.pointee.keyword, value) }
        }
        return isValid
    }

    private mutating func accepts(_ rule: UnsafePointer<ValueRule>, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        guard rule.pointee.types.rawValue & (1 &<< kind) != 0 else { return false }
        switch kind {
        case JSONValue.Kind.null.rawValue: return true
        case JSONValue.Kind.bool.rawValue: return value.isTrue ? rule.pointee.acceptsTrue : rule.pointee.acceptsFalse
        case JSONValue.Kind.number.rawValue:
            let number = DecimalNumber(value.source)
            for index in tables.nodes(rule.pointee.numbers) where program.decimals[Int(index)] == number { return true }
            return false
        case JSONValue.Kind.string.rawValue:
            let tables = tables
            return value.withString { text in
                let hash = ValueCursor.hash(ofName: UnsafeRawBufferPointer(text))
                return tables.entry(rule.pointee.strings, hash: hash, text) != nil
            }
        default:
            for index in tables.nodes(rule.pointee.containers)
            where program.constants[Int(index)].withCursor({ ValueComparison.equal(value, $0) }) {
                return true
            }
            return false
        }
    }
}
