import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder push FILE`
struct PushCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push",
        abstract: "Replace the remote layer of the namespace with a document.",
        discussion: """
            The document must be a JSON object. Unless --force is given, the agent rejects a document whose version is \
            older than the highest accepted one, or that would remove too many members (maximumDeletionPercent). The \
            exit status is then 7. It is 14 if the document would violate the schema of the namespace.

            EXAMPLES:
              larder push config.json
              larder push config.json --dry-run  show what would change
              generate-config | larder push - --version 2026-01-31.1
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the document; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("The version that the author of the document gives it.", valueName: "text"))
    var version: String?

    @Flag(help: "Skip the checks of version and deletions, and end the hold of a rollback.")
    var force = false

    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigPush.Parameters(
            document: try Self.document(Input.text(of: file), name: file), namespace: namespace.namespace,
            version: version, force: force, ifRevision: change.condition, reason: change.reason,
            isDryRun: change.dryRun)
        try await agent.printResult(of: ConfigPush.self, parameters, ChangeReport.text)
    }

    static func document(_ bytes: [UInt8], name: String) throws(Failure) -> JSONValue {
        let name = Input.displayName(name)
        let document: JSONValue
        do {
            document = try JSONValue(parsing: bytes)
        } catch {
            let before = bytes.prefix(error.offset)
            let line = before.count { $0 == UInt8(ascii: "\n") } + 1
            let column = before.count - (before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0) + 1
            throw Failure(.usage, "\(name) is not JSON: line \(line), column \(column): \(error.reason)")
        }
        guard document.kind == .object else {
            throw Failure(
                .usage, "\(name) contains JSON of the type \(document.kind); a configuration must be an object")
        }
        return document
    }
}

/// `larder refresh`
struct RefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Poll the source of the namespace now.",
        discussion: """
            Also reads the files of the other layers again. Waits for the result. If the source fails or its document \
            is rejected, the last good snapshot stays in use, and the exit status is 7; it is 14 if the document would \
            violate the schema of the namespace.

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
        try await agent.connection.withClient { client in
            let params = JSONValue.building { parameters.write(to: &$0) }
            let result = try await client.call(ConfigRefresh.name, params: params)
            // The result of a refresh does not report whether the document is held back.
            let status =
                agent.json
                ? nil
                : try? await client.call(
                    ConfigStatus.self, ConfigStatus.Parameters(namespace: namespace.namespace))
            let reported = status?.namespaces.first
            try agent.print(result, of: ConfigRefresh.self) { result in
                Self.summary(result, reported, agent.connection.hints)
            }
        }
    }

    /// - Parameter namespace: the status of the namespace after the refresh; nil if unknown
    static func summary(
        _ result: ConfigRefresh.Result, _ namespace: ConfigStatus.Namespace? = nil, _ hints: Hints = Hints()
    ) -> String {
        let what = result.changed ? "revision \(result.revision)" : "unchanged at revision \(result.revision)"
        if let namespace, namespace.holdsSource {
            let version = result.upstreamVersion.map { " (version \($0.printable))" } ?? ""
            return
                "\(what), \(result.state); the document of the source\(version) is held back, because the namespace was "
                + "rolled back; end that with: "
                + hints.command("larder rollback --release", namespace: namespace.namespace)
        }
        let version = result.upstreamVersion.map { ", version \($0.printable)" } ?? ""
        if let namespace, namespace.upstream == nil {
            return "\(what), \(result.state)\(version); the namespace has no source, so only files were read"
        }
        return "\(what), \(result.state)\(version)"
    }
}
