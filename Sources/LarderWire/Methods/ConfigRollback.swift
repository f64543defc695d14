public import JSON

/// `config.rollback`: takes up the content of one of the newest snapshots again, or releases what that holds.
public enum ConfigRollback: WireMethod {
    public static let name = "config.rollback"

    /// What to do.
    public enum Action: Sendable, Equatable {
        /// Go back to a revision.
        case goBack(to: Int)
        /// Show what the sources say again.
        case release
    }

    /// What to do and where.
    public struct Parameters: WireParameters {
        /// What to do.
        public var action: Action
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["revision", "namespace", "release"] }
        public init(_ action: Action, namespace: String = defaultNamespace) {
            self.action = action
            self.namespace = namespace
        }
        public init(from reader: MemberReader) throws(WireError) {
            let revision = try reader.int("revision", in: 0...largestRevision)
            switch (revision, try reader.bool("release") ?? false) {
            case (let revision?, false): action = .goBack(to: revision)
            case (nil, true): action = .release
            default:
                throw WireError(.invalidParams, "give either \"revision\" or \"release\": true, and not both")
            }
            namespace = try reader.namespace()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            if case .goBack(let revision) = action { writer.member("revision", revision) }
            writer.namespace(namespace)
            if case .release = action { writer.member("release", true) }
            writer.endObject()
        }
    }

    /// The snapshot that carries the change, and whether something is held in it.
    public struct Result: WireResult, Equatable {
        /// The first revision with the change in it; the current one where nothing changed.
        public var revision: Int
        /// The epoch in which that revision counts.
        public var epoch: String
        /// Whether the resolved configuration differs from before.
        public var changed: Bool
        /// Whether documents of an earlier revision are shown instead of those that the sources say now.
        public var held: Bool
        /// Whether a release ended what a rollback held, which changes nothing where the sources say the same by now.
        public var released: Bool
        public init(revision: Int, epoch: String, changed: Bool, held: Bool, released: Bool = false) {
            self.revision = revision
            self.epoch = epoch
            self.changed = changed
            self.held = held
            self.released = released
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            changed = try reader.requiredBool("changed")
            held = try reader.requiredBool("held")
            released = try reader.bool("released") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("changed", changed)
            writer.member("held", held)
            if released { writer.member("released", true) }
            writer.endObject()
        }
    }
}
