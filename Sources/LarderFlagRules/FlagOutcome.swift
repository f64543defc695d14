package import LarderJSON

/// The limits of rules. A rule that exceeds one is ``FlagErrorCode/general``.
package enum FlagLimits {
    /// The maximum number of steps of one evaluation. Each operator, operand, array element and kibibyte of text is a
    /// step.
    package static let steps = 10_000
    /// The maximum nesting of operators and arrays in a rule, including the rules that it refers to with `$ref`.
    package static let depth = 64
}

/// The type that a caller expects a flag to have.
package enum FlagValueType: String, Sendable, CaseIterable {
    case boolean, string
    /// A number that is written as an integer and fits into 64 bits.
    case integer
    /// Any number that is finite in double precision.
    case double
    /// An object or an array.
    case object

    /// Whether a value is of this type.
    package func accepts(_ value: JSONValue) -> Bool {
        switch self {
        case .boolean: value.kind == .bool
        case .string: value.kind == .string
        case .integer: value.int != nil
        case .double: value.double != nil
        case .object: value.kind == .object || value.kind == .array
        }
    }
}

/// Why a flag has its value. The raw values are those of OpenFeature.
package enum FlagReason: String, Sendable, CaseIterable {
    /// The flag has no rule; the value is that of the default variant.
    case isStatic = "STATIC"
    /// The rule selected no variant; the value is that of the default variant, if the flag has one.
    case isDefault = "DEFAULT"
    /// The rule selected the variant.
    case targetingMatch = "TARGETING_MATCH"
    case disabled = "DISABLED"
    case error = "ERROR"
}

/// Why the evaluation of a flag failed. The raw values are those of OpenFeature.
package enum FlagErrorCode: String, Sendable, CaseIterable {
    case flagNotFound = "FLAG_NOT_FOUND"
    /// The flag is malformed.
    case parseError = "PARSE_ERROR"
    /// The value is not of the type that the caller expects.
    case typeMismatch = "TYPE_MISMATCH"
    /// The rule is too deep, needs too many steps, or selects a variant that does not exist.
    case general = "GENERAL"
}

/// The reason why a flag, or a set of flags, cannot be used.
package struct FlagProblem: Error, Sendable {
    package let code: FlagErrorCode
    package let message: String
    /// The place of the malformed value in the document of the flags, such as `/flags/banner/targeting/if/0`. If a rule
    /// has several operators, the place of the object that contains them.
    package let path: JSONPath
}

/// The result of an evaluation.
package struct FlagOutcome: Sendable {
    /// The value of the variant, with numbers as they are written. Nil if the caller must use its own default: if the
    /// flag is disabled, if there is no default variant, or after an error.
    package var value: JSONValue?
    /// The name of the variant. Nil if ``value`` is nil.
    package var variant: String?
    package var reason: FlagReason
    /// Nil unless ``reason`` is ``FlagReason/error``.
    package var errorCode: FlagErrorCode?
    package var errorMessage: String?
    /// The metadata of the flag, merged over the metadata of the set; an object.
    package var metadata: JSONValue

    /// The outcome of an evaluation that failed.
    package static func failure(_ code: FlagErrorCode, _ message: String, metadata: JSONValue) -> FlagOutcome {
        FlagOutcome(reason: .error, errorCode: code, errorMessage: message, metadata: metadata)
    }

    /// Whether two outcomes are the same for an application. Metadata and error messages do not count.
    package func isEquivalent(to other: FlagOutcome) -> Bool {
        value == other.value && variant.isSpelled(as: other.variant) && reason == other.reason
            && errorCode == other.errorCode
    }
}

/// The context of an evaluation: the facts about a user, a device or a request that rules can refer to.
package struct FlagContext: Sendable {
    /// The members of the context; always an object.
    package let object: JSONValue

    /// - Parameter object: the context. Any value other than an object is an empty context.
    package init(_ object: JSONValue = .emptyObject) { self.object = object.kind == .object ? object : .emptyObject }

    /// The identity of the subject; nil unless the member `targetingKey` is a string.
    package var targetingKey: String? { object.member("targetingKey")?.string }
}
