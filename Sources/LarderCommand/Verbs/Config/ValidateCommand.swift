import ArgumentParser
import LarderClientCore
import LarderJSON
import LarderProtocol
import LarderSchema

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
            the namespace, as if it replaced the layer named with --layer. If that layer is a directory of files \
            (host, defaults), it is validated together with the other files there, which you must be able to read: in \
            place of the file of the same name, or as the last file if it is standard input. Locks are ignored, and \
            secrets that you may not see are not validated. With --schema, the file is validated alone, and no agent \
            is needed. The exit status is 14 if the document is invalid.

            EXAMPLES:
              larder validate config.json                        as the document of the source
              larder validate 20-site.json --layer host          as one of the administrator's files
              larder validate config.json --schema schema.json   in CI, without an agent
            """)

    @Argument(
        help: ArgumentHelp("The file that contains the document; - is standard input.", valueName: "file"),
        completion: .file())
    var file: String

    @Option(help: ArgumentHelp("Validate with this schema, without an agent.", valueName: "file"), completion: .file())
    var schema: String?

    @Option(help: ArgumentHelp("The layer to which the file would belong.", valueName: "layer"))
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
        var violations: [SchemaViolation] = []
        if let schema {
            violations = try DocumentValidation(file: schema).schema.validate(document)
        } else {
            try await agent.connection.withClient { client in
                let parameters = ConfigSchema.Parameters(namespace: namespace.namespace)
                let validation = try DocumentValidation(try await client.call(ConfigSchema.self, parameters))
                let explained = try await client.call(
                    ConfigExplain.self, ConfigExplain.Parameters(namespace: namespace.namespace))
                let documents = try await documents(with: document, client)
                let resolved = resolved(explained.layers, with: documents)
                violations = validation.schema.validate(resolved).filter { violation in
                    // The agent has replaced secrets by a text, which need not satisfy the schema.
                    resolved.value(at: violation.path) != "<masked>"
                }
            }
        }
        try report(violations, name)
    }

    /// The documents of the chosen layer with this one, from lowest to highest precedence.
    private func documents(with document: JSONValue, _ client: LarderClient) async throws -> [JSONValue] {
        guard [.defaults, .host].contains(layer) else { return [document] }
        let status = try await client.call(
            ConfigStatus.self, ConfigStatus.Parameters(namespace: namespace.namespace))
        let place = status.namespaces.first?.layers.first { $0.name == layer.rawValue }?.origin
        guard let place, place.hasPrefix("/") else { return [document] }
        let name = file == "-" ? nil : file.split(separator: "/").last.map(String.init)
        return try LayerFiles.documents(at: place, with: document, inFile: name)
    }

    /// The layers merged with the documents instead of the chosen layer.
    private func resolved(_ layers: [ConfigExplain.Layer], with documents: [JSONValue]) -> JSONValue {
        layers.reduce(JSONValue.emptyObject) { resolved, next in
            let patches = next.name == layer.rawValue ? documents : next.value.map { [$0] } ?? []
            return patches.reduce(resolved) { MergePatch.apply($1, to: $0) }
        }
    }

    private func report(_ violations: [SchemaViolation], _ name: String) throws {
        if Output.isJSON {
            let errors = violations.map { violation -> JSONValue in
                [
                    "path": .array(violation.path.segments.map(JSONValue.string)),
                    "schemaPath": .string(violation.schemaLocation),
                    "keyword": .string(violation.keyword), "message": .string(violation.message),
                ]
            }
            let result = JSONValue.object([("valid", .bool(errors.isEmpty)), ("errors", .array(errors))])
            try Output.line(result.compactText)
        } else if violations.isEmpty {
            try Output.line("\(name.printable) is valid")
        } else {
            for violation in violations { try Output.line(violation.description.printable) }
        }
        if !violations.isEmpty { ExitStatus.schemaViolation.endThisProcess() }
    }
}
