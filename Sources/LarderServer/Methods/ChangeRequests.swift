import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol

// Conditions and dry runs of the methods that change a namespace.

extension LayerChange {
    /// The change with the conditions and the reason of a request; usually the request has none of them.
    /// - Parameter path: the path at which the value is compared with `ifValue`
    func on(
        _ ifRevision: WireRevisionCondition, _ path: [String] = [], _ ifValue: WireValueCondition = .any,
        because reason: String?
    ) -> LayerChange {
        if ifRevision.revision == nil, case .any = ifValue, reason == nil { return self }
        return on(ChangeTerms(ifRevision, path, ifValue, because: reason))
    }
}

extension ChangeTerms {
    /// - Parameter path: the path at which the value is compared with `ifValue`
    init(
        _ ifRevision: WireRevisionCondition, _ path: [String] = [], _ ifValue: WireValueCondition = .any,
        because reason: String?
    ) {
        let comparisons = ChangeCondition.Comparison(ifValue, at: path).map { [$0] } ?? []
        self.init(condition: ChangeCondition(ifRevision, comparisons: comparisons), reason: reason)
    }
}

extension ChangeCondition {
    /// Converts the conditions of a request; nil if the request has none.
    init?(_ ifRevision: WireRevisionCondition, comparisons: [Comparison] = []) {
        if ifRevision.revision == nil, comparisons.isEmpty { return nil }
        self.init(revision: ifRevision.revision, epoch: ifRevision.epoch, comparisons: comparisons)
    }
}

extension ChangeCondition.Comparison {
    /// Converts the value condition of a request; nil if the request has none.
    init?(_ condition: WireValueCondition, at path: [String]) {
        switch condition {
        case .any: return nil
        case .absent: self.init(path: path, expected: nil)
        case .equals(let value): self.init(path: path, expected: value.detached())
        }
    }
}

extension MethodCall {
    func visibility(in namespace: ConfigNamespace) -> ValueVisibility {
        ValueVisibility(
            mayRead: connection.rights.mayRead(namespace.name), secrets: context.secrets(of: namespace))
    }
}

/// The differences between two documents, as a peer may see them.
struct VisibleDifference {
    private(set) var changes: [ConfigDiff.Change] = []
    private(set) var isMasked = false

    init(_ difference: ConfigDifference, _ visibility: ValueVisibility) {
        for place in difference.places {
            changes.append(
                ConfigDiff.Change(
                    path: place.path.segments, kind: place.old == nil ? .added : place.new == nil ? .removed : .changed,
                    old: shown(place.old, at: place.path, visibility),
                    new: shown(place.new, at: place.path, visibility)))
        }
    }

    private mutating func shown(_ value: JSONValue?, at path: JSONPath, _ visibility: ValueVisibility) -> JSONValue? {
        guard let value else { return nil }
        let (shown, hidesSomething) = visibility.shown(value, at: path)
        isMasked = isMasked || hidesSomething
        return shown
    }
}

/// The result of a dry run.
struct DryRun {
    let preview: ChangePreview
    let epoch: String
    let shown: VisibleDifference
    /// Whether the peer may read the configuration.
    let mayRead: Bool

    var changed: Bool { !shown.changes.isEmpty }

    /// The result in the form of the methods that return a `WireConfigChange`, such as `config.set`.
    var change: WireConfigChange {
        WireConfigChange(
            revision: preview.current.revision, epoch: epoch, changed: changed,
            expiresAt: preview.result.lifetime?.expiresAt.map { Timestamp(milliseconds: $0) },
            lifetimeChanged: preview.result.lifetime?.changed ?? false, isDryRun: true, changes: shown.changes,
            isMasked: shown.isMasked, schemaErrors: schemaErrors)
    }

    /// The violations of the schema; nil for none. Empty if there are some that the peer may not see.
    var schemaErrors: [SchemaError]? {
        if preview.schemaProblems.isEmpty { return nil }
        return mayRead ? preview.schemaProblems.map(SchemaError.init) : []
    }
}

extension ConfigNamespace {
    /// Returns what a commit of the change would do, and changes nothing.
    func preview(_ change: LayerChange, _ visibility: ValueVisibility) async throws(WireError) -> WireConfigChange {
        do throws(ConfigError) {
            return try await dryRun(change, visibility).change
        } catch {
            throw WireError(error, of: publication, visibility)
        }
    }

    func dryRun(_ change: LayerChange, _ visibility: ValueVisibility) async throws(ConfigError) -> DryRun {
        let preview = try await preview(change)
        return DryRun(
            preview: preview, epoch: publication.epoch,
            shown: VisibleDifference(await preview.difference(), visibility), mayRead: visibility.mayRead)
    }
}
