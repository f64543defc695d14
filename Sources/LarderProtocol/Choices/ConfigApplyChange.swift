import LarderEncoding
public import LarderJSON

extension ConfigApply {
    /// One change in the list of `config.apply`, which makes all changes of the list or none.
    public struct Change: Sendable, Equatable {
        public enum Operation: Sendable, Equatable {
            /// Set an override, as with `config.set`.
            /// - ttlMilliseconds: milliseconds until the override expires; nil for never
            case set(JSONValue, ttlMilliseconds: Int? = nil)
            /// Remove the overrides at and below the path, as with `config.unset`.
            case unset
            /// Change nothing at the path, and only compare the value there with ``Change/ifValue``.
            case test
        }

        public var operation: Operation
        public var path: JSONPath
        /// The resolved value that must be at the path before the first change of the list is made.
        public var ifValue: ValueCondition

        public init(_ operation: Operation, at path: JSONPath, ifValue: ValueCondition = .any) {
            self.operation = operation
            self.path = path
            self.ifValue = ifValue
        }

        private static let names: [StaticString] = ["op", "path", "value", "ttlMilliseconds", "ifValue", "ifAbsent"]

        init(from reader: MemberReader) throws(WireError) {
            try reader.rejectUnknown(Self.names)
            path = try reader.requiredPath()
            ifValue = try ValueCondition(from: reader)
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
