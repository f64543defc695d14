package import LarderConfigModel
package import LarderConfigSources
package import LarderJSON

/// What the settings say of one namespace.
package struct NamespaceConfiguration: Sendable, Equatable {
    /// The namespace's name.
    package var name: String
    /// Whether clients' changes are on disk before they are acknowledged.
    package var durability: Durability
    /// The most bytes that a pushed document, and all overrides together, may have.
    package var maximumBytes: Int
    /// The percentage of the remote layer's members that another document may remove unless it is forced; nil for all.
    package var maximumDeletion: Int?
    /// The file or directory of the defaults that programs are shipped with; nil for no such layer.
    package var defaultsPath: String?
    /// The directory of the administrator's files; nil for no host layer.
    package var hostDirectory: String?
    /// Whether the settings name that directory; if not, it is where the files would be if there were any.
    package var isHostDirectoryNamed: Bool
    /// The remote source; nil for none.
    package var remote: RemoteSourceSettings?
    /// Paths that stay as the defaults and the administrator's files have them.
    package var locks: [JSONPath]
    /// Overlays for a part of all hosts.
    package var experiments: ExperimentRules
    /// The file with these settings, for provenance; nil for none.
    package var settingsPath: String?
    /// Which values are masked for peers that may not see secrets.
    package var secrets: SecretPatterns
    /// How much of the past is kept.
    package var history: HistoryLimits

    package init(
        name: String, durability: Durability = .full, maximumBytes: Int = 16 << 20,
        maximumDeletion: Int? = nil, defaultsPath: String? = nil, hostDirectory: String? = nil,
        isHostDirectoryNamed: Bool = true, remote: RemoteSourceSettings? = nil, locks: [JSONPath] = [],
        experiments: ExperimentRules = ExperimentRules(), settingsPath: String? = nil, secrets: SecretPatterns = .none,
        history: HistoryLimits = HistoryLimits()
    ) {
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
        self.name = name
        self.durability = durability
        self.hostDirectory = hostDirectory
        self.isHostDirectoryNamed = isHostDirectoryNamed
        self.remote = remote
        self.defaultsPath = defaultsPath
        self.locks = locks
        self.experiments = experiments
        self.settingsPath = settingsPath
        self.secrets = secrets
        self.history = history
    }

    /// Limits the size of documents, of whatever source.
    package mutating func limitDocuments(to bytes: Int) {
        maximumBytes = bytes
        remote?.limitDocuments(to: bytes)
    }
}

extension NamespaceConfiguration {
    /// Whether a text can name a namespace: `[a-z0-9][a-z0-9._-]{0,63}`.
    package static func isName(_ text: String) -> Bool {
        func isLetterOrDigit(_ byte: UInt8) -> Bool {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard let first = text.utf8.first, isLetterOrDigit(first), text.utf8.count <= 64 else { return false }
        return text.utf8.allSatisfy { isLetterOrDigit($0) || "._-".utf8.contains($0) }
    }
}
