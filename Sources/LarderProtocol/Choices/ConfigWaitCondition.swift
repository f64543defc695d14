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
