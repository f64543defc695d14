public import LarderJSON

/// `config.diff`: what differs between two of the newest snapshots.
public enum ConfigDiff: WireMethod {
    public static let name = "config.diff"

    /// What to compare.
    public struct Parameters: WireParameters {
        /// The revision to begin from.
        public var from: Int
        /// The revision to go to; nil for the current one.
        public var to: Int?
        /// The namespace's name.
        public var namespace: String
        /// Where in the documents to compare; the root is all of them.
        public var path: JSONPath
        public static var positional: [String] { ["from", "to", "namespace", "path"] }
        public init(from: Int, to: Int? = nil, namespace: String = defaultNamespace, path: JSONPath = JSONPath([])) {
            self.from = from
            self.to = to
            self.namespace = namespace
            self.path = path
        }
        public init(from reader: MemberReader) throws(WireError) {
            from = try reader.requiredInt("from", in: 0...largestRevision)
            to = try reader.int("to", in: 0...largestRevision)
            namespace = try reader.namespace()
            path = try reader.path()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("from", from)
            writer.member("to", to)
            writer.namespace(namespace)
            writer.path(path)
            writer.endObject()
        }
    }

    /// One place that differs.
    public struct Change: Sendable, Equatable {
        /// What happened there.
        public enum Kind: String, Sendable {
            /// Nothing was there before.
            case added
            /// Nothing is there any more.
            case removed
            /// Something else is there.
            case changed
        }

        /// The place, from the top of the document.
        public var path: [String]
        /// What happened there.
        public var kind: Kind
        /// What was there.
        public var old: JSONValue?
        /// What is there.
        public var new: JSONValue?
        public init(path: [String], kind: Kind, old: JSONValue?, new: JSONValue?) {
            self.path = path
            self.kind = kind
            self.old = old
            self.new = new
        }
    }

    /// What `config.diff` answers.
    public struct Result: WireResult, Equatable {
        /// The revision that the difference begins from.
        public var from: Int
        /// The revision that it leads to.
        public var to: Int
        /// The epoch in which they count.
        public var epoch: String
        /// The merge patch (RFC 7396) from one value to the other; nil where none can say the difference, because the value
        /// at the path comes into being or vanishes.
        public var patch: JSONValue?
        /// Every place that differs, and none twice.
        public var changes: [Change]
        /// Whether secrets are masked in it.
        public var isMasked: Bool
        public init(from: Int, to: Int, epoch: String, patch: JSONValue?, changes: [Change], isMasked: Bool) {
            self.from = from
            self.to = to
            self.epoch = epoch
            self.patch = patch
            self.changes = changes
            self.isMasked = isMasked
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            from = try reader.requiredInt("from")
            to = try reader.requiredInt("to")
            epoch = try reader.requiredString("epoch")
            patch = reader.value("patch")
            changes = []
            for change in try reader.requiredValue("changes").elements {
                let reader = try MemberReader(object: change)
                // A kind that a later agent knows is a change of some sort.
                let kind = Change.Kind(rawValue: try reader.requiredString("kind")) ?? .changed
                changes.append(
                    Change(
                        path: try reader.path().segments, kind: kind, old: reader.value("old"),
                        new: reader.value("new")))
            }
            isMasked = try reader.bool("masked") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("from", from)
            writer.member("to", to)
            writer.member("epoch", epoch)
            writer.member("patch", patch)
            writer.name("changes")
            writer.beginArray()
            for change in changes { change.write(to: &writer) }
            writer.endArray()
            if isMasked { writer.member("masked", true) }
            writer.endObject()
        }
    }
}

extension ConfigDiff.Change {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.name("path")
        writer.beginArray()
        for name in path { writer.string(name) }
        writer.endArray()
        writer.member("kind", kind.rawValue)
        writer.member("old", old)
        writer.member("new", new)
        writer.endObject()
    }
}
