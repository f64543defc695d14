import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder call METHOD [PARAMS]`
struct CallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call",
        abstract: "Call any method of the protocol and print its result.",
        discussion: """
            PARAMS is a JSON object, or an array of positional parameters.

            EXAMPLES:
              larder call agent.stats
              larder call config.get '{"path": "search.limit"}'
              larder call config.get '["search.limit"]' --raw
              larder call rpc.discover --json
            """)

    @Argument(help: "The name of the method.", completion: .list(AllMethods.types.map { $0.name }))
    var method: String

    @Argument(help: "A JSON object or array.")
    var params: String?

    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let params = try params.map { text throws(Failure) in try Self.params(text) }
        try await agent.connection.withClient { client in
            let result = try await client.call(method, params: params)
            try Output.line(
                agent.json ? result.compactText : format.format.text(result, isTerminal: Output.isTerminal))
        }
    }

    static func params(_ text: String) throws(Failure) -> JSONValue {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: text)
        } catch {
            throw Failure(
                .usage, "PARAMS is not JSON: \(error); write an object such as '{\"path\": \"search.limit\"}'")
        }
        guard value.kind == .object || value.kind == .array else {
            throw Failure(.usage, "PARAMS must be a JSON object or array, but has the type \(value.kind)")
        }
        return value
    }
}
