public import LarderJSON

/// `config.rollback`: takes up the content of one of the newest snapshots again, or releases what that holds.
public enum ConfigRollback: WireMethod {
    public static let name = "config.rollback"

    /// What to do.
    public enum Action: Sendable, Equatable {
        /// Go back to a revision, and hold what the sources say now by a rule; nil for the agent's default.
        case goBack(to: Int, hold: Hold? = nil)
        /// Show what the sources say again.
        case release
    }

    /// Which document of the source ends the hold. A release, a forced refresh and a forced push end every hold.
    public enum Hold: String, Sendable, CaseIterable {
        /// A newer document than the refused one.
        case untilNewer
        /// None.
        case untilReleased
    }

    /// What to do and where.
    public struct Parameters: WireParameters {
        /// What to do.
        public var action: Action
        /// The namespace's name.
        public var namespace: String
        public static var positional: [String] { ["revision", "namespace", "release", "hold"] }
        public init(_ action: Action, namespace: String = defaultNamespace) {
            self.action = action
            self.namespace = namespace
        }
        public init(from reader: MemberReader) throws(WireError) {
            let revision = try reader.int("revision", in: 0...largestRevision)
            let hold = try reader.string("hold").map { (word) throws(WireError) in try Hold(word) }
            switch (revision, try reader.bool("release") ?? false) {
            case (let revision?, false): action = .goBack(to: revision, hold: hold)
            case (nil, true):
                if hold != nil { throw WireError(.invalidParams, "give \"hold\" with \"revision\" only") }
                action = .release
            default:
                throw WireError(.invalidParams, "give either \"revision\" or \"release\": true, and not both")
            }
            namespace = try reader.namespace()
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            if case .goBack(let revision, _) = action { writer.member("revision", revision) }
            writer.namespace(namespace)
            if case .goBack(_, let hold?) = action { writer.member("hold", hold.rawValue) }
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
        /// The rule of that hold; nil if nothing is held, or from an agent that does not report it.
        public var hold: Hold?
        /// Whether a release ended what a rollback held, which changes nothing where the sources say the same by now.
        public var released: Bool
        public init(
            revision: Int, epoch: String, changed: Bool, held: Bool, hold: Hold? = nil, released: Bool = false
        ) {
            self.revision = revision
            self.epoch = epoch
            self.changed = changed
            self.held = held
            self.hold = hold
            self.released = released
        }
        public init(from value: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: value)
            revision = try reader.requiredInt("revision")
            epoch = try reader.requiredString("epoch")
            changed = try reader.requiredBool("changed")
            held = try reader.requiredBool("held")
            hold = try reader.string("hold").flatMap(Hold.init(rawValue:))
            released = try reader.bool("released") ?? false
        }
        public func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("revision", revision)
            writer.member("epoch", epoch)
            writer.member("changed", changed)
            writer.member("held", held)
            writer.member("hold", hold?.rawValue)
            if released { writer.member("released", true) }
            writer.endObject()
        }
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
