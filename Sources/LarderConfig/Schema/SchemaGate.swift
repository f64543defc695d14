import LarderConfigModel

/// The schema of a namespace, and the changes that it has rejected. They are tried again after each later change,
/// because that change may make them valid.
struct SchemaGate: Sendable {
    private(set) var schema: NamespaceSchema?
    /// Whether the current snapshot is known to satisfy the schema.
    var isCurrentValid = false
    /// The rejected changes, the oldest first; at most one for each subject.
    private(set) var rejected: [RejectedChange] = []

    init(_ schema: NamespaceSchema?) { self.schema = schema }

    /// How changes that violate the schema are treated; nil if there is no schema.
    var enforcement: SchemaSettings.Enforcement? { schema?.settings.enforcement }

    /// Whether there is neither a schema nor a rejected change.
    var isIdle: Bool { enforcement == nil && rejected.isEmpty }

    mutating func replace(_ schema: NamespaceSchema?) {
        self.schema = schema
        isCurrentValid = false
    }

    /// The status of a gate whose current snapshot has been checked.
    /// - Parameter problems: the violations of the schema by the current snapshot
    func status(_ problems: [SchemaProblem]) -> SchemaStatus {
        SchemaStatus(digest: schema?.digest, problems: problems, rejection: rejected.last)
    }

    /// Whether a change is still rejected, and has not been replaced or forgotten.
    func contains(_ change: RejectedChange) -> Bool {
        rejected.contains { $0.subject == change.subject && $0.at == change.at && $0.version == change.version }
    }

    /// Whether the locks and experiments of new settings have been rejected.
    var rejectsRules: Bool { rejected.contains { $0.subject == .rules } }

    /// The rejected changes in the order in which they are tried again: that of their layers.
    var inLayerOrder: [RejectedChange] { rejected.sorted { $0.subject.position < $1.subject.position } }

    /// The rejected changes that a change does not replace, in the order of their layers.
    func others(than change: LayerChange) -> [LayerChange] {
        if rejected.isEmpty { return [] }
        let replaced = RejectedChange.Subject.all(of: change)
        return inLayerOrder.filter { !replaced.contains($0.subject) }.map(\.change)
    }

    /// Retains a rejected change, unless a client requested it. A change of several overrides that have expired is not
    /// retained, because each of them is tried alone.
    /// - Returns: the retained change, and whether the same change was rejected before for the same violations; nil if
    ///   the change is not retained
    mutating func reject(
        _ change: LayerChange, _ problems: [SchemaProblem], now: Int
    ) -> (change: RejectedChange, isKnown: Bool)? {
        let subjects = RejectedChange.Subject.all(of: change)
        guard !change.comesFromClient, subjects.count == 1 else { return nil }
        let problems = problems.map(\.withoutValue)
        let version = RejectedChange.version(of: change)
        let index = rejected.firstIndex {
            $0.subject == subjects[0] && $0.problems == problems && $0.version == version
        }
        let retained = RejectedChange(
            subject: subjects[0], change: change.unforced, problems: problems, at: index.map { rejected[$0].at } ?? now)
        if let index {
            rejected[index] = retained
        } else {
            rejected.removeAll { $0.subject == subjects[0] }
            rejected.append(retained)
        }
        return (retained, index != nil)
    }

    /// Forgets the rejected changes that committed changes include or replace.
    mutating func committed(_ changes: [LayerChange]) {
        if rejected.isEmpty { return }
        let subjects = Set(changes.flatMap(RejectedChange.Subject.all))
        rejected.removeAll { subjects.contains($0.subject) }
    }

    /// Forgets a rejected change of the remote layer, because the source no longer has the rejected document.
    mutating func forgetRemote() { rejected.removeAll { $0.subject == .remote } }

    /// Forgets a rejected change of the remote layer that does not fit the source of new settings.
    /// - Parameter source: the identity of the source; nil for none
    mutating func forgetRemote(unlessFrom source: String?) {
        rejected.removeAll { rejected in
            switch rejected.change {
            case .remote(let document, let origin, _, _): (document.source ?? origin) != source
            case .dropRemote: source != nil
            default: false
            }
        }
    }

    // MARK: Start

    /// Checks the first configuration of a store. If it violates the schema, the changes since the last known good state
    /// are applied one by one, in the order of their layers. Those that leave the configuration invalid are rejected.
    /// - Parameters:
    ///   - layers: the layers of the last known good state with all changes; rejected changes are undone
    ///   - lastGood: the layers of the last known good state
    ///   - now: in milliseconds since 1970
    /// - Returns: the violations by the remaining layers; empty if these are valid
    mutating func open(_ layers: inout Layers, lastGood: Layers, now: Int) -> [SchemaProblem] {
        guard let schema else { return [] }
        let new = layers
        let changes = StartChange.all(since: lastGood, in: new)
        var remaining = schema.problems(of: new.resolved(), in: new)
        isCurrentValid = remaining.isEmpty
        if !schema.rejects { return remaining }
        if remaining.isEmpty,
            changes.allSatisfy(\.concernsOnlyOverrides) || schema.hiddenProblems(in: new, previous: lastGood).isEmpty
        {
            return []
        }
        for change in changes { change.undo(in: &layers, lastGood) }
        remaining = schema.problems(of: layers.resolved(), in: layers)
        var waiting = changes.map { (change: $0, problems: [SchemaProblem]()) }
        var index = 0
        while index < waiting.count {
            var next = layers
            waiting[index].change.apply(to: &next, from: new, now: now)
            var problems = schema.problems(of: next.resolved(), in: next)
            if problems.isEmpty, !waiting[index].change.concernsOnlyOverrides {
                problems = schema.hiddenProblems(in: next, previous: layers)
            }
            if problems.isEmpty {
                (layers, remaining) = (next, [])
                waiting.remove(at: index)
                // The changes before this one may be valid now.
                index = 0
            } else if let parts = waiting[index].change.parts {
                waiting.replaceSubrange(index...index, with: parts.map { (change: $0, problems: []) })
            } else {
                waiting[index].problems = problems
                index += 1
            }
        }
        for (change, problems) in waiting { _ = reject(change.change(in: new), problems, now: now) }
        isCurrentValid = remaining.isEmpty
        return remaining
    }

    /// Adds the file and line of each violation to the rejected changes.
    mutating func locate(with locator: ViolationLocator) async {
        for index in rejected.indices { rejected[index].problems = await locator.located(rejected[index].problems) }
    }
}

extension LayerChange {
    /// The change without `force`, which a client requested for the first attempt only.
    fileprivate var unforced: LayerChange {
        guard case .remote(let document, let origin, _, let isPush) = self else { return self }
        return .remote(document, origin: origin, force: false, isPush: isPush)
    }
}
