public import LarderJSON

/// What the settings say of one namespace.
public struct NamespaceConfiguration: Sendable, Equatable {
    /// A source that is a file on this machine, or a directory whose `*.json` and `*.json5` files are merged.
    public struct File: Sendable, Equatable {
        /// Its path.
        public var path: String
        /// Where the document says its own version; nil where it does not.
        public var versionPath: JSONPath?
        /// The largest document taken, and the most that the files of a directory may have together.
        public var maximumBytes: Int

        public init(path: String, versionPath: JSONPath? = nil, maximumBytes: Int = 16 << 20) {
            self.path = path
            self.versionPath = versionPath
            self.maximumBytes = maximumBytes
        }
    }

    /// The remote source.
    public enum Remote: Sendable, Equatable {
        /// Asked over HTTP.
        case http(HTTP)
        /// Followed as server-sent events.
        case sse(SSE)
        /// A file or a directory of files.
        case file(File)
        /// Keys of an etcd cluster.
        case etcd(Etcd)
    }

    /// The namespace's name.
    public var name: String
    /// Whether clients' changes are on disk before they are acknowledged.
    public var durability: ConfigStore.Durability
    /// The most bytes that a pushed document, and all overrides together, may have.
    public var maximumBytes: Int
    /// The percentage of the remote layer's members that another document may remove unless it is forced; nil for all.
    public var maximumDeletion: Int?
    /// The file or directory of the defaults that programs are shipped with; nil for no such layer.
    public var defaultsPath: String?
    /// The directory of the administrator's files; nil for no host layer.
    public var hostDirectory: String?
    /// Whether the settings name that directory; if not, it is where the files would be if there were any.
    public var isHostDirectoryNamed: Bool
    /// The remote source; nil for none.
    public var remote: Remote?
    /// Paths that stay as the defaults and the administrator's files have them.
    public var locks: [JSONPath]
    /// Overlays for a part of all hosts.
    public var experiments: ExperimentRules
    /// The file with these settings, for provenance; nil for none.
    public var settingsPath: String?
    /// Which values are masked for peers that may not see secrets.
    public var secrets: SecretPatterns
    /// How much of the past is kept.
    public var history: HistoryLimits

    public init(
        name: String, durability: ConfigStore.Durability = .full, maximumBytes: Int = 16 << 20,
        maximumDeletion: Int? = nil, defaultsPath: String? = nil, hostDirectory: String? = nil,
        isHostDirectoryNamed: Bool = true, remote: Remote? = nil, locks: [JSONPath] = [],
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

    /// The time over which hosts that have nothing to serve spread their first requests, unless the settings say otherwise.
    public static let defaultFirstFetchWindow = Duration.seconds(2)

    /// Limits the size of documents, of whatever source.
    public mutating func limitDocuments(to bytes: Int) {
        maximumBytes = bytes
        switch remote {
        case .http(var http):
            http.maximumBytes = bytes
            remote = .http(http)
        case .sse(var sse):
            sse.maximumBytes = bytes
            remote = .sse(sse)
        case .file(var file):
            file.maximumBytes = bytes
            remote = .file(file)
        case .etcd(var etcd):
            etcd.maximumBytes = bytes
            remote = .etcd(etcd)
        case nil: break
        }
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
