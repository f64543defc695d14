package import LarderConfigModel
package import LarderJSON

/// How what is at a path came about: what each layer says there, and where it has it from. Times are milliseconds since
/// 1970. Secrets are in clear.
package struct ConfigExplanation: Sendable {
    /// Where a layer has from what it says.
    package struct Source: Sendable, Hashable {
        /// The kind of a remote source (`http`, `file` and so on), or `file`, `push`, `set`, `settings`.
        package var kind: String
        /// A URL, file or directory.
        package var location: String?
        package var file: String?
        /// The line in that file, from 1.
        package var line: Int?
        /// The key in a store of keys.
        package var key: String?
        /// The upstream version.
        package var version: String?
        /// The name of the overlay: the arm of an experiment that this host is in.
        package var experiment: String?
        /// Who set or pushed it.
        package var peer: Peer?
        /// When it ends by itself.
        package var expiresAt: Int?
    }

    /// One layer's say.
    package struct Layer: Sendable {
        package var layer: ConfigLayer
        /// The value that it has there; nil for none.
        package var value: JSONValue?
        /// Whether it has no value there and hides what lower layers have: by a null at the path or above it, or by
        /// something above it that is no object.
        package var hides: Bool
        /// Where it has it from; nil where it says nothing.
        package var source: Source?
        /// Since when; nil where it says nothing, or that is not known.
        package var since: PathProvenance.Since?
        /// The revision that a rollback went back to, where it shows the layer as it was then instead of as it is now; nil
        /// where it does not.
        package var heldRevision: Int?
    }

    /// The lock that the path is under.
    package struct Lock: Sendable, Hashable {
        /// The locked path: that of the question, or one above it.
        package var path: JSONPath
        /// The file that pins it; nil where no file says anything there.
        package var file: String?
        /// The line in that file, from 1.
        package var line: Int?
        /// The settings file that locks it; nil where the settings came from no file.
        package var settings: String?
    }

    package var path: JSONPath
    /// The snapshot that is explained.
    package var revision: Int
    /// The value in it; nil for none.
    package var value: JSONValue?
    /// The highest layer that has a say there and is not kept from it by the lock; nil where none has.
    package var winner: ConfigLayer?
    /// The lock that the path is under; nil for none.
    package var lock: Lock?
    /// All layers, lowest first.
    package var layers: [Layer]
}
