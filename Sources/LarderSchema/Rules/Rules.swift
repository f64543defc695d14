/// The keywords for objects.
struct ObjectRule: Sendable {
    /// The names in `properties` and `required`.
    var names = NameSet()
    /// The entries of `patternProperties`.
    var patterns = PoolRange()
    var additional = RuleIndex.none
    var propertyNames = RuleIndex.none
    var minProperties = 0
    var maxProperties = Int.max
    var requiredCount = 0
    /// `dependentRequired`, `dependentSchemas` and `dependencies`.
    var dependencies = PoolRange()

    /// Whether the validation has to visit each member.
    var hasMemberRules: Bool { names.count > 0 || !patterns.isEmpty || !additional.isNone || !propertyNames.isNone }
}

/// An entry of `patternProperties`.
struct PatternRule: Sendable {
    var pattern: Int32
    var node: RuleIndex
}

/// Required names or a subschema that depend on the presence of a member.
struct DependencyRule: Sendable {
    var name: Int32
    /// The indexes of the required names.
    var required = PoolRange()
    var node = RuleIndex.none
    var keyword: Keyword
}

/// The keywords for arrays.
struct ArrayRule: Sendable {
    var prefix = PoolRange()
    /// The schema for the elements after those of `prefix`.
    var items = RuleIndex.none
    var contains = RuleIndex.none
    var minContains = 1
    var maxContains = Int.max
    var minItems = 0
    var maxItems = Int.max
    var isUnique = false
    /// Whether elements that match `contains` count as evaluated for `unevaluatedItems`.
    var containsEvaluates = true

    var hasElementRules: Bool { !prefix.isEmpty || !items.isNone || !contains.isNone }
}

/// The keywords for strings.
struct StringRule: Sendable {
    var minLength = 0
    var maxLength = Int.max
    var pattern = RuleIndex.none
    var format: Format?
}

/// The keywords for numbers.
struct NumberRule: Sendable {
    /// The smallest and the largest integer that need no comparison with the exact limits, computed from the four
    /// keywords for minimum and maximum. If a limit is not an integer that fits in `Int`, each number needs it.
    var minInteger = Int.min
    var maxInteger = Int.max
    /// The value of `multipleOf` if it is an integer that fits in `Int`, otherwise 0.
    var integerDivisor = 0
    /// The limits and the divisor, as indexes of `SchemaProgram.decimals`.
    var minimum = RuleIndex.none
    var maximum = RuleIndex.none
    var exclusiveMinimum = RuleIndex.none
    var exclusiveMaximum = RuleIndex.none
    var multipleOf = RuleIndex.none
}

/// `enum` or `const`.
struct ValueRule: Sendable {
    var keyword: Keyword
    /// The types of the permitted values. All numbers have the type `number`, also integers.
    var types: TypeSet = []
    var acceptsTrue = false
    var acceptsFalse = false
    var strings = NameSet()
    var numbers = PoolRange()
    /// The permitted arrays and objects, as indexes in `SchemaProgram.constants`.
    var containers = PoolRange()
}
