import ArgumentParser
import LarderClientCore

/// `larder refresh`
struct RefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Poll the source of the namespace now.",
        discussion: """
            Also reads the files of the other layers again. Waits for the result. If the source fails or its document \
            is rejected, the last good snapshot stays in use, and the exit status is 7.

            EXAMPLES:
              larder refresh
              larder refresh --force             accept the document of the source, even an older version
              larder refresh -n billing --timeout 2m
            """)

    @Flag(help: "Skip the checks of version and deletions, and end the hold of a rollback.")
    var force = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigRefresh.Parameters(namespace: namespace.namespace, force: force)
        try await agent.printResult(of: ConfigRefresh.self, parameters, Self.summary)
    }

    static func summary(_ result: ConfigRefresh.Result) -> String {
        let version = result.upstreamVersion.map { ", version \($0.printable)" } ?? ""
        let what = result.changed ? "revision \(result.revision)" : "unchanged at revision \(result.revision)"
        return "\(what), \(result.state)\(version)"
    }
}
