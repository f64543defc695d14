import ArgumentParser
import LarderClientCore
import LarderJSON
import LarderProtocol

/// `larder history`
struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "List the retained snapshots and why each was published, or pin one.",
        discussion: """
            By default the agent retains the newest 16 snapshots, the last one of each hour for a day, and the last \
            one of each day for 30 days, within the limits of namespaces.NAME.history in the settings. A pinned \
            snapshot is retained until it is unpinned. In the first column, * marks the current snapshot and + a \
            pinned one. Times are in the local time zone.

            EXAMPLES:
              larder history
              larder history --pin 40
              larder history --limit 3 -n billing
              larder history --json | jq '.generations[] | {revision, causes}'
            """)

    @Option(help: ArgumentHelp("List at most this many snapshots.", valueName: "number"))
    var limit: Int?

    @Option(
        help: ArgumentHelp("Pin this snapshot: retain it until it is unpinned.", valueName: "revision"),
        completion: .revision)
    var pin: Int?

    @Option(
        help: ArgumentHelp("Unpin this snapshot: the limits apply to it again.", valueName: "revision"),
        completion: .revision)
    var unpin: Int?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        let possible = 1...ConfigHistory.Parameters.maxLimit
        if let limit, !possible.contains(limit) {
            throw ValidationError("--limit must be from 1 to \(possible.upperBound), not \(limit)")
        }
        if [limit, pin, unpin].compactMap(\.self).count > 1 {
            throw ValidationError("--limit, --pin and --unpin exclude each other; use one of them")
        }
    }

    func run() async throws {
        if let revision = pin ?? unpin {
            let parameters = ConfigPin.Parameters(
                revision: revision, pinned: pin != nil, namespace: namespace.namespace)
            let state = pin != nil ? ("now pinned", "pinned") : ("no longer pinned", "not pinned")
            return try await agent.printResult(of: ConfigPin.self, parameters) { result in
                "revision \(result.revision) is \(result.changed ? state.0 : state.1)"
            }
        }
        let parameters = ConfigHistory.Parameters(namespace: namespace.namespace, limit: limit)
        try await agent.printResult(of: ConfigHistory.self, parameters) { result in
            HistoryReport(now: .now).text(result.generations)
        }
    }
}

/// The output of `larder history` for people: one line per snapshot, newest first, with the current one marked.
struct HistoryReport {
    /// The time that ages are relative to.
    let now: Timestamp

    private static let table = TextTable(
        headings: ["", "REVISION", "PUBLISHED", "AGE", "SIZE", "VERSION", "BECAUSE OF"], figures: [1, 4])

    /// The table without a final line end.
    func text(_ generations: [ConfigHistory.Generation]) -> String { Self.table.text(generations.map(row)) }

    private func row(_ generation: ConfigHistory.Generation) -> [String] {
        [
            (generation.current ? "*" : "") + (generation.isPinned ? "+" : ""), "\(generation.revision)",
            generation.publishedAt.local,
            Human.span(milliseconds: now.milliseconds - generation.publishedAt.milliseconds),
            Human.bytes(generation.bytes), generation.upstreamVersion?.printable ?? "",
            generation.causes.map(Provenance.text).joined(separator: "; "),
        ]
    }
}

/// `larder diff FROM [TO]`
struct DiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show the differences between two snapshots.",
        discussion: """
            Prints one line for each path: + is added, - is removed, ~ is changed. Both revisions must be in larder \
            history (otherwise exit status 3). With --json the result also has the difference as a merge patch.

            EXAMPLES:
              larder diff 40                     from revision 40 to the current one
              larder diff 40 41 --path search
              larder diff 40 --json | jq .patch
            """)

    @Argument(help: ArgumentHelp("The revision to compare from.", valueName: "from"), completion: .revision)
    var from: Int

    @Argument(
        help: ArgumentHelp("The revision to compare with. Default: the current one.", valueName: "to"),
        completion: .revision)
    var to: Int?

    @Option(
        help: ArgumentHelp("Compare only the values at this path.", valueName: "path"), completion: .configurationPath)
    var path = ""

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigDiff.Parameters(
            from: from, to: to, namespace: namespace.namespace, path: try PathArgument.parse(path))
        try await agent.printResult(of: ConfigDiff.self, parameters) { result in
            DiffReport(style: .standardOutput).text(result)
        }
    }
}

/// `larder rollback REVISION`
struct RollbackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Roll back to the content of an earlier snapshot, or end a rollback.",
        discussion: """
            The old content, including its overrides, is published under a new revision. Later changes of overrides \
            are lost. If the sources have different content now, that content is held back until larder rollback \
            --release, or a forced refresh or push. A release does not bring back overrides. With --hold untilNewer, a newer document of the source ends the \
            hold as well. This is the default if only the remote layer is held and its versions can be ordered.

            EXAMPLES:
              larder rollback 40
              larder rollback 40 --dry-run       show what would change
              larder rollback 40 --reason "the new limit is too high"
              larder rollback 40 --hold untilReleased
              larder rollback --release          use the content of the sources again
            """)

    @Argument(help: ArgumentHelp("A revision that larder history lists.", valueName: "revision"), completion: .revision)
    var revision: Int?

    @Flag(help: "End the hold of an earlier rollback.")
    var release = false

    @Option(
        help: ArgumentHelp("When the hold ends: untilNewer or untilReleased.", valueName: "rule"),
        completion: .list(ConfigRollback.Hold.allCases.map(\.rawValue)),
        transform: Self.holdRule)
    var hold: ConfigRollback.Hold?

    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    private static func holdRule(_ word: String) throws -> ConfigRollback.Hold {
        guard let rule = ConfigRollback.Hold(rawValue: word) else {
            throw ValidationError("--hold must be untilNewer or untilReleased, not \"\(word)\"")
        }
        return rule
    }

    /// - Parameter place: the revision, and whether it is new
    private static func summary(_ place: String, isRelease: Bool, _ result: ConfigRollback.Result) -> String {
        if result.released { return "released, \(place)" }
        return isRelease
            ? "\(place), because no content of the sources was held back; the overrides of a rollback stay until they are "
                + "changed"
            : place
    }

    func validate() throws {
        if (revision == nil) != release {
            throw ValidationError("pass either a revision or --release; larder history lists the revisions")
        }
        if release, hold != nil { throw ValidationError("--hold and --release exclude each other; use one of them") }
    }

    func run() async throws {
        let action = revision.map { ConfigRollback.Action.goBack(to: $0, hold: hold) } ?? .release
        let parameters = ConfigRollback.Parameters(
            action, namespace: namespace.namespace, ifRevision: change.condition, reason: change.reason,
            isDryRun: change.dryRun)
        try await agent.printResult(of: ConfigRollback.self, parameters) { result in
            if result.isDryRun {
                return ChangeReport.dryRun(
                    result.changes ?? [], result.schemaErrors ?? [], at: result.revision)
            }
            let place = result.changed ? "revision \(result.revision)" : "unchanged at revision \(result.revision)"
            let what = Self.summary(place, isRelease: release, result)
            if !result.held { return what }
            let ending = result.hold == .untilNewer ? " a newer document arrives, or until" : ""
            let release = agent.connection.hints.command("larder rollback --release", namespace: namespace.namespace)
            return "\(what); the current content of the sources is held back until\(ending): \(release)"
        }
    }
}
