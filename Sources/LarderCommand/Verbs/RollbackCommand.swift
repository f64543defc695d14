import ArgumentParser
import LarderClient

/// `larder rollback REVISION`
struct RollbackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback",
        abstract: "Go back to the content of an earlier snapshot, or end that.",
        discussion: """
            The old content gets a new revision. What was set since is undone for good; where the sources say something \
            else by now, that is held back until --release, a forced refresh or push, or a newer document of the source.

            EXAMPLES:
              larder rollback 40
              larder rollback --release          show what the sources say again
            """)

    @Argument(help: ArgumentHelp("One of the revisions that larder history lists.", valueName: "revision"))
    var revision: Int?

    @Flag(help: "End what an earlier rollback holds back.")
    var release = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if (revision == nil) != release {
            throw ValidationError("name either the revision to go back to or --release; larder history lists revisions")
        }
    }

    func run() async throws {
        let action = revision.map { ConfigRollback.Action.goBack(to: $0) } ?? .release
        let parameters = ConfigRollback.Parameters(action, namespace: namespace.namespace)
        try await agent.printResult(of: ConfigRollback.self, parameters) { result in
            let place = result.changed ? "revision \(result.revision)" : "unchanged at revision \(result.revision)"
            let what = result.released ? "released, \(place)" : place
            return result.held
                ? "\(what); what the sources say now is held back until: larder rollback --release" : what
        }
    }
}
