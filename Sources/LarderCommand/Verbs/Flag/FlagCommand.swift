import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderFlagRules
import LarderJSON
import LarderProtocol

/// `larder flag VERB`
struct FlagCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flag",
        abstract: "Evaluate feature flags, and switch them.",
        discussion: """
            A flag has variants, and a rule that selects one for a context, such as a user. The setting "flags" of the \
            namespace names the member of the configuration that contains the flags, in the format of flagd.

            EXAMPLES:
              larder flag list
              larder flag evaluate checkout --context '{"targetingKey": "user-17"}'
              larder flag explain checkout --context-file user.json
              larder flag set checkout on --ttl 1h
              larder flag simulate checkout --keys 100000
            """,
        subcommands: [
            FlagListCommand.self, FlagEvaluateCommand.self, FlagExplainCommand.self, FlagSetCommand.self,
            FlagEnableCommand.self, FlagDisableCommand.self, FlagUnsetCommand.self, FlagSimulateCommand.self,
        ])
}

/// The argument NAME of the verbs that act on one flag.
struct FlagArgument: ParsableArguments {
    @Argument(help: "The name of the flag.", completion: .flag)
    var name: String

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    /// Returns the flag as the agent lists it, and the path of its definition.
    /// - Throws: ``Failure`` if there is no such flag.
    func found(over client: LarderClient) async throws -> (flag: FlagList.Flag, path: JSONPath, member: String) {
        let list = try await client.call(FlagList.self, FlagList.Parameters(namespace: namespace.namespace))
        guard let flag = list.flags.first(where: { $0.flag.isSpelled(as: name) }) else {
            let similar = NearestName.suggestion(for: name, among: list.flags.map(\.flag))
            throw Failure(
                .notFound,
                "there is no flag \"\(name)\" in namespace \"\(namespace.namespace)\""
                    + (similar.map { "; did you mean \($0.shellWord)?" } ?? "; list the flags with larder flag list"))
        }
        return (flag, FlagSet.path(JSONPath(["flags", name]), member: list.member), list.member)
    }

    /// Makes changes to the overrides of the flag as one change, and prints the result.
    func apply(
        _ change: ChangeOptions, _ changes: (FlagList.Flag) throws -> [(String, ConfigApply.Change.Operation)]
    ) async throws {
        try await agent.connection.withClient { client in
            let (flag, path, _) = try await found(over: client)
            let parameters = ConfigApply.Parameters(
                try changes(flag).map { ConfigApply.Change($1, at: JSONPath(path.segments + [$0])) },
                namespace: namespace.namespace, ifRevision: change.condition, reason: change.reason,
                isDryRun: change.dryRun)
            try await agent.printResult(of: ConfigApply.self, parameters, over: client, ChangeReport.text)
        }
    }
}

/// `larder flag set NAME VARIANT`
struct FlagSetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Switch a flag to one variant for everyone.",
        discussion: """
            Sets overrides, all as one change: the variant becomes the default, the rule is hidden, and the flag is enabled. \
            They last until larder flag unset or, with --ttl, until that time has passed.

            EXAMPLES:
              larder flag set checkout off
              larder flag set checkout on --ttl 1h --reason "demo"
            """)

    @OptionGroup var flag: FlagArgument

    @Argument(help: "The name of the variant.", completion: .flagVariant)
    var variant: String

    @Option(
        help: ArgumentHelp("Remove the overrides after this time, such as 90s, 10m, 1h30m or 7d.", valueName: "time"),
        transform: TimeSpan.parse)
    var ttl: TimeSpan?

    @OptionGroup var change: ChangeOptions

    func run() async throws {
        try await flag.apply(change) { known in
            guard known.isMasked || known.variants.contains(where: { $0.isSpelled(as: variant) }) else {
                throw Failure(
                    .notFound,
                    "flag \"\(flag.name)\" has no variant \"\(variant)\"; its variants are "
                        + known.variants.map(\.shellWord).joined(separator: ", "))
            }
            return [
                ("defaultVariant", .set(.string(variant), ttlMilliseconds: ttl?.milliseconds)),
                ("targeting", .set(.null, ttlMilliseconds: ttl?.milliseconds)),
                ("state", .set("ENABLED", ttlMilliseconds: ttl?.milliseconds)),
            ]
        }
    }
}

/// `larder flag enable NAME`
struct FlagEnableCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "enable", abstract: "Enable a flag, with an override.",
        discussion: """
            EXAMPLES:
              larder flag enable checkout
            """)

    @OptionGroup var flag: FlagArgument
    @OptionGroup var change: ChangeOptions

    func run() async throws { try await flag.apply(change) { _ in [("state", .set("ENABLED"))] } }
}

/// `larder flag disable NAME`
struct FlagDisableCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "disable", abstract: "Disable a flag, with an override.",
        discussion: """
            Programs then use their own defaults.

            EXAMPLES:
              larder flag disable checkout --reason "incident 4711"
            """)

    @OptionGroup var flag: FlagArgument
    @OptionGroup var change: ChangeOptions

    func run() async throws { try await flag.apply(change) { _ in [("state", .set("DISABLED"))] } }
}

/// `larder flag unset NAME`
struct FlagUnsetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unset", abstract: "Remove all overrides of a flag.",
        discussion: """
            The definition in the lower layers takes effect again.

            EXAMPLES:
              larder flag unset checkout
            """)

    @OptionGroup var flag: FlagArgument
    @OptionGroup var change: ChangeOptions

    func run() async throws {
        try await flag.agent.connection.withClient { client in
            let (_, path, _) = try await flag.found(over: client)
            let parameters = ConfigUnset.Parameters(
                path: path, namespace: flag.namespace.namespace, ifRevision: change.condition, reason: change.reason,
                isDryRun: change.dryRun)
            try await flag.agent.printResult(of: ConfigUnset.self, parameters, over: client, ChangeReport.text)
        }
    }
}

// MARK: Completion

extension CompletionKind {
    /// Completes the name of a flag.
    static var flag: CompletionKind {
        .custom { words, index, prefix in
            await AgentCompletion.flags(CompletionLine(words, index, prefix)).map(\.flag).filter(\.isCandidate)
        }
    }

    /// Completes a variant of the flag that is named before it.
    static var flagVariant: CompletionKind {
        .custom { words, index, prefix in
            let line = CompletionLine(words, index, prefix)
            let flag = await AgentCompletion.flags(line).first { flag in
                line.words.contains { $0.isSpelled(as: flag.flag) }
            }
            return flag?.variants.filter(\.isCandidate) ?? []
        }
    }
}

extension AgentCompletion {
    fileprivate static func flags(_ line: CompletionLine) async -> [FlagList.Flag] {
        guard let options = await line.options else { return [] }
        let list = await request(options.connection.socket) { client in
            try await client.call(FlagList.self, FlagList.Parameters(namespace: options.namespace.namespace))
        }
        return list?.flags ?? []
    }
}
