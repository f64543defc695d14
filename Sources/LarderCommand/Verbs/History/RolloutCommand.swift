import ArgumentParser
import LarderClientCore

/// `larder rollout`
struct RolloutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollout",
        abstract: "End a rollout before its clients have decided.",
        discussion: """
            If the settings of a namespace have a rollout, a new document is first shown only to canaries, the clients \
            that asked for it. Once the required clients have accepted it, it is published to all. larder status shows \
            the rollout in progress, and the last one.

            EXAMPLES:
              larder rollout approve             publish the document to all clients now
              larder rollout abort --reason "the new limit is too high"
              larder rollout abort -n billing --json
            """)

    @Argument(help: ArgumentHelp("approve or abort.", valueName: "action"), transform: Self.parse)
    var action: ConfigRollout.Action

    @Option(
        help: ArgumentHelp("Why, for larder history and the log; at most 1,024 characters.", valueName: "text"))
    var reason: String?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    private static func parse(_ word: String) throws -> ConfigRollout.Action {
        guard let action = ConfigRollout.Action(rawValue: word) else {
            throw ValidationError("the action must be approve or abort, not \"\(word)\"")
        }
        return action
    }

    func run() async throws {
        let parameters = ConfigRollout.Parameters(action: action, namespace: namespace.namespace, reason: reason)
        try await agent.printResult(of: ConfigRollout.self, parameters) { result in
            switch action {
            case .approve: "published as revision \(result.revision)"
            case .abort: "rolled back; the previous content is revision \(result.revision)"
            }
        }
    }
}
