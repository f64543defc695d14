package import LarderConfigModel
package import LarderJSON
import LarderPlatform
import LarderSchema
import Logging

/// The settings of a namespace's schema.
package struct SchemaSettings: Sendable, Hashable {
    /// How a change that violates the schema is treated.
    package enum Enforcement: String, Sendable, CaseIterable {
        /// The change is rejected.
        case reject
        /// The change is published, and the status and the log report the violations.
        case warn
    }

    /// The absolute path of the schema file.
    @ComparedAsBytes package var path: String
    package var enforcement = Enforcement.reject
    /// The maximum number of violations that an error or the status lists.
    package var maximumErrors = 20
    /// Whether `format` is asserted; nil to follow the dialect of the schema.
    package var assertsFormats: Bool?
    /// The place of ``path`` in the settings, as `FILE:LINE`, for messages; nil if unknown.
    @Uncompared package var place: String? = nil
}

extension SchemaSettings {
    package init(path: String) { self.path = path }
}

/// A property that `==` of its type ignores.
@propertyWrapper
package struct Uncompared<Value: Sendable>: Hashable, Sendable {
    package var wrappedValue: Value

    package init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    package static func == (left: Self, right: Self) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}

/// A compiled schema of a namespace.
package struct NamespaceSchema: Sendable {
    /// The schema and the documents to which it refers, by path.
    let documents: [ExactText: JSONValue]
    /// The digest of ``document``.
    package let digest: SnapshotDigest
    package let settings: SchemaSettings
    private let secrets: SecretPatterns
    private let compiled: JSONSchema

    /// - Parameters:
    ///   - documents: the schema and the documents to which it refers, by path
    ///   - secrets: selects the values that messages must not show
    init(_ documents: [ExactText: JSONValue], _ compiled: JSONSchema, settings: SchemaSettings, secrets: SecretPatterns)
    {
        self.documents = documents
        self.secrets = secrets
        self.compiled = compiled
        self.settings = settings
        digest = SnapshotDigest(of: documents[ExactText(settings.path)] ?? .null)
    }

    /// The schema as it was read from its file.
    package var document: JSONValue { documents[ExactText(settings.path)] ?? .null }

    /// Whether another schema has the same documents, settings and secrets.
    func isSame(as other: NamespaceSchema) -> Bool {
        settings == other.settings && secrets == other.secrets && documents == other.documents
    }

    /// Whether changes that violate the schema are rejected.
    var rejects: Bool { settings.enforcement == .reject }

    /// Returns the violations of a resolved configuration, the most specific first.
    /// - Parameter layers: the layers that resolve to the configuration; they show where each value comes from
    package func problems(of value: JSONValue, in layers: Layers) -> [SchemaProblem] {
        report(compiled.validate(value, maxErrors: settings.maximumErrors), of: value, in: layers)
    }

    /// Does the work of ``problems(of:in:)`` on another thread, for large configurations.
    @concurrent
    func problemsConcurrently(of value: JSONValue, in layers: Layers) async -> [SchemaProblem] {
        problems(of: value, in: layers)
    }

    /// Returns the violations after a change of a valid configuration. Evaluates only the subschemas that apply to the
    /// changed value, unless a keyword above it depends on several values.
    /// - Parameters:
    ///   - previous: the configuration before the change, which satisfies the schema
    ///   - path: the only path at which the two configurations differ
    func problems(
        of value: JSONValue, in layers: Layers, previous: JSONValue, changedAt path: [String]
    ) -> [SchemaProblem] {
        let violations = compiled.validate(
            value, previous: previous, changedAt: JSONPath(path), maxErrors: settings.maximumErrors)
        assert(
            violations.isEmpty == compiled.isValid(value), "the validation of a change differs from that of the whole")
        return report(violations, of: value, in: layers)
    }

    // MARK: Hidden violations

    /// Returns the violations that a change of lower layers adds and that overrides, or the hold of a rollback, hide.
    /// They would appear when the overrides or the hold end. A violation is added if the layers before the change do not
    /// violate the same keyword at the same path. A required member that an override supplies is not missing.
    /// - Parameters:
    ///   - layers: the layers after the change
    ///   - previous: the layers before the change
    func hiddenProblems(in layers: Layers, previous: Layers) -> [SchemaProblem] {
        for isLive in layers.hold == nil ? [false] : [false, true] {
            let after = isLive ? layers.live : layers
            if !isLive, after.override.isEmpty { continue }
            let lower = after.withoutOverrides
            let value = lower.resolved()
            let found = compiled.validate(value, maxErrors: .max)
            if found.isEmpty { continue }
            let known = Self.places(
                compiled.validate((isLive ? previous.live : previous).withoutOverrides.resolved(), maxErrors: .max))
            var added = found.filter { !known.contains(Place($0)) }
            if added.contains(where: Self.isOfMissingMember) { added = unsupplied(added, byOverridesOf: after) }
            if !added.isEmpty { return report(Array(added.prefix(settings.maximumErrors)), of: value, in: lower) }
        }
        return []
    }

    /// Does the work of ``hiddenProblems(in:previous:)`` on another thread, for large configurations.
    @concurrent
    func hiddenProblemsConcurrently(in layers: Layers, previous: Layers) async -> [SchemaProblem] {
        hiddenProblems(in: layers, previous: previous)
    }

    /// Returns the violations except for those whose missing members are supplied by overrides.
    private func unsupplied(_ violations: [SchemaViolation], byOverridesOf layers: Layers) -> [SchemaViolation] {
        let value = layers.resolved()
        // Once for all violations, because a document may have one in each of its objects.
        let remaining = Self.places(compiled.validate(value, maxErrors: .max))
        return violations.filter { violation in
            !Self.isOfMissingMember(violation) || remaining.contains(Place(violation))
                || value.value(at: violation.path)?.kind != .object
        }
    }

    private static func isOfMissingMember(_ violation: SchemaViolation) -> Bool {
        ["required", "dependentRequired", "dependencies"].contains(violation.keyword)
    }

    /// The path and the keyword of a violation.
    private struct Place: Hashable {
        let path: JSONPath
        let keyword: String

        init(_ violation: SchemaViolation) { (path, keyword) = (violation.path, violation.keyword) }
    }

    private static func places(_ violations: [SchemaViolation]) -> Set<Place> { Set(violations.map(Place.init)) }

    private func report(
        _ violations: [SchemaViolation], of value: JSONValue, in layers: Layers
    ) -> [SchemaProblem] {
        if violations.isEmpty { return [] }
        let shown = layers.shown
        return violations.map { violation in
            let path = violation.path.segments
            let layer = ConfigLayer.allCases.last { shown.effect(of: $0, at: path) != .unchanged }
            let isSecret = secrets.isSecret(violation.path)
            let hasSecrets = value.value(at: violation.path).map { secrets.masked($0, at: violation.path).1 } ?? false
            return SchemaProblem(
                path: violation.path, schemaLocation: violation.schemaLocation, keyword: violation.keyword,
                message: isSecret ? "a secret value violates this keyword" : violation.messageWithoutValue,
                messageWithValue: isSecret || hasSecrets ? nil : violation.message,
                layer: layer, location: location(of: layer, at: path, shown))
        }
    }

    /// The source that sent the document with the value at a path; nil for other values.
    private func location(of layer: ConfigLayer?, at path: [String], _ shown: Layers) -> String? {
        let isRemote =
            switch layer {
            case .remote: true
            case .experiment: shown.experiment.overlay(at: path)?.isRemote ?? false
            default: false
            }
        return isRemote ? shown.remote.flatMap { $0.origin == SourceOrigin.push ? nil : $0.origin } : nil
    }

    /// Returns the title, description and default of the value at a path; nil if the schema has none of them.
    func documentation(at path: JSONPath) -> ConfigExplanation.Documentation? {
        guard let annotations = compiled.annotations(at: path) else { return nil }
        let documentation = ConfigExplanation.Documentation(
            title: annotations.title, description: annotations.description, defaultValue: annotations.defaultValue)
        return documentation == ConfigExplanation.Documentation() ? nil : documentation
    }
}

/// The file `schema.json` in the state directory of a namespace: the documents of the last usable schema. They stay in
/// force, also after a restart, until the file that the settings name can be used, even if the settings name another file
/// than before.
///
/// The file is an object. Its member `schema` is the path of the schema, and each other member is a document with its
/// absolute path as name. Earlier versions wrote only the documents.
struct SavedSchema: Sendable {
    /// The name of the member with the path of the schema. No path of a document has this name, because all are absolute.
    private static let schemaMember = "schema"

    private let namespace: String
    private let path: String
    private let files: any FileSystem
    private let logger: Logger

    /// - Parameter directory: the state directory of the namespace
    init(namespace: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        path = directory + "/schema.json"
        self.files = files
        self.logger = logger
    }

    /// Writes the documents of a schema, unless the file has them already. Blocks on disk I/O.
    /// - Returns: why they could not be written; nil if the file has them
    func save(_ schema: NamespaceSchema) -> ConfigError? {
        let documents = schema.documents.sorted { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }
        let text = JSONValue.object(
            [(Self.schemaMember, .string(schema.settings.path))] + documents.map { ($0.key.text, $0.value) }
        ).compactText
        var hasOlderCopy = false
        do throws(FileError) {
            let bytes = Array(text.utf8)
            let copy = try files.read(path)
            hasOlderCopy = copy != nil
            if copy != bytes { try files.replace(path, with: bytes) }
            return nil
        } catch {
            let effect = hasOlderCopy ? "the older schema in that file is in force" : "nothing is validated"
            return ConfigError(
                .storageFailed,
                "\(error); if the schema file is broken at the next start, \(effect); free space or repair the disk")
        }
    }

    /// Removes the saved schema, because the settings name none. Blocks on disk I/O. A failure is logged.
    func remove() {
        do throws(FileError) {
            if try files.head(of: path, bytes: 1) != nil { try files.remove(path) }
        } catch {
            logger.warning(
                "namespace \(namespace): cannot remove the saved schema; it would take effect if the settings name a schema that cannot be used: \(error)",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }

    /// Logs that the documents could not be written.
    func log(_ problem: ConfigError) {
        logger.warning(
            "namespace \(namespace): cannot save the schema: \(problem.message)",
            metadata: ["namespace": "\(namespace)", "error": "\(problem.message)"])
    }

    /// Compiles the saved schema with the current settings. Blocks on disk I/O.
    /// - Parameter file: the schema of the settings, which cannot be used
    /// - Returns: nil if no schema is saved, or if the schema was saved by an earlier version and the settings name
    ///   another file now
    func load(for file: SchemaFile) -> NamespaceSchema? {
        guard let bytes = try? files.read(path), let saved = try? JSONValue(parsing: bytes) else { return nil }
        let documents = Dictionary(saved.members.map { (ExactText($0.name), $0.value) }) { first, _ in first }
        return try? file.compile(documents, schemaAt: saved[Self.schemaMember]?.string).schema.get()
    }
}

/// The state of a namespace's schema.
package struct SchemaStatus: Sendable {
    /// The digest of the schema in force; nil for none.
    package var digest: SnapshotDigest?
    /// The violations of the schema by the current snapshot: it was published before the schema was in force, or the
    /// setting `enforce` is `warn`.
    package var problems: [SchemaProblem] = []
    /// The last change that the schema has rejected and that no client requested; nil once it is accepted or replaced.
    package var rejection: RejectedChange?

    /// Whether ``rejection`` is the given one.
    func hasRejection(_ other: RejectedChange?) -> Bool {
        rejection?.at == other?.at && rejection?.subject == other?.subject && rejection?.version == other?.version
            && rejection?.problems == other?.problems
    }
}
