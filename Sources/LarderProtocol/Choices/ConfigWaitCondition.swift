public import LarderJSON

extension ConfigWait {
    /// The condition to wait for. On the wire, each case is a parameter of `config.wait` with the name of the case.
    public enum Condition: Sendable, Equatable {
        /// The value at the path equals this value.
        case equals(JSONValue)
        /// The value at the path differs from this value, or there is no value.
        case notEquals(JSONValue)
        /// There is a value at the path (true), or there is no value (false).
        case exists(Bool)
        /// The snapshot has this revision or a newer one. `epoch` is the epoch of the revision; nil if the client does
        /// not specify it.
        case revisionAtLeast(Int, epoch: String?)

        init(from reader: MemberReader) throws(WireError) {
            var conditions: [Condition] = []
            if let value = reader.value("equals"), !value.isNull { conditions.append(.equals(value)) }
            if let value = reader.value("notEquals"), !value.isNull { conditions.append(.notEquals(value)) }
            if let exists = try reader.bool("exists") { conditions.append(.exists(exists)) }
            let epoch = try reader.string("epoch")
            if let revision = try reader.int("revisionAtLeast", in: 0...largestRevision) {
                conditions.append(.revisionAtLeast(revision, epoch: epoch))
            }
            guard conditions.count == 1 else {
                throw WireError(
                    .invalidParams,
                    "give exactly one of \"equals\", \"notEquals\", \"exists\" and \"revisionAtLeast\", not \(conditions.count)"
                )
            }
            self = conditions[0]
        }

        /// Writes the parameters of the condition into the object that was begun with `writer`.
        func writeMembers(to writer: inout JSONWriter) {
            switch self {
            case .equals(let value): writer.member("equals", value)
            case .notEquals(let value): writer.member("notEquals", value)
            case .exists(let exists): writer.member("exists", exists)
            case .revisionAtLeast(let revision, let epoch):
                writer.member("revisionAtLeast", revision)
                writer.member("epoch", epoch)
            }
        }
    }
}

/// The resolved value that must be at the path when a change is made. Otherwise the change fails with
/// ``WireError/Code/conflict``.
public enum ValueCondition: Sendable, Equatable {
    /// Any value, or none.
    case any
    /// No value.
    case absent
    /// A value that equals this one. The order of members does not count; the text of numbers does, so 1.0 does not
    /// equal 1.
    case equals(JSONValue)

    init(from reader: MemberReader) throws(WireError) {
        let value = reader.value("ifValue")
        let isAbsent = try reader.bool("ifAbsent") ?? false
        guard let value, !(value.isNull && reader.isPositional) else {
            self = isAbsent ? .absent : .any
            return
        }
        if isAbsent {
            throw WireError(.invalidParams, "\"ifValue\" and \"ifAbsent\" exclude each other; send one of them")
        }
        if value.isNull {
            throw WireError(
                .invalidParams,
                "\"ifValue\" is null, but no value in a configuration is; send \"ifAbsent\": true for no value")
        }
        self = .equals(value)
    }

    /// Writes `ifValue` or `ifAbsent`, if any, as a member of the object that the writer has begun.
    func writeMembers(to writer: inout JSONWriter) {
        switch self {
        case .any: break
        case .absent: writer.member("ifAbsent", true)
        case .equals(let value): writer.member("ifValue", value)
        }
    }
}

// The result of a comparison reveals the value, so a request that compares values requires the right to read.

extension ConfigSet.Parameters {
    var comparesValues: Bool { ifValue != .any }
}

extension ConfigUnset.Parameters {
    var comparesValues: Bool { ifValue != .any }
}

extension ConfigApply.Parameters {
    var comparesValues: Bool { changes.contains { $0.ifValue != .any } }
}

/// The revision that must be current when a change is made. Otherwise the change fails with
/// ``WireError/Code/conflict``.
public struct RevisionCondition: Sendable, Equatable {
    /// Nil for any revision.
    public var revision: Int?
    /// The epoch of ``revision``; nil for any.
    public var epoch: String?

    public init(_ revision: Int? = nil, epoch: String? = nil) {
        self.revision = revision
        self.epoch = epoch
    }

    init(from reader: MemberReader) throws(WireError) {
        revision = try reader.int("ifRevision", in: 0...largestRevision)
        epoch = try reader.string("epoch")
        if epoch != nil, revision == nil {
            throw WireError(.invalidParams, "\"epoch\" requires \"ifRevision\"; add it, or leave out \"epoch\"")
        }
    }

    /// Writes `ifRevision` and `epoch` as members of the object that the writer has begun.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("ifRevision", revision)
        writer.member("epoch", epoch)
    }
}
