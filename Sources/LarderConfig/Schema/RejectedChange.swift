package import LarderConfigModel

/// A change that the schema has rejected and that no caller can repeat, such as a document of the remote source.
package struct RejectedChange: Sendable {
    /// The part of the configuration that a change replaces. A later change of the same part makes a rejected one
    /// obsolete.
    enum Subject: Sendable, Hashable {
        case files(FileLayer), remote, rules
        /// The override at a path that has expired.
        case expiry([String])

        /// The parts that a change replaces; empty if a client can repeat the change.
        static func all(of change: LayerChange) -> [Subject] {
            switch change.unconditional {
            case .files(let layer, _): [.files(layer)]
            case .remote, .dropRemote: [.remote]
            case .rules: [.rules]
            case .expireOverrides(let overrides): overrides.map { .expiry($0.path) }
            case .set, .unset, .rollback, .release, .increment, .several, .recheck, .requested: []
            }
        }

        /// The layer that the change would replace; nil for the rules of the settings.
        var layer: ConfigLayer? {
            switch self {
            case .files(let layer): layer.layer
            case .remote: .remote
            case .expiry: .override
            case .rules: nil
            }
        }

        /// The position in the order in which rejected changes are tried again.
        var position: Int {
            switch self {
            case .files(.defaults): 0
            case .files(.host): 1
            case .remote: 2
            case .rules: 3
            case .expiry: 4
            }
        }
    }

    let subject: Subject
    let change: LayerChange
    package internal(set) var problems: [SchemaProblem]
    /// In milliseconds since 1970.
    package let at: Int

    /// The layer whose new content was rejected; nil for the locks and experiments of the settings.
    package var layer: ConfigLayer? { subject.layer }

    /// The upstream version of a rejected document; nil if it has none, and for other changes.
    package var version: String? { Self.version(of: change) }

    static func version(of change: LayerChange) -> String? {
        if case .remote(let document, _, _, _) = change { document.version?.text } else { nil }
    }
}
