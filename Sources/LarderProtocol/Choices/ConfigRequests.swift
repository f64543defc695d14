import LarderEncoding
package import LarderJSON

extension ConfigApply {
    /// One change in the list of `config.apply`, which makes all changes of the list or none.
    package struct Change: Sendable, Equatable {
        package enum Operation: Sendable, Equatable {
            /// Set an override, as with `config.set`.
            /// - ttlMilliseconds: milliseconds until the override expires; nil for never
            case set(JSONValue, ttlMilliseconds: Int? = nil)
            /// Remove the overrides at and below the path, as with `config.unset`.
            case unset
            /// Change nothing at the path, and only compare the value there with ``Change/ifValue``.
            case test
        }

        package var operation: Operation
        package var path: JSONPath
        /// The resolved value that must be at the path before the first change of the list is made.
        package var ifValue: WireValueCondition

        package init(_ operation: Operation, at path: JSONPath, ifValue: WireValueCondition = .any) {
            self.operation = operation
            self.path = path
            self.ifValue = ifValue
        }

        private static let names: [StaticString] = ["op", "path", "value", "ttlMilliseconds", "ifValue", "ifAbsent"]

        init(from reader: MemberReader) throws(WireError) {
            try reader.rejectUnknown(Self.names)
            path = try reader.requiredPath()
            ifValue = try WireValueCondition(from: reader)
            let value = reader.value("value")
            let lifetime = try reader.int("ttlMilliseconds", in: 1...ConfigSet.Parameters.longestTTLMilliseconds)
            switch (try reader.requiredString("op"), value) {
            case ("set", let value?): operation = .set(value, ttlMilliseconds: lifetime)
            case ("set", nil): throw MemberReader.missing("value")
            case ("unset", nil) where lifetime == nil: operation = .unset
            case ("test", nil) where lifetime == nil:
                if ifValue == .any {
                    throw WireError(.invalidParams, "\"test\" requires \"ifValue\" or \"ifAbsent\"; add one of them")
                }
                operation = .test
            case ("unset", _), ("test", _):
                throw WireError(
                    .invalidParams, "\"value\" and \"ttlMilliseconds\" are only for \"set\"; leave them out")
            case (let op, _):
                throw WireError(
                    .invalidParams, "\"op\" must be \"set\", \"unset\" or \"test\", not \"\(op.excerpt)\"")
            }
            if path.isRoot, operation != .test {
                throw WireError(
                    .invalidParams,
                    "\"path\" is empty; name a member, because a list of changes cannot replace the whole document"
                )
            }
        }

        /// Reads the parameter `changes`.
        static func list(from reader: MemberReader) throws(WireError) -> [Change] {
            try list(reader.requiredValue("changes"))
        }

        /// Reads an array of changes. Errors name the change by its index from 0.
        /// - Parameter maxCount: the maximum number of changes.
        package static func list(
            _ list: JSONValue, maxCount: Int = ConfigApply.Parameters.maxChanges
        ) throws(WireError) -> [Change] {
            guard list.kind == .array, (1...maxCount).contains(list.count) else {
                let found = list.kind == .array ? "an array of \(list.count)" : list.kind.article
                throw WireError(
                    .invalidParams, "\"changes\" must be an array of 1 to \(maxCount) changes, not \(found)")
            }
            var changes: [Change] = []
            changes.reserveCapacity(list.count)
            for element in list.elements {
                do throws(WireError) {
                    changes.append(try Change(from: MemberReader(object: element)))
                } catch {
                    throw WireError(error.code, "changes[\(changes.count)]: \(error.detail)")
                }
            }
            return changes
        }

        func write(to writer: inout JSONWriter) {
            writer.beginObject()
            switch operation {
            case .set(let value, let lifetime):
                writer.member("op", "set")
                writer.member("path", path.pointer)
                writer.member("value", value)
                writer.member("ttlMilliseconds", lifetime)
            case .unset:
                writer.member("op", "unset")
                writer.member("path", path.pointer)
            case .test:
                writer.member("op", "test")
                writer.member("path", path.pointer)
            }
            ifValue.writeMembers(to: &writer)
            writer.endObject()
        }
    }
}

extension ConfigApply.Parameters {
    var comparesValues: Bool { changes.contains { $0.ifValue != .any } }
}

extension ConfigWait {
    /// The condition to wait for. On the wire, each case is a parameter of `config.wait` with the name of the case.
    package enum Condition: Sendable, Equatable {
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

extension ConfigRollback {
    /// The action of a `config.rollback` request: roll back, or end a rollback.
    package enum Action: Sendable, Equatable {
        /// Roll back to a revision. `hold` decides when documents from the namespace's source take effect again; nil
        /// for the agent's default.
        case goBack(to: Int, hold: Hold? = nil)
        /// End the rollback and resolve the current layers again.
        case release

        init(from reader: MemberReader) throws(WireError) {
            let revision = try reader.int("revision", in: 0...largestRevision)
            let hold = try reader.string("hold").map { (word) throws(WireError) in try Hold(word) }
            switch (revision, try reader.bool("release") ?? false) {
            case (let revision?, false): self = .goBack(to: revision, hold: hold)
            case (nil, true):
                if hold != nil {
                    throw WireError(.invalidParams, "\"hold\" requires \"revision\"; add it, or leave out \"hold\"")
                }
                self = .release
            default:
                throw WireError(.invalidParams, "give either \"revision\" or \"release\": true")
            }
        }

        // The generated code that writes the members of the request reads these properties.

        var revision: Int? {
            if case .goBack(let revision, _) = self { revision } else { nil }
        }

        var hold: Hold? {
            if case .goBack(_, let hold) = self { hold } else { nil }
        }

        var isRelease: Bool { self == .release }
    }
}

extension ConfigRollback.Hold {
    fileprivate init(_ word: String) throws(WireError) {
        guard let hold = Self(rawValue: word) else {
            throw WireError(.invalidParams, "\"hold\" must be \"untilNewer\" or \"untilReleased\"")
        }
        self = hold
    }
}
