import ArgumentParser
import LarderClientCore
import LarderJSON

/// `larder validate FILE`
struct ValidateCommand: AsyncParsableCommand {
    /// The layer that the file is validated as.
    enum Layer: String, ExpressibleByArgument, CaseIterable {
        case defaults, host, remote, experiment, override
    }

    static let configuration = CommandConfiguration(
        commandName: "validate",
        abstract: "Validate a document with a schema, without changing anything.",
        discussion: """
            Without --schema, the agent's schema is used, and the file is validated together with the other layers of \
            the namespace, as if it replaced the layer named with --as. Locks are ignored, and secrets that you may not \
            see are not validated. With --schema, the file is validated alone, and no agent is needed. The exit status \
            is 14 if the document is invalid.

            EXAMPLES:
              larder validate config.json                        as the document of the source
              larder validate 20-site.json --as host             as the administrator's files
              larder validate config.json --schema schema.json   in CI, without an agent
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the document; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("Validate with this schema, without an agent.", valueName: "file"), completion: .file())
    var schema: String?

    @Option(name: .customLong("as"), help: ArgumentHelp("The layer that the file would replace.", valueName: "layer"))
    var layer = Layer.remote

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let name = Input.displayName(file)
        let document = try LenientJSON.parse(Input.text(of: file), name: name)
        guard document.kind == .object else {
            throw Failure(
                .usage, "\(name) contains JSON of the type \(document.kind); a configuration must be an object")
        }
        var violations: [DocumentValidation.Violation] = []
        if let schema {
            violations = try DocumentValidation(file: schema).violations(of: document)
        } else {
            try await agent.connection.withClient { client in
                let parameters = ConfigSchema.Parameters(namespace: namespace.namespace)
                let validation = try DocumentValidation(try await client.call(ConfigSchema.self, parameters))
                let explained = try await client.call(
                    ConfigExplain.self, ConfigExplain.Parameters(namespace: namespace.namespace))
                let resolved = resolved(explained.layers, with: document)
                violations = validation.violations(of: resolved).filter { violation in
                    // The agent has replaced secrets by a text, which need not satisfy the schema.
                    resolved.value(at: JSONPath(violation.path)) != "<masked>"
                }
            }
        }
        try report(violations, name)
    }

    /// The layers merged with the document instead of the chosen layer.
    private func resolved(_ layers: [ConfigExplain.Layer], with document: JSONValue) -> JSONValue {
        layers.reduce(JSONValue.emptyObject) { resolved, next in
            let patch = next.name == layer.rawValue ? document : next.value
            return patch.map { MergePatch.apply($0, to: resolved) } ?? resolved
        }
    }

    private func report(_ violations: [DocumentValidation.Violation], _ name: String) throws {
        if Output.isJSON {
            let errors = violations.map { violation -> JSONValue in
                [
                    "path": .array(violation.path.map(JSONValue.string)), "schemaPath": .string(violation.schemaPath),
                    "keyword": .string(violation.keyword), "message": .string(violation.message),
                ]
            }
            let result = JSONValue.object([("valid", .bool(errors.isEmpty)), ("errors", .array(errors))])
            try Output.line(result.compactText)
        } else if violations.isEmpty {
            try Output.line("\(name.printable) is valid")
        } else {
            for violation in violations {
                let place = violation.path.isEmpty ? "" : "\(JSONPath(violation.path)): "
                try Output.line("\(place)\(violation.message)".printable)
            }
        }
        if !violations.isEmpty { ExitStatus.schemaViolation.endThisProcess() }
    }
}
