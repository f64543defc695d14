package import LarderConfigModel
package import LarderConfigSources
package import LarderJSON

/// The settings of a namespace.
package struct NamespaceConfiguration: Sendable, Equatable {
    package var name: String
    /// Whether changes by clients are on disk before they are acknowledged.
    package var durability = Durability.full
    /// The maximum size of a document, and of all overrides together, in bytes.
    package var maximumBytes = 16 << 20
    /// The maximum percentage of the remote document's members that a new document may remove unless it is forced; nil
    /// for no limit.
    package var maximumDeletion: Int?
    /// The file or directory of the defaults that ship with programs; nil for no such layer.
    @ComparedAsBytes package var defaultsPath: String?
    /// The directory of the administrator's files; nil for no host layer.
    @ComparedAsBytes package var hostDirectory: String?
    /// Whether the settings name ``hostDirectory``. Otherwise it is the default directory, which may be missing.
    package var isHostDirectoryNamed = true
    /// The remote source; nil for none.
    package var remote: RemoteSourceSettings?
    /// The locked paths. At these paths only the defaults and the administrator's files take effect.
    package var locks: [JSONPath] = []
    /// The experiments. Each experiment changes values on some of the hosts only.
    package var experiments = ExperimentRules()
    /// The settings file, which explanations name as the source of locks and experiments; nil for none.
    @ComparedAsBytes package var settingsPath: String?
    /// The values that are masked for peers without the right to see secrets.
    package var secrets = SecretPatterns.none
    package var history = HistoryLimits()
    /// The schema that the configuration must satisfy; nil for none.
    package var schema: SchemaSettings?

    /// Sets the maximum size of documents from any source.
    package mutating func limitDocuments(to bytes: Int) {
        maximumBytes = bytes
        remote?.limitDocuments(to: bytes)
    }
}

extension NamespaceConfiguration {
    package init(
        name: String, durability: Durability = .full, maximumDeletion: Int? = nil, isHostDirectoryNamed: Bool = true
    ) {
        self.name = name
        self.durability = durability
        self.maximumDeletion = maximumDeletion
        self.isHostDirectoryNamed = isHostDirectoryNamed
    }
}

extension NamespaceConfiguration {
    /// Whether a text is a valid name of a namespace: `[a-z0-9][a-z0-9._-]{0,63}`.
    package static func isName(_ text: String) -> Bool {
        func isLetterOrDigit(_ byte: UInt8) -> Bool {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard let first = text.utf8.first, isLetterOrDigit(first), text.utf8.count <= 64 else { return false }
        return text.utf8.allSatisfy { isLetterOrDigit($0) || "._-".utf8.contains($0) }
    }
}
