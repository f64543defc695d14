import Glibc
import LarderJSON

/// Why an evaluation was given up.
enum EvaluationError: Error {
    case tooManySteps, tooDeep

    var message: String {
        switch self {
        case .tooManySteps: "the evaluation takes more than \(FlagLimits.steps) steps; simplify the rule"
        case .tooDeep: "the rule computes an array that is nested more than \(FlagLimits.depth) levels deep"
        }
    }
}

/// The steps that an evaluation may still take.
struct Budget {
    private var steps: Int

    init(_ steps: Int = FlagLimits.steps) { self.steps = steps }

    mutating func take(_ count: Int = 1) throws(EvaluationError) {
        steps &-= count
        if steps < 0 {
            steps = 0
            throw .tooManySteps
        }
    }

    /// Takes a step for each kibibyte.
    mutating func take(bytes: Int) throws(EvaluationError) {
        if bytes >= 1024 { try take(bytes >> 10) }
    }
}

/// A value during an evaluation. The conversions are those of JSONLogic, which are those of JavaScript with few
/// exceptions: an empty text is not a number, and `null` equals only `null`.
enum RuleValue: Sendable {
    case null
    case bool(Bool)
    case int(Int)
    case double(Double)
    case string(String)
    /// An array that a rule contains or computes, and its depth of nesting. Use ``array(of:)`` to create one.
    case array([RuleValue], depth: Int)
    /// An array or object of a document.
    case json(JSONValue)

    /// Wraps a value of a document. Integers that do not fit into `Int` are rounded to the nearest `Double`.
    init(_ value: JSONValue) {
        switch value.kind {
        case .null: self = .null
        case .bool: self = .bool(value.bool ?? false)
        case .number:
            if let int = value.int {
                self = .int(int)
            } else {
                self = .double(value.numberText.flatMap { Double($0) } ?? .nan)
            }
        case .string: self = .string(value.string ?? "")
        case .array, .object: self = .json(value)
        }
    }

    /// An array. Its depth is limited, because the conversions and the release of memory are recursive.
    static func array(of elements: [RuleValue]) throws(EvaluationError) -> RuleValue {
        var depth = 1
        for case .array(_, let inner) in elements { depth = max(depth, inner + 1) }
        if depth > FlagLimits.depth { throw .tooDeep }
        return .array(elements, depth: depth)
    }

    /// The elements of an array, at one step each; nil for other values.
    func elements(_ budget: inout Budget) throws(EvaluationError) -> [RuleValue]? {
        switch self {
        case .array(let elements, _):
            try budget.take(elements.count)
            return elements
        case .json(let value) where value.kind == .array:
            try budget.take(value.count)
            return value.elements.map { RuleValue($0) }
        default: return nil
        }
    }

    var isNull: Bool {
        if case .null = self { true } else { false }
    }

    /// Whether a condition with this value is satisfied. `false`, `null`, 0, NaN, the empty text and the empty array are
    /// not.
    var isTrue: Bool {
        switch self {
        case .null: false
        case .bool(let truth): truth
        case .int(let number): number != 0
        case .double(let number): number != 0 && !number.isNaN
        case .string(let text): !text.isEmpty
        case .array(let elements, _): !elements.isEmpty
        case .json(let value): value.kind == .object || value.count > 0
        }
    }

    /// Whether the value is a number or a boolean, which JSONLogic compares as a number.
    var isNumeric: Bool {
        switch self {
        case .bool, .int, .double: true
        default: false
        }
    }

    /// The value as a number: an `int` or a `double`, which is NaN if the value is not a number.
    var number: RuleValue {
        switch self {
        case .null: .int(0)
        case .bool(let truth): .int(truth ? 1 : 0)
        case .int, .double: self
        case .string(let text): Self.number(text)
        case .array(let elements, _):
            elements.isEmpty ? .int(0) : elements.count == 1 ? elements[0].number : .double(.nan)
        case .json(let value): Self.number(value)
        }
    }

    /// The number in double precision.
    var approximation: Double {
        switch number {
        case .int(let number): Double(number)
        case .double(let number): number
        default: .nan
        }
    }

    /// The number of a text in decimal notation. Longer texts than 1 KiB are not numbers.
    private static func number(_ text: String) -> RuleValue {
        var bytes = text.utf8[...]
        while let last = bytes.last, isSpace(last) { bytes.removeLast() }
        while let first = bytes.first, isSpace(first) { bytes.removeFirst() }
        let isDecimal = bytes.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || "+-.eE".utf8.contains($0) }
        guard isDecimal, bytes.count <= 1024, let trimmed = Substring(bytes) as Substring? else { return .double(.nan) }
        if let int = Int(trimmed) { return .int(int) }
        return .double(Double(trimmed) ?? .nan)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || 0x09...0x0D ~= byte }

    private static func number(_ value: JSONValue) -> RuleValue {
        var value = value
        while value.kind == .array {
            guard value.count == 1, let element = value[0] else { return value.count == 0 ? .int(0) : .double(.nan) }
            value = element
        }
        return value.kind == .object ? .double(.nan) : RuleValue(value).number
    }

    /// Appends the value as text. The elements of an array are separated by commas.
    func append(to text: inout String, _ budget: inout Budget, level: Int = 0) throws(EvaluationError) {
        switch self {
        case .null: text += "null"
        case .bool(let truth): text += truth ? "true" : "false"
        case .int(let number): text += String(number)
        case .double(let number): text += Self.text(number)
        case .string(let string):
            try budget.take(bytes: string.utf8.count)
            text += string
        case .json(let value) where value.kind == .object: text += "[object Object]"
        case .array, .json:
            if level > 2 * FlagLimits.depth { throw .tooDeep }
            var isFirst = true
            for element in try elements(&budget) ?? [] {
                if !isFirst { text += "," }
                isFirst = false
                try element.append(to: &text, &budget, level: level + 1)
            }
        }
    }

    func text(_ budget: inout Budget) throws(EvaluationError) -> String {
        if case .string(let text) = self { return text }
        var text = ""
        try append(to: &text, &budget)
        return text
    }

    private static func text(_ number: Double) -> String {
        if number.isNaN { return "NaN" }
        if number.isInfinite { return number < 0 ? "-Infinity" : "Infinity" }
        if number.rounded(.towardZero) == number, let int = Int(exactly: number) { return String(int) }
        return number.description
    }

    /// The value as JSON. NaN and infinities are `null`.
    func json(_ budget: inout Budget) throws(EvaluationError) -> JSONValue {
        switch self {
        case .null: return .null
        case .bool(let truth): return .bool(truth)
        case .int(let number): return .int(number)
        case .double(let number): return .double(number)
        case .string(let text):
            try budget.take(bytes: text.utf8.count)
            return .string(text)
        case .json(let value):
            try budget.take(bytes: value.textSize)
            return value
        case .array:
            var values: [JSONValue] = []
            for element in try elements(&budget) ?? [] { values.append(try element.json(&budget)) }
            return .array(values)
        }
    }
}

/// Comparisons.
extension RuleValue {
    /// `===`: values of different types are different, and `1` equals `1.0`. Arrays and objects are equal if their
    /// contents are.
    static func identical(
        _ left: RuleValue, _ right: RuleValue, _ budget: inout Budget, level: Int = 0
    ) throws(EvaluationError) -> Bool {
        switch (left, right) {
        case (.null, .null): return true
        case (.bool(let left), .bool(let right)): return left == right
        case (.int(let left), .int(let right)): return left == right
        case (.int, .double), (.double, .int), (.double, .double): return left.approximation == right.approximation
        case (.string(let left), .string(let right)):
            try budget.take(bytes: left.utf8.count)
            return left.isSpelled(as: right)
        case (.json(let left), .json(let right)) where left.kind == .object:
            try budget.take(1 + left.textSize >> 6)
            return left == right
        case (.array, .array), (.array, .json), (.json, .array), (.json, .json):
            if level > 2 * FlagLimits.depth { throw .tooDeep }
            guard let lefts = try left.elements(&budget), let rights = try right.elements(&budget),
                lefts.count == rights.count
            else { return false }
            for (left, right) in zip(lefts, rights) {
                guard try identical(left, right, &budget, level: level + 1) else { return false }
            }
            return true
        default: return false
        }
    }

    /// `==`: a text that is compared with a number or a boolean is converted to a number, and an array that is compared
    /// with a text is converted to a text.
    static func equal(
        _ left: RuleValue, _ right: RuleValue, _ budget: inout Budget
    ) throws(EvaluationError) -> Bool {
        switch (left, right) {
        case (.null, .null): return true
        case (.null, _), (_, .null): return false
        case (.bool, _), (.int, _), (.double, _), (_, .bool), (_, .int), (_, .double):
            return try identical(left.number, right.number, &budget)
        case (.string(let text), .array), (.string(let text), .json):
            return try text.isSpelled(as: right.text(&budget))
        case (.array, .string(let text)), (.json, .string(let text)):
            return try text.isSpelled(as: left.text(&budget))
        default: return try identical(left, right, &budget)
        }
    }

    /// The order of two values: negative, 0 or positive. Nil if they have none, because one is NaN. Texts are compared as
    /// bytes, unless one of the values is a number, a boolean or `null`.
    static func order(
        _ left: RuleValue, _ right: RuleValue, _ budget: inout Budget
    ) throws(EvaluationError) -> Int? {
        let isTextual = if case .string = left { true } else if case .string = right { true } else { false }
        if isTextual, !left.isNumeric, !right.isNumeric, !left.isNull, !right.isNull {
            let (left, right) = (try left.text(&budget), try right.text(&budget))
            try budget.take(bytes: min(left.utf8.count, right.utf8.count))
            if left.isSpelled(as: right) { return 0 }
            return left.utf8.lexicographicallyPrecedes(right.utf8) ? -1 : 1
        }
        let (left, right) = (left.number, right.number)
        if case .int(let left) = left, case .int(let right) = right { return left < right ? -1 : left == right ? 0 : 1 }
        let (a, b) = (left.approximation, right.approximation)
        return a < b ? -1 : a == b ? 0 : a > b ? 1 : nil
    }

    /// Whether an array contains an identical value, or a text contains another.
    static func contains(
        _ haystack: RuleValue, _ needle: RuleValue, _ budget: inout Budget
    ) throws(EvaluationError) -> Bool {
        var length = 0
        if case .string(let text) = needle { length = text.utf8.count }
        switch haystack {
        case .string(let text):
            let part = try needle.text(&budget)
            try budget.take((text.utf8.count * part.utf8.count) >> 12)
            return position(of: part, in: text, from: 0, through: text.utf8.count - part.utf8.count) != nil
        // Comparing an element takes a fraction of the time of a step, so that rules may list many users.
        case .array(let elements, _):
            try budget.take(elements.count >> 4 + (elements.count * length) >> 12)
            for element in elements {
                if try identical(element, needle, &budget) { return true }
            }
        case .json(let value) where value.kind == .array:
            try budget.take(value.count >> 4 + (value.count * length) >> 12)
            for element in value.elements {
                if try identical(RuleValue(element), needle, &budget) { return true }
            }
        default: break
        }
        return false
    }

    /// The first offset, in bytes, at which a text contains a part. Nil if there is none in the range.
    static func position(of part: String, in text: String, from start: Int, through end: Int) -> Int? {
        var (part, text) = (part, text)
        return text.withUTF8 { text in
            part.withUTF8 { part in
                guard start >= 0, start <= end, let bytes = text.baseAddress, let wanted = part.baseAddress else {
                    return part.isEmpty ? 0 : nil
                }
                return (start...end).first { memcmp(bytes + $0, wanted, part.count) == 0 }
            }
        }
    }
}
