package import LarderConfigModel
package import LarderJSON

/// Explains the value at a path: the value that each layer has there, and its source. Times are milliseconds since
/// 1970. Secrets are not masked.
package struct ConfigExplanation: Sendable {
    /// The source of a layer's value.
    package struct Source: Sendable, Hashable {
        /// `file` for a file layer, `push` for a pushed document, `set` for an override, `settings` for an experiment
        /// in the settings; otherwise the kind of the remote source (`http`, `file` and so on).
        package var kind: String
        /// The URL, file or directory of the source; nil for `push`, `set` and `settings`.
        package var location: String?
        package var file: String?
        /// The line in `file` at which the value is set, from 1; nil if unknown.
        package var line: Int?
        /// The key in a key-value store; nil for any other source, or if the key is unknown.
        package var key: String?
        /// The upstream version of the remote document; nil for none, and for other layers.
        package var version: String?
        /// For an experiment, the name of the overlay (the arm that this host is in); nil for other layers.
        package var experiment: String?
        /// The client that set or pushed the value; nil if the value does not come from a client, or the client is
        /// unknown.
        package var peer: Peer?
        /// Why the client set or pushed the value; nil if the client gave no reason.
        package var reason: String?
        /// When the override expires; nil for never.
        package var expiresAt: Int?
    }

    /// A layer's effect at the path.
    package struct Layer: Sendable {
        package var layer: ConfigLayer
        /// The layer's value at the path; nil for none.
        package var value: JSONValue?
        /// Whether the layer removes the values of lower layers: by a null at or above the path, or by an array,
        /// string, number or Boolean above the path that has no value at the path.
        package var hides: Bool
        /// The source of the effect; nil if the layer has no effect at the path.
        package var source: Source?
        /// When the effect began; nil if the layer has no effect, or if the time is not known.
        package var since: PathProvenance.Since?
        /// The revision whose content a rollback holds in this layer; nil if the layer is not held.
        package var heldRevision: Int?
    }

    /// The lock that applies to the path.
    package struct Lock: Sendable, Hashable {
        /// The locked path: the explained path, or one above it.
        package var path: JSONPath
        /// The file that sets the locked value; nil if no file does.
        package var file: String?
        /// The line in `file` at which the value is set, from 1; nil if unknown.
        package var line: Int?
        /// The settings file that declares the lock; nil if the settings are not from a file.
        package var settings: String?
    }

    /// The description of a value in the schema of its namespace.
    package struct Documentation: Sendable, Equatable {
        package var title: String?
        package var description: String?
        package var defaultValue: JSONValue?
    }

    package var path: JSONPath
    /// The revision of the explained snapshot.
    package var revision: Int
    /// The value in the snapshot; nil for none.
    package var value: JSONValue?
    /// The layer whose value takes effect: the highest one that has an effect at the path and is not suppressed by the
    /// lock; nil for none.
    package var winner: ConfigLayer?
    /// The lock that applies to the path; nil for none.
    package var lock: Lock?
    /// All layers, lowest first.
    package var layers: [Layer]
    /// The description of the value in the schema; nil if there is none.
    package var documentation: Documentation?
}
