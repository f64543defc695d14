package import LarderJSON

/// The resolved value that must be at the path when a change is made. Otherwise the change fails with
/// ``WireErrorCode/conflict``.
package enum WireValueCondition: Sendable, Equatable {
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

/// The revision that must be current when a change is made. Otherwise the change fails with
/// ``WireErrorCode/conflict``.
package struct WireRevisionCondition: Sendable, Equatable {
    /// Nil for any revision.
    package var revision: Int?
    /// The epoch of ``revision``; nil for any.
    package var epoch: String?

    package init(_ revision: Int? = nil, epoch: String? = nil) {
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

// The result of a comparison reveals the value, so a request that compares values requires the right to read.

extension ConfigSet.Parameters {
    var comparesValues: Bool { ifValue != .any }
}

extension ConfigUnset.Parameters {
    var comparesValues: Bool { ifValue != .any }
}
