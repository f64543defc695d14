@_spi(LarderSchema) import LarderJSON

/// One validation of a value.
///
/// A validation runs in one of two modes. Without `tracing` it stops at the first violation and records nothing. With
/// `tracing` it finds all violations and their paths.
///
/// Methods that change nothing are `mutating` too, because the compiler would copy the structure for nonmutating
/// methods.
struct Validator: ~Copyable {
    let program: SchemaProgram
    let tables: UnsafePointer<RuleTables>
    let limits: ValidationLimits
    let tracing: Bool
    let hasDynamicReferences: Bool

    /// Whether violations are recorded. Always false without `tracing`, and false within `not`, `if` and `contains`.
    var collecting: Bool
    var findings: [Finding] = []
    var path: [PathStep] = []
    /// The reason why the validation stopped, if it did.
    private(set) var stopped: Finding?

    var depth = 0
    private var steps: Int
    /// The resources that the evaluated schemas belong to, outermost first. Empty if the schema has no dynamic
    /// references.
    var scope: [Int32] = []
    /// The evaluated members or elements of each enclosing value whose schema has `unevaluated…`, innermost last.
    var trackers: [[Bool]] = []
    /// The index in `trackers` for the current value; negative if its evaluated members or elements are not tracked.
    var tracker = -1
    var matcher = PatternMatcher()

    static let maxFindings = 1_000

    init(_ schema: CompiledSchema, _ limits: ValidationLimits, span: Int, tracing: Bool) {
        program = schema.program
        tables = schema.tables
        self.limits = limits
        self.tracing = tracing
        collecting = tracing
        hasDynamicReferences = schema.program.hasDynamicReferences
        steps = limits.steps(span: span)
    }

    /// Returns whether the value is valid; false if the validation stopped because of a limit.
    mutating func run(_ value: ValueCursor, node: Int = 0) -> Bool {
        let isValid = evaluate(node, value, value.rawKind)
        return isValid && stopped == nil
    }

    /// Evaluates a schema for a member, an element or a name.
    @inline(__always)
    mutating func child(_ node: RuleIndex, _ value: ValueCursor, _ kind: UInt8, _ step: PathStep) -> Bool {
        let rule = tables.pointee.nodes + node.position
        let bit: UInt8 = 1 &<< kind
        // Schemas whose only rule for the type of this value is `type` need no further evaluation.
        if rule.pointee.types.rawValue & bit & ~rule.pointee.checked.rawValue != 0 { return true }
        return slowChild(node, value, kind, step)
    }

    @inline(never)
    private mutating func slowChild(_ node: RuleIndex, _ value: ValueCursor, _ kind: UInt8, _ step: PathStep) -> Bool {
        let outer = tracker
        tracker = -1
        if tracing { path.append(step) }
        let isValid = evaluate(node.position, value, kind)
        if tracing { path.removeLast() }
        tracker = outer
        return isValid
    }

    /// Evaluates a schema for a value. `kind` is a parameter because the names of members are evaluated as strings.
    mutating func evaluate(_ index: Int, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        guard isWithinLimits(index, value) else { return false }
        let node = tables.pointee.nodes + index
        let bit: UInt8 = 1 &<< kind
        steps -= 1
        var isValid = true
        if node.pointee.types.rawValue & bit == 0, !isIntegerOfType(node.pointee.types, value, kind) {
            // The other keywords are not evaluated, because their violations by a value of the wrong type would only
            // distract.
            return fail(index, .type, value)
        }
        if node.pointee.checked.rawValue & bit == 0 { return true }

        depth += 1
        defer { depth -= 1 }
        let isNewResource = hasDynamicReferences && scope.last != node.pointee.resource
        if isNewResource { scope.append(node.pointee.resource) }
        defer { if isNewResource { scope.removeLast() } }

        if !node.pointee.values.isEmpty, !checkValues(index, value, kind) {
            if !collecting { return false }
            isValid = false
        }
        let isTracked =
            kind == JSONValue.Kind.object.rawValue && !node.pointee.unevaluatedProperties.isNone
            || kind == JSONValue.Kind.array.rawValue && !node.pointee.unevaluatedItems.isNone
        if isTracked {
            if !checkTracked(index, value, kind) { isValid = false }
        } else {
            if !checkRules(index, value, kind) { isValid = false }
        }
        return isValid
    }

    /// Checks the keywords for the type of the value, and the keywords that apply subschemas to the same value.
    mutating func checkRules(_ index: Int, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        let node = tables.pointee.nodes + index
        var isValid = true
        switch kind {
        case JSONValue.Kind.object.rawValue:
            if !node.pointee.object.isNone { isValid = checkObject(node.pointee.object.position, index, value) }
        case JSONValue.Kind.array.rawValue:
            if !node.pointee.array.isNone { isValid = checkArray(node.pointee.array.position, index, value) }
        case JSONValue.Kind.string.rawValue:
            if !node.pointee.string.isNone { isValid = checkString(node.pointee.string.position, index, value) }
        case JSONValue.Kind.number.rawValue:
            if !node.pointee.number.isNone { isValid = checkNumber(node.pointee.number.position, index, value) }
        default: break
        }
        if !isValid, !collecting { return false }
        if !node.pointee.applicators.isEmpty, !apply(node.pointee.applicators, index, value, kind) { isValid = false }
        return isValid
    }

    private mutating func isIntegerOfType(_ types: TypeSet, _ value: ValueCursor, _ kind: UInt8) -> Bool {
        guard kind == JSONValue.Kind.number.rawValue, types.contains(.integer) else { return false }
        return DecimalNumber.shortInteger(value.source) != nil || DecimalNumber(value.source).isInteger
    }

    /// Returns whether the validation may continue. Stops it if a limit is reached.
    @inline(__always)
    mutating func isWithinLimits(_ index: Int, _ value: ValueCursor) -> Bool {
        if depth < limits.depth, steps > 0 { return true }
        return stop(depth < limits.depth ? .steps : .depth, index, .reference, value)
    }

    /// Counts the work of visiting the members or elements of a value as steps of the validation.
    @inline(__always)
    mutating func count(_ work: Int) { steps -= work }

    // MARK: Results

    /// Records a violation if violations are collected. Returns false.
    @inline(__always)
    @discardableResult
    mutating func fail(_ node: Int, _ keyword: Keyword, _ value: ValueCursor, detail: Int = 0) -> Bool {
        if collecting { record(node, keyword, value, detail) }
        return false
    }

    @inline(never)
    private mutating func record(_ node: Int, _ keyword: Keyword, _ value: ValueCursor, _ detail: Int) {
        guard findings.count < Self.maxFindings else { return }
        findings.append(Finding(node: node, keyword: keyword, value: value, path: path, detail: detail))
    }

    /// Stops the validation because of a limit. Returns false, so that callers can return the result.
    @inline(never)
    mutating func stop(_ limit: ValidationLimit, _ node: Int, _ keyword: Keyword, _ value: ValueCursor) -> Bool {
        if stopped == nil {
            stopped = Finding(node: node, keyword: keyword, value: value, path: path, limit: limit)
        }
        steps = 0
        return false
    }
}

/// A step from an object or array to a member or element of it.
enum PathStep {
    case name(ValueCursor)
    case index(Int)
}

/// A violation during validation. The message is written only if the violation is reported, because most findings are
/// not.
struct Finding {
    var node: Int
    var keyword: Keyword
    /// The invalid value; for violations of `propertyNames` the invalid name.
    var value: ValueCursor
    var path: [PathStep]
    /// A number or an index, or two indexes in one integer, for the message. The meaning depends on the keyword.
    var detail = 0
    /// Set if the validation stopped because of a limit.
    var limit: ValidationLimit?
}

/// The reasons to stop a validation.
enum ValidationLimit {
    case depth, steps, pattern
}

/// The limits of one validation. A validation that exceeds a limit stops and reports the value as invalid.
package struct ValidationLimits: Sendable {
    /// The maximum nesting depth of subschemas during evaluation.
    package var depth = 512
    /// The maximum number of evaluated subschemas and visited values is `steps`, plus `stepsPerValue` for each value in
    /// the document.
    package var steps = 1_000_000
    package var stepsPerValue = 200

    func steps(span: Int) -> Int {
        let (product, overflow) = span.multipliedReportingOverflow(by: stepsPerValue)
        return overflow ? .max : steps + min(product, .max - steps)
    }
}
