import ArgumentParser
import LarderClientCore

/// `larder rollback REVISION`
struct RollbackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Roll back to the content of an earlier snapshot, or end a rollback.",
        discussion: """
            The old content, including its overrides, is published under a new revision. Later changes of overrides \
            are lost. If the sources have different content now, that content is held back until larder rollback \
            --release, or a forced refresh or push. With --hold untilNewer, a newer document of the source ends the \
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
            let what = result.released ? "released, \(place)" : place
            if !result.held { return what }
            let ending = result.hold == .untilNewer ? " a newer document arrives, or until" : ""
            let release = agent.connection.hints.command("larder rollback --release", namespace: namespace.namespace)
            return "\(what); the current content of the sources is held back until\(ending): \(release)"
        }
    }
}
