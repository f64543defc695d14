@_spi(LarderSchema) import LarderJSON

/// Compiles the keywords that apply to values of one type, such as strings or arrays.
extension SchemaCompiler {
    mutating func values(_ keywords: KeywordReader) throws(SchemaError) -> PoolRange {
        var rules: [ValueRule] = []
        if let value = keywords["enum"] {
            guard value.kind == .array else { throw keywords.error("enum", "must be an array") }
            rules.append(self.values(Array(value.elements), .enum))
        }
        if let value = keywords["const"] { rules.append(values([value], .const)) }
        return Self.add(rules, to: &program.values)
    }

    private mutating func values(_ values: [JSONValue], _ keyword: Keyword) -> ValueRule {
        var rule = ValueRule(keyword: keyword)
        var strings: [String] = []
        var numbers: [Int32] = []
        var containers: [Int32] = []
        for value in values {
            rule.types.insert(TypeSet(rawValue: 1 << value.kind.rawValue))
            switch value.kind {
            case .null: break
            case .bool:
                if value.bool == true { rule.acceptsTrue = true } else { rule.acceptsFalse = true }
            case .number: numbers.append(decimal(value.withCursor { DecimalNumber($0.source) }).rawValue)
            case .string: strings.append(value.string ?? "")
            case .array, .object:
                containers.append(Int32(program.constants.count))
                program.constants.append(value)
            }
        }
        rule.numbers = pool(numbers)
        rule.containers = pool(containers)
        rule.strings = nameSet(strings.map { ($0, .none, false) })
        return rule
    }

    mutating func number(_ keywords: KeywordReader) throws(SchemaError) -> RuleIndex {
        var rule = NumberRule()
        if let minimum = try keywords.number("minimum") {
            rule.minimum = decimal(minimum)
            rule.minInteger = max(rule.minInteger, minimum.int ?? .max)
        }
        if let minimum = try keywords.number("exclusiveMinimum") {
            rule.exclusiveMinimum = decimal(minimum)
            rule.minInteger = max(rule.minInteger, minimum.int.map { $0 == .max ? .max : $0 + 1 } ?? .max)
        }
        if let maximum = try keywords.number("maximum") {
            rule.maximum = decimal(maximum)
            rule.maxInteger = min(rule.maxInteger, maximum.int ?? .min)
        }
        if let maximum = try keywords.number("exclusiveMaximum") {
            rule.exclusiveMaximum = decimal(maximum)
            rule.maxInteger = min(rule.maxInteger, maximum.int.map { $0 == .min ? .min : $0 - 1 } ?? .min)
        }
        if let divisor = try keywords.number("multipleOf") {
            guard !divisor.isNegative, !divisor.isZero else {
                throw keywords.error("multipleOf", "must be greater than 0")
            }
            guard divisor.isDivisor else {
                throw registry.error(
                    keywords.location("multipleOf"),
                    "\"multipleOf\" has more than \(DecimalNumber.maxDivisorDigits) significant digits")
            }
            rule.multipleOf = decimal(divisor)
            rule.integerDivisor = divisor.int ?? 0
        }
        let decimals = [
            rule.minimum, rule.exclusiveMinimum, rule.maximum, rule.exclusiveMaximum, rule.multipleOf,
        ]
        guard decimals.contains(where: { !$0.isNone }) else { return .none }
        program.numbers.append(rule)
        return RuleIndex(program.numbers.count - 1)
    }

    mutating func string(_ keywords: KeywordReader, _ dialect: Dialect) throws(SchemaError) -> RuleIndex {
        var rule = StringRule()
        if dialect.vocabularies.contains(.validation) {
            rule.minLength = try keywords.count("minLength") ?? 0
            rule.maxLength = try keywords.count("maxLength") ?? .max
            if let text = try keywords.string("pattern") {
                rule.pattern = RuleIndex(try pattern(text, keywords.location("pattern")))
            }
        }
        if let name = try keywords.string("format"), assertsFormats(dialect) { rule.format = Format(rawValue: name) }
        guard rule.minLength > 0 || rule.maxLength < .max || !rule.pattern.isNone || rule.format != nil else {
            return .none
        }
        program.strings.append(rule)
        return RuleIndex(program.strings.count - 1)
    }

    mutating func object(_ keywords: KeywordReader, _ dialect: Dialect) throws(SchemaError) -> RuleIndex {
        var rule = ObjectRule()
        var properties: [(name: String, node: RuleIndex, isRequired: Bool)] = []
        if dialect.vocabularies.contains(.applicator) {
            for (name, location) in try keywords.members("properties") ?? [] {
                properties.append((name, try node(location), false))
            }
            rule.patterns = try patternProperties(keywords)
            if let value = keywords["additionalProperties"] {
                rule.additional = try node(keywords.location("additionalProperties", value))
            }
            if let value = keywords["propertyNames"] {
                rule.propertyNames = try node(keywords.location("propertyNames", value))
            }
        }
        if dialect.vocabularies.contains(.validation) {
            rule.minProperties = try keywords.count("minProperties") ?? 0
            rule.maxProperties = try keywords.count("maxProperties") ?? .max
            let required = try keywords.names("required") ?? []
            var indexes: [ExactText: Int] = [:]
            if !required.isEmpty {
                for (index, property) in properties.enumerated() { indexes[ExactText(property.name)] = index }
            }
            for name in required {
                rule.requiredCount += 1
                if let index = indexes[ExactText(name)] {
                    properties[index].isRequired = true
                } else {
                    properties.append((name, .none, true))
                }
            }
        }
        rule.names = nameSet(properties)
        rule.dependencies = try dependencies(keywords, dialect)
        guard rule.hasMemberRules || rule.minProperties > 0 || rule.maxProperties < .max || !rule.dependencies.isEmpty
        else { return .none }
        program.objects.append(rule)
        return RuleIndex(program.objects.count - 1)
    }

    private mutating func patternProperties(_ keywords: KeywordReader) throws(SchemaError) -> PoolRange {
        var rules: [PatternRule] = []
        for (name, location) in try keywords.members("patternProperties") ?? [] {
            rules.append(PatternRule(pattern: Int32(try pattern(name, location)), node: try node(location)))
        }
        return Self.add(rules, to: &program.patternRules)
    }

    private mutating func dependencies(_ keywords: KeywordReader, _ dialect: Dialect) throws(SchemaError) -> PoolRange {
        var rules: [DependencyRule] = []
        if dialect.version != .draft7, dialect.vocabularies.contains(.validation) {
            for (name, location) in try keywords.members("dependentRequired") ?? [] {
                rules.append(try dependency(name, location, .dependentRequired))
            }
        }
        if dialect.vocabularies.contains(.applicator) {
            if dialect.version != .draft7 {
                for (name, location) in try keywords.members("dependentSchemas") ?? [] {
                    rules.append(
                        DependencyRule(name: self.name(name), node: try node(location), keyword: .dependentSchemas))
                }
            }
            for (name, location) in try keywords.members("dependencies") ?? [] {
                rules.append(try dependency(name, location, .dependencies))
            }
        }
        return Self.add(rules, to: &program.dependencies)
    }

    private mutating func dependency(
        _ name: String, _ location: SchemaLocation, _ keyword: Keyword
    ) throws(SchemaError) -> DependencyRule {
        var rule = DependencyRule(name: self.name(name), keyword: keyword)
        if keyword == .dependencies, location.value.kind != .array {
            rule.node = try node(location)
            return rule
        }
        guard let names = KeywordReader.names(location.value) else {
            throw registry.error(
                location,
                "\"\(keyword.rawValue)\" must contain arrays of different strings, not \(location.value.shown)")
        }
        rule.required = pool(names.map { self.name($0) })
        return rule
    }

    mutating func array(_ keywords: KeywordReader, _ dialect: Dialect) throws(SchemaError) -> RuleIndex {
        var rule = ArrayRule()
        rule.containsEvaluates = dialect.version != .draft7
        if dialect.vocabularies.contains(.applicator) {
            var rest = "items"
            if dialect.version == .draft7, keywords["items"]?.kind == .array {
                rest = "additionalItems"
                rule.prefix = try pool(SchemaRegistry.subschemas(of: .list, keywords.location("items")))
            } else if dialect.version != .draft7, let prefix = try keywords.schemas("prefixItems") {
                rule.prefix = try pool(prefix)
            }
            if let value = keywords[rest] { rule.items = try node(keywords.location(rest, value)) }
            if let value = keywords["contains"] { rule.contains = try node(keywords.location("contains", value)) }
        }
        if dialect.vocabularies.contains(.validation) {
            if dialect.version != .draft7 {
                rule.minContains = try keywords.count("minContains") ?? 1
                rule.maxContains = try keywords.count("maxContains") ?? .max
            }
            rule.minItems = try keywords.count("minItems") ?? 0
            rule.maxItems = try keywords.count("maxItems") ?? .max
            rule.isUnique = try keywords.bool("uniqueItems") ?? false
        }
        guard rule.hasElementRules || rule.minItems > 0 || rule.maxItems < .max || rule.isUnique else { return .none }
        program.arrays.append(rule)
        return RuleIndex(program.arrays.count - 1)
    }

    // MARK: Pools

    mutating func decimal(_ number: DecimalNumber) -> RuleIndex {
        program.decimals.append(number)
        return RuleIndex(program.decimals.count - 1)
    }

    mutating func name(_ name: String) -> Int32 {
        let bytes = Array(name.utf8)
        program.names.append(NameText(start: UInt32(program.nameBytes.count), count: UInt32(bytes.count)))
        program.nameBytes += bytes
        return Int32(program.names.count - 1)
    }

    mutating func nameSet(_ names: [(name: String, node: RuleIndex, isRequired: Bool)]) -> NameSet {
        guard !names.isEmpty else { return NameSet() }
        var capacity = 4
        while capacity < 2 * names.count { capacity *= 2 }
        var set = NameSet(
            slots: UInt32(program.slots.count), mask: UInt32(capacity - 1), entries: UInt32(program.entries.count))
        program.slots += Array(repeating: 0, count: capacity)
        for (name, node, isRequired) in names {
            let hash = Array(name.utf8).withUnsafeBytes { ValueCursor.hash(ofName: $0) }
            var slot = hash & set.mask
            while program.slots[Int(set.slots + slot)] != 0 { slot = (slot + 1) & set.mask }
            set.count += 1
            program.slots[Int(set.slots + slot)] = set.count
            program.entries.append(
                NameSet.Entry(hash: hash, name: self.name(name), node: node, isRequired: isRequired))
        }
        return set
    }
}
