/// The keywords for objects.
struct ObjectRule: Sendable {
    /// The names of `properties` and `required`.
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

    /// Whether the members have to be visited.
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
    /// Indexes of names.
    var required = PoolRange()
    var node = RuleIndex.none
    var keyword: Keyword
}

/// The keywords for arrays.
struct ArrayRule: Sendable {
    var prefix = PoolRange()
    /// The elements after the prefix.
    var items = RuleIndex.none
    var contains = RuleIndex.none
    var minContains = 1
    var maxContains = Int.max
    var minItems = 0
    var maxItems = Int.max
    var isUnique = false
    /// Whether elements that match `contains` count as evaluated.
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
    /// The limits for integers that follow from all four keywords.
    var minInteger = Int.min
    var maxInteger = Int.max
    /// The divisor if it is an integer, otherwise 0.
    var integerDivisor = 0
    /// Indexes of numbers.
    var minimum = RuleIndex.none
    var maximum = RuleIndex.none
    var exclusiveMinimum = RuleIndex.none
    var exclusiveMaximum = RuleIndex.none
    var multipleOf = RuleIndex.none
}

/// `enum` or `const`.
struct ValueRule: Sendable {
    var keyword: Keyword
    /// The types that have values. Numbers and integers are not distinguished.
    var types: TypeSet = []
    var acceptsTrue = false
    var acceptsFalse = false
    var strings = NameSet()
    var numbers = PoolRange()
    /// Arrays and objects, as indexes of values.
    var containers = PoolRange()
}
