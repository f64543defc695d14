import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderFlagRules
import LarderJSON
import LarderProtocol

extension MethodCall {
    /// Returns a reader of the flags of a namespace.
    /// - Parameter needsSnapshot: whether a snapshot must have been published
    /// - Throws: `notFound` if the settings name no flags; `unavailable` or `notFound` without the snapshot
    fileprivate func flagReader(_ name: String, needsSnapshot: Bool = true) throws(WireError) -> FlagReader {
        let reader = FlagReader(try namespace(name), server, connection.rights)
        // The settings are not read if the flags are compiled, because reading them takes a lock.
        if reader.compiledFlags == nil, reader.namespace.flagSettings == nil { throw reader.hasNoFlags }
        if reader.current.snapshot.revision > 0 || !needsSnapshot { return reader }
        throw ConfigGet.missing(ConfigGet.Parameters(namespace: name), reader.current, of: reader.publication)
    }
}

extension FlagEvaluate: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (reader, parameters) = (try call.flagReader(call.parameters.namespace), call.parameters)
        let traits = reader.compiledFlags?.traits(of: parameters.flag) ?? .slow
        if let flags = reader.compiledFlags, !traits.contains(.slow), CompiledFlags.isQuick(parameters.context) {
            // Without traits, the reply is the same at other times, and for peers with other rights.
            let source = traits.isEmpty ? SnapshotSource(reader.publication, reader.current) : nil
            return .now(Result(parameters, reader, flags), source: source)
        }
        var detached = parameters
        detached.context = parameters.context?.detached()
        detached.defaultValue = parameters.defaultValue?.detached()
        return .reply { [detached] () async throws(WireError) in
            let flags = try await reader.flags()
            return await concurrently { Result(detached, reader, flags) }
        }
    }
}

extension FlagEvaluate.Result {
    fileprivate init(_ parameters: FlagEvaluate.Parameters, _ reader: FlagReader, _ flags: CompiledFlags) {
        let type = parameters.type.flatMap { FlagValueType(rawValue: $0.rawValue) }
        let context = FlagContext(parameters.context ?? .emptyObject)
        let outcome = reader.outcome(of: parameters.flag, type: type, context: context, in: flags)
        self.init(
            value: outcome.value ?? parameters.defaultValue, variant: outcome.variant, reason: outcome.reason.rawValue,
            errorCode: outcome.errorCode?.rawValue, errorMessage: outcome.errorMessage,
            metadata: outcome.metadata.count == 0 ? nil : outcome.metadata, revision: flags.revision,
            epoch: reader.publication.epoch)
    }
}

extension FlagEvaluateAll: Method {
    /// The number of flags after which the task lets others run.
    private static let flagsPerSlice = 16

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (reader, names) = (try call.flagReader(call.parameters.namespace), call.parameters.flags)
        let context = FlagContext(call.parameters.context?.detached() ?? .emptyObject)
        let size = ReplySize.measured {
            guard let flags = try? await reader.flags() else { return 0 }
            // Once as a result, which retains only the values of the snapshot, and once as text.
            return await concurrently { 2 * (names.map(flags.bytes(of:)) ?? flags.bytesOfAll) }
        }
        return .task(
            TaskReply(encoding: size) { () async throws(WireError) in
                let flags = try await reader.flags()
                return try await concurrently { () async throws(WireError) -> Result in
                    var outcomes: [WireFlagOutcome] = []
                    for (index, name) in (names ?? flags.set.names).enumerated() {
                        if index % flagsPerSlice == flagsPerSlice - 1 {
                            await Task.yield()
                            if Task.isCancelled { throw WireError(.cancelled, "the request was cancelled") }
                        }
                        outcomes.append(WireFlagOutcome(name, reader.outcome(of: name, context: context, in: flags)))
                    }
                    return Result(flags: outcomes, revision: flags.revision, epoch: reader.publication.epoch)
                }
            })
    }
}

extension FlagList: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let reader = try call.flagReader(call.parameters.namespace)
        let size = ReplySize.measured { (try? await reader.flags()).map { 2 * $0.bytesOfAll } ?? 0 }
        return .task(
            TaskReply(encoding: size) { () async throws(WireError) in
                let flags = try await reader.flags()
                return await concurrently {
                    Result(
                        member: flags.settings.member,
                        flags: flags.set.flags.map {
                            FlagList.Flag($0, in: flags.settings.member, isHidden: reader.hides($0.name, in: flags))
                        },
                        problem: flags.set.problem?.message, revision: flags.revision, epoch: reader.publication.epoch)
                }
            })
    }
}

extension FlagList.Flag {
    fileprivate init(_ flag: LarderFlagRules.Flag, in member: String, isHidden: Bool) {
        if isHidden {
            self.init(flag: flag.name, variants: [], isMasked: true)
        } else {
            self.init(
                flag: flag.name, isEnabled: flag.isEnabled, variants: flag.variants.map(\.name),
                defaultVariant: flag.defaultVariant, hasTargeting: flag.hasTargeting, usesTime: flag.usesTime,
                problem: flag.listedProblem.map { "\(FlagSet.path($0.path, member: member)): \($0.message)" })
        }
    }
}

extension FlagSubscribe: Method {
    static var needsReply: Bool { true }

    /// The maximum memory of an outcome without its value, in bytes.
    private static let bytesOfOutcome = 256

    /// Opens a subscription. Its first event follows the reply.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, connection) = (call.parameters, call.connection)
        if connection.phase == .draining {
            throw WireError(.shuttingDown, "the agent is stopping; subscribe again after it has restarted")
        }
        let reader = try call.flagReader(parameters.namespace, needsSnapshot: false)
        let bytes = parameters.flags.reduce(parameters.context?.detachedMemory ?? 0) {
            $0 + $1.utf8.count + bytesOfOutcome
        }
        let open = connection.subscriptions.count
        let chargedBytes = try connection.counted { usage throws(UsageRefusal) in
            try usage.admitSubscription(retaining: bytes, open: open)
        }
        let channel = call.hub.flags.channel(of: reader.namespace, call.server)
        let subscription = FlagSubscription(
            id: connection.subscriptions.nextID(), connection: connection, channel: channel, names: parameters.flags,
            context: FlagContext(parameters.context?.detached() ?? .emptyObject), chargedBytes: chargedBytes)
        connection.subscriptions.add(subscription)
        channel.add(subscription)
        call.loop.traffic.subscriptionsOpen += 1
        let result = Result(
            subscription: subscription.id, revision: reader.current.snapshot.revision,
            epoch: reader.publication.epoch, state: ConfigState(reader.current.freshness))
        return .now(result, afterReply: subscription.replyWritten)
    }
}
