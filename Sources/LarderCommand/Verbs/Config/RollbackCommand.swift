import ArgumentParser
import LarderClient

/// `larder rollback REVISION`
struct RollbackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Go back to the content of an earlier snapshot, or end that.",
        discussion: """
            The old content gets a new revision. What was set since is undone for good; where the sources say something \
            else by now, that is held back until --release, or a forced refresh or push. With --hold untilNewer a newer \
            document of the source ends it as well; that is the default if the versions of the source can be ordered.

            EXAMPLES:
              larder rollback 40
              larder rollback 40 --hold untilReleased
              larder rollback --release          show what the sources say again
            """)

    @Argument(help: ArgumentHelp("One of the revisions that larder history lists.", valueName: "revision"))
    var revision: Int?

    @Flag(help: "End what an earlier rollback holds back.")
    var release = false

    @Option(
        help: ArgumentHelp("What ends the hold: untilNewer or untilReleased.", valueName: "rule"),
        transform: Self.holdRule)
    var hold: ConfigRollback.Hold?

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
            throw ValidationError("name either the revision to go back to or --release; larder history lists revisions")
        }
        if release, hold != nil { throw ValidationError("give --hold with a revision, not with --release") }
    }

    func run() async throws {
        let action = revision.map { ConfigRollback.Action.goBack(to: $0, hold: hold) } ?? .release
        let parameters = ConfigRollback.Parameters(action, namespace: namespace.namespace)
        try await agent.printResult(of: ConfigRollback.self, parameters) { result in
            let place = result.changed ? "revision \(result.revision)" : "unchanged at revision \(result.revision)"
            let what = result.released ? "released, \(place)" : place
            if !result.held { return what }
            let ending = result.hold == .untilNewer ? " a newer document or" : ""
            let release = agent.connection.hints.command("larder rollback --release", namespace: namespace.namespace)
            return "\(what); what the sources say now is held back until\(ending): \(release)"
        }
    }
}
