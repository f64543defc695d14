import LarderConfig
import LarderConfigModel
import LarderFlagRules
import LarderJSON
import LarderPlatform
import LarderProtocol

/// Evaluates the feature flags of a namespace for one peer.
struct FlagReader: Sendable {
    let namespace: ConfigNamespace
    private let server: ServerContext
    private let rights: PeerRights
    /// The state of the namespace when the request began.
    let current: ConfigPublication.Current
    /// The flags of that snapshot if they were compiled then; otherwise nil.
    let compiledFlags: CompiledFlags?
    /// The time when the request began, in seconds since 1970.
    private let now: Int64

    var publication: ConfigPublication { namespace.publication }

    init(_ namespace: ConfigNamespace, _ server: ServerContext, _ rights: PeerRights) {
        (self.namespace, self.server, self.rights) = (namespace, server, rights)
        current = namespace.publication.current
        compiledFlags = server.flags.compiledFlags(of: namespace.publication, at: current.snapshot.revision)
        now = Int64(server.wallClock.now / 1000)
    }

    /// The error if the settings name no flags.
    var hasNoFlags: WireError {
        WireError(
            .notFound,
            "namespace \"\(namespace.name)\" has no feature flags; the setting is \"flags\", such as "
                + "namespaces.\(namespace.name).flags: {member: \"flags\"}")
    }

    /// The flags of the current snapshot or of a newer one, once they are compiled.
    func flags() async throws(WireError) -> CompiledFlags {
        guard let flags = await server.flags.flags(of: namespace) else { throw hasNoFlags }
        return flags
    }

    /// Whether the peer must not learn anything about a flag except its name.
    func hides(_ name: String, in flags: CompiledFlags) -> Bool {
        flags.traits(of: name).contains(.secret) && !rights.rights(in: namespace.name).contains(.secrets)
    }

    func outcome(
        of name: String, type: FlagValueType? = nil, context: FlagContext, in flags: CompiledFlags
    ) -> FlagOutcome {
        if hides(name, in: flags) {
            return .failure(
                .general, "the flag contains a secret, and you do not have the right \"secrets\"",
                metadata: .emptyObject)
        }
        return flags.set.evaluate(name, type: type, context: context, now: now)
    }

    /// Evaluates the flags of several subscriptions off the event loops.
    /// - Returns: nil if nothing has been published
    @concurrent
    static func answers(
        to queries: [FlagQuery], in namespace: ConfigNamespace, _ server: ServerContext
    ) async -> [FlagAnswer]? {
        let flags = await server.flags.flags(of: namespace)
        let revision = flags?.revision ?? namespace.publication.current.snapshot.revision
        if revision == 0 { return nil }
        var answers: [FlagAnswer] = []
        answers.reserveCapacity(queries.count)
        for query in queries {
            let reader = FlagReader(namespace, server, query.rights)
            var answer = FlagAnswer(revision: revision)
            for (index, name) in query.names.enumerated() {
                let outcome =
                    flags.map { reader.outcome(of: name, context: query.context, in: $0) }
                    ?? .failure(.flagNotFound, reader.hasNoFlags.detail, metadata: .emptyObject)
                if query.known.isEmpty || !query.known[index].isEquivalent(to: outcome) { answer.changed |= 1 << index }
                answer.usesTime = answer.usesTime || flags?.set[name]?.usesTime ?? false
                answer.outcomes.append(outcome)
                await Task.yield()
            }
            answers.append(answer)
        }
        return answers
    }
}

/// The flags of a subscription, and what is needed to evaluate them.
struct FlagQuery: Sendable {
    let names: [String]
    let context: FlagContext
    let rights: PeerRights
    /// The outcomes of the last evaluation; empty before the first.
    let known: [FlagOutcome]
}

/// The outcomes of the flags of a subscription.
struct FlagAnswer: Sendable {
    let revision: Int
    var outcomes: [FlagOutcome] = []
    /// The indices of the flags whose outcome has changed since the last evaluation, as bits.
    var changed: UInt64 = 0
    /// Whether the outcomes may change with time.
    var usesTime = false
}

extension WireFlagOutcome {
    init(_ name: String, _ outcome: FlagOutcome) {
        self.init(
            flag: name, value: outcome.value, variant: outcome.variant, reason: outcome.reason.rawValue,
            errorCode: outcome.errorCode?.rawValue, errorMessage: outcome.errorMessage,
            metadata: outcome.metadata.count == 0 ? nil : outcome.metadata)
    }
}
