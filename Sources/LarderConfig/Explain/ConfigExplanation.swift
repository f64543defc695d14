public import LarderJSON

/// How what is at a path came about: what each layer says there, and where it has it from. Times are milliseconds since
/// 1970. Secrets are in clear.
public struct ConfigExplanation: Sendable {
    /// Where a layer has from what it says.
    public struct Source: Sendable, Hashable {
        /// The kind of a remote source (`http`, `file` and so on), or `file`, `push`, `set`, `settings`.
        public var kind: String
        /// A URL, file or directory.
        public var location: String?
        public var file: String?
        /// The line in that file, from 1.
        public var line: Int?
        /// The key in a store of keys.
        public var key: String?
        /// The upstream version.
        public var version: String?
        /// The name of the overlay: the arm of an experiment that this host is in.
        public var experiment: String?
        /// Who set or pushed it.
        public var peer: Peer?
        /// When it ends by itself.
        public var expiresAt: Int?
    }

    /// One layer's say.
    public struct Layer: Sendable {
        public var layer: ConfigLayer
        /// The value that it has there; nil for none.
        public var value: JSONValue?
        /// Whether it has no value there and hides what lower layers have: by a null at the path or above it, or by
        /// something above it that is no object.
        public var hides: Bool
        /// Where it has it from; nil where it says nothing.
        public var source: Source?
        /// Since when; nil where it says nothing, or that is not known.
        public var since: PathProvenance.Since?
        /// The revision that a rollback went back to, where it shows the layer as it was then instead of as it is now; nil
        /// where it does not.
        public var heldRevision: Int?
    }

    /// The lock that the path is under.
    public struct Lock: Sendable, Hashable {
        /// The locked path: that of the question, or one above it.
        public var path: JSONPath
        /// The file that pins it; nil where no file says anything there.
        public var file: String?
        /// The line in that file, from 1.
        public var line: Int?
        /// The settings file that locks it; nil where the settings came from no file.
        public var settings: String?
    }

    public var path: JSONPath
    /// The snapshot that is explained.
    public var revision: Int
    /// The value in it; nil for none.
    public var value: JSONValue?
    /// The highest layer that has a say there and is not kept from it by the lock; nil where none has.
    public var winner: ConfigLayer?
    /// The lock that the path is under; nil for none.
    public var lock: Lock?
    /// All layers, lowest first.
    public var layers: [Layer]
}
