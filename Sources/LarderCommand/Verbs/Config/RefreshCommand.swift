import ArgumentParser
import LarderClient

/// `larder refresh`
struct RefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Ask the namespace's sources now.",
        discussion: """
            Waits for the answer. Where the source fails or its document is rejected, the last good snapshot stays and \
            the exit status is 7.

            EXAMPLES:
              larder refresh
              larder refresh --force             take what the source says, even an older version
              larder refresh -n billing --timeout 2m
            """)

    @Flag(help: "Take what the source says even if its version is older than the highest one accepted.")
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
