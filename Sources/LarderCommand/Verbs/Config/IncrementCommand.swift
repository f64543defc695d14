import ArgumentParser
import LarderClientCore

/// `larder increment PATH`
struct IncrementCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "increment",
        abstract: "Add to a number, in one step, and print the sum.",
        discussion: """
            The value must be an integer; if there is none, it counts as 0. The sum becomes an override. No other \
            change can come between reading and writing, so several processes can count or take numbers without \
            retrying. If the sum would be less than --minimum or greater than --maximum, nothing is changed and the \
            exit status is 13.

            EXAMPLES:
              larder increment jobs.started
              larder increment tickets.left --by -1 --minimum 0
            """)

    @Argument(
        help: "A path such as tickets.left, or a JSON Pointer such as /tickets/left.", completion: .configurationPath)
    var path: String

    @Option(help: ArgumentHelp("The integer to add.", valueName: "number"))
    var by = 1

    @Option(help: ArgumentHelp("The smallest sum that is allowed.", valueName: "number"))
    var minimum: Int?

    @Option(help: ArgumentHelp("The largest sum that is allowed.", valueName: "number"))
    var maximum: Int?

    @Option(
        help: ArgumentHelp("Why, for larder history and the log; at most 1,024 characters.", valueName: "text"))
    var reason: String?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        try PathArgument.rejectEmpty(path, "name the path of a number")
    }

    func run() async throws {
        let parameters = ConfigIncrement.Parameters(
            path: try PathArgument.parse(path), by: by, namespace: namespace.namespace, minimum: minimum,
            maximum: maximum, reason: reason)
        try await agent.printResult(of: ConfigIncrement.self, parameters) { "\($0.value)" }
    }
}
