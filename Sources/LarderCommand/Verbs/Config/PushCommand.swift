import ArgumentParser
import LarderClient

/// `larder push FILE`
struct PushCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push",
        abstract: "Hand the agent a whole document as the namespace's remote layer.",
        discussion: """
            The document is a JSON object. A version older than the highest one accepted is rejected (exit status 7) unless \
            forced.

            EXAMPLES:
              larder push config.json
              generate-config | larder push - --version 2026-01-31.1
            """)

    @Argument(help: ArgumentHelp("The file, or - for standard input.", valueName: "file"))
    var file: String

    @Option(help: ArgumentHelp("What the document's maker calls its version.", valueName: "text"))
    var version: String?

    @Flag(help: "Take the document even if its version is older than the highest one accepted.")
    var force = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigPush.Parameters(
            document: try Self.document(Input.contents(of: file), name: file), namespace: namespace.namespace,
            version: version, force: force)
        try await agent.printResult(of: ConfigPush.self, parameters) { $0.summary }
    }

    static func document(_ bytes: [UInt8], name: String) throws(Failure) -> JSONValue {
        let name = name == "-" ? "standard input" : name
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
            throw Failure(.usage, "\(name) is not a JSON object but \(document.kind), so it is no configuration")
        }
        return document
    }
}
