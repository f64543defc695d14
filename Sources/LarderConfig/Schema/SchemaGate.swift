package import LarderConfigModel

/// A change that the schema has refused and that no caller can repeat, such as a document of the remote source.
package struct RefusedChange: Sendable {
    /// What a change replaces. A later change of the same kind makes the refused one obsolete.
    enum Subject: Sendable, Hashable {
        case files(FileLayer), remote, overrides, rules

        init?(_ change: LayerChange) {
            switch change.unconditional {
            case .files(let layer, _): self = .files(layer)
            case .remote, .dropRemote: self = .remote
            case .expireOverrides: self = .overrides
            case .rules: self = .rules
            default: return nil
            }
        }

        /// The layer that the change would replace; nil for the rules of the settings.
        var layer: ConfigLayer? {
            switch self {
            case .files(let layer): layer.layer
            case .remote: .remote
            case .overrides: .override
            case .rules: nil
            }
        }
    }

    let subject: Subject
    let change: LayerChange
    package let problems: [SchemaProblem]
    /// In milliseconds since 1970.
    package let at: Int

    /// The layer whose new content was refused; nil for the locks and experiments of the settings.
    package var layer: ConfigLayer? { subject.layer }

    /// The upstream version of a refused document; nil if it has none, and for other changes.
    package var version: String? {
        if case .remote(let document, _, _, _) = change { document.version?.text } else { nil }
    }
}

extension LayerChange {
    /// The change without `force`, which a client requested for the first attempt only.
    fileprivate var unforced: LayerChange {
        guard case .remote(let document, let origin, _, let isPush) = self else { return self }
        return .remote(document, origin: origin, force: false, isPush: isPush)
    }
}

/// The schema of a namespace, and the changes that it has refused. They are tried again together with each later change,
/// because that change may make the configuration valid.
struct SchemaGate: Sendable {
    private(set) var schema: NamespaceSchema?
    /// Whether the current snapshot is known to satisfy the schema.
    var isCurrentValid = false
    /// The refused changes, the oldest first; at most one for each subject.
    private(set) var refused: [RefusedChange] = []

    init(_ schema: NamespaceSchema?) { self.schema = schema }

    /// The status of a gate whose current snapshot has been checked.
    /// - Parameter problems: the violations of the schema by the current snapshot
    func status(_ problems: [SchemaProblem]) -> SchemaStatus {
        SchemaStatus(digest: schema?.digest, problems: problems, refusal: refused.last)
    }

    /// Checks the first configuration of a store. Refuses the content of files if it would violate the schema: first of
    /// no layer, then of one, then of all.
    /// - Parameters:
    ///   - layers: the recovered layers with the current content of the files; refused content is replaced
    ///   - previous: the file layers of the last known good state
    ///   - now: in milliseconds since 1970
    /// - Returns: the violations by the remaining layers; empty if these are valid
    mutating func open(
        _ layers: inout Layers, previous: [FileLayer: FileDocument], _ schema: NamespaceSchema, now: Int
    ) -> [SchemaProblem] {
        let problems = schema.problems(of: layers.resolved(), in: layers)
        isCurrentValid = problems.isEmpty
        if problems.isEmpty || !schema.refuses { return problems }
        let changed = FileLayer.allCases.filter { layers[$0]?.content != previous[$0]?.content }
        if changed.isEmpty { return problems }
        let choices = changed.count == 1 ? [changed] : changed.reversed().map { [$0] } + [changed]
        var (kept, remaining) = (layers, problems)
        for choice in choices {
            kept = layers
            for layer in choice { kept[layer] = previous[layer] }
            remaining = schema.problems(of: kept.resolved(), in: kept)
            isCurrentValid = remaining.isEmpty
            if remaining.isEmpty || choice == changed {
                for layer in choice {
                    let content = layers[layer]?.content ?? .empty
                    refused.append(
                        RefusedChange(
                            subject: .files(layer), change: .files(layer, content), problems: problems, at: now))
                }
                break
            }
        }
        layers = kept
        return remaining
    }

    mutating func replace(_ schema: NamespaceSchema?) {
        self.schema = schema
        isCurrentValid = false
    }

    /// The refused changes to try again together with other changes: all except for those that the others replace.
    func changes(toRetryWith others: [LayerChange]) -> [LayerChange] {
        if refused.isEmpty { return [] }
        let replaced = Set(others.compactMap(RefusedChange.Subject.init))
        return refused.filter { !replaced.contains($0.subject) }.map(\.change)
    }

    /// Retains a refused change, unless a client requested it.
    /// - Returns: the retained change, and whether the previous change of its kind was refused for the same violations;
    ///   nil if the change is not retained
    mutating func refuse(
        _ change: LayerChange, _ problems: [SchemaProblem], now: Int
    ) -> (change: RefusedChange, isKnown: Bool)? {
        guard !change.comesFromClient, let subject = RefusedChange.Subject(change) else { return nil }
        let isKnown = refused.contains { $0.subject == subject && $0.problems == problems }
        refused.removeAll { $0.subject == subject }
        let retained = RefusedChange(subject: subject, change: change.unforced, problems: problems, at: now)
        refused.append(retained)
        return (retained, isKnown)
    }

    /// Whether the locks and experiments of new settings have been refused.
    var refusesRules: Bool { refused.contains { $0.subject == .rules } }

    /// Forgets a refused change of the remote layer, because the source no longer has the refused document.
    mutating func forgetRemote() { refused.removeAll { $0.subject == .remote } }

    /// Forgets a refused change of the remote layer that does not fit the source of new settings.
    /// - Parameter location: the location of the source; nil for none
    mutating func forgetRemote(unlessFrom location: String?) {
        refused.removeAll { refused in
            switch refused.change {
            case .remote(_, let origin, _, _): origin != location
            case .dropRemote: location != nil
            default: false
            }
        }
    }

    /// Forgets the refused changes that committed changes include or replace.
    mutating func committed(_ changes: [LayerChange]) {
        if refused.isEmpty { return }
        let subjects = Set(changes.compactMap(RefusedChange.Subject.init))
        refused.removeAll { subjects.contains($0.subject) }
    }
}
