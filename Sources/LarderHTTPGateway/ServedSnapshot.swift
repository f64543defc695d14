package import LarderClientCore
import LarderConfigModel
import LarderDigest
import LarderEncoding
package import LarderFlagRules
package import LarderJSON
package import NIOCore

/// A snapshot of a namespace, prepared for requests: with its flags compiled and its secrets known.
package struct ServedSnapshot: Sendable {
    /// The result of a lookup.
    package enum Lookup: Sendable {
        case missing
        /// The value is secret or part of a secret.
        case secret
        /// The value exceeds ``maxValueBytes``.
        case tooLarge
        case found(ServedValue)
    }

    /// The maximum size of a value that is served. Preparing a larger one would delay other requests.
    package static let maxValueBytes = 1 << 20

    private let mapped: MappedSnapshot
    /// Nil if the patterns are unknown. Every value then counts as secret.
    private let secrets: SecretPatterns?
    /// The flags; nil if the gateway does not serve flags of the namespace.
    package let flags: FlagSet?
    /// The flags that contain a secret, or may refer to one.
    private let secretFlags: Set<ExactText>
    /// Whether all flags, with their names and the metadata of the set, are secret.
    package let areFlagsSecret: Bool

    /// Compiles the flags, which may take long for a large document.
    /// - Parameter member: the member of the document that contains the flags; empty if the whole document is in flagd's
    ///   format; nil if the gateway does not serve flags of the namespace
    package init(_ mapped: MappedSnapshot, flagsIn member: String?) {
        self.mapped = mapped
        let secrets = mapped.secretPaths.flatMap { try? SecretPatterns($0) }
        self.secrets = secrets
        guard let member else {
            (flags, secretFlags, areFlagsSecret) = (nil, [], false)
            return
        }
        func value(_ names: [String]) -> JSONValue { (try? mapped.value(at: JSONPath(names))) ?? .null }
        // The other members may be large.
        let document =
            member.isEmpty
            ? value([]) : .object([(member, value([member])), ("$evaluators", value(["$evaluators"]))])
        let set = FlagSet(in: document, member: member)
        flags = set
        guard let secrets else {
            (secretFlags, areFlagsSecret) = ([], true)
            return
        }
        func isSecret(_ path: [String], _ value: JSONValue?) -> Bool {
            value.map { secrets.masked($0, at: JSONPath(path)).1 } ?? false
        }
        let path = member.isEmpty ? ["flags"] : [member]
        areFlagsSecret =
            secrets.isSecret(JSONPath(path)) || member.isEmpty && isSecret(["metadata"], document.member("metadata"))
        let areRulesSecret = isSecret(["$evaluators"], document.member("$evaluators"))
        let definitions = document.value(at: JSONPath(path))
        secretFlags = Set(
            set.flags.lazy.filter { flag in
                areRulesSecret && flag.hasTargeting || isSecret(path + [flag.name], definitions?[flag.name])
            }.map { ExactText($0.name) })
    }

    /// The message of the error for a flag that is not served.
    static let secretFlag = "the settings of the agent declare a value secret that the flag may depend on"

    /// Evaluates a flag.
    /// - Parameter now: the time in seconds since 1970
    package func evaluate(_ name: String, _ context: FlagContext, now: Int64) -> FlagOutcome {
        guard let flags else { return .failure(.flagNotFound, "no flags are served", metadata: .emptyObject) }
        if areFlagsSecret || secretFlags.contains(ExactText(name)) {
            return .failure(.general, Self.secretFlag, metadata: .emptyObject)
        }
        return flags.evaluate(name, context: context, now: now)
    }

    /// Returns the value at a path. Secrets in the value are masked.
    package func value(at path: JSONPath) -> Lookup {
        guard let secrets, !secrets.isSecret(path) else { return .secret }
        // Values inside arrays are not in the index of the file, and are found by parsing the array.
        var names = path.segments
        while true {
            let (size, isArray) = mapped.withText(at: names) { ($0?.count ?? 0, $0?.first == UInt8(ascii: "[")) }
            if size > Self.maxValueBytes { return names.count == path.segments.count || isArray ? .tooLarge : .missing }
            if size > 0 { break }
            if names.popLast() == nil { return .missing }
        }
        // The value of a damaged file counts as missing.
        guard let value = try? mapped.value(at: path) else { return .missing }
        let (masked, isMasked) = secrets.masked(value, at: path)
        return .found(ServedValue(masked.compactBytes, isMasked: isMasked))
    }
}

/// A value as the gateway sends it: compact JSON.
package struct ServedValue: Sendable {
    package let body: ByteBuffer
    /// The entity tag, with its quotes: a digest of the body.
    package let etag: String
    /// Whether secrets in the value are masked.
    package let isMasked: Bool

    package init(_ text: [UInt8], isMasked: Bool) {
        body = ByteBuffer(bytes: text)
        etag = Self.etag(text)
        self.isMasked = isMasked
    }

    package static func etag(_ text: [UInt8]) -> String { "\"\(SHA256.hash(text).prefix(16).hex)\"" }
}
