public import JSON

/// What the settings say of one namespace.
public struct NamespaceConfiguration: Sendable, Equatable {
    /// A source that is asked over HTTP.
    public struct HTTP: Sendable, Equatable {
        /// The document's address, `http` or `https`.
        public var url: String
        /// The time between two requests; each host has its own phase in it.
        public var interval: Duration
        /// The longest time for one request, from connecting to the last byte.
        public var timeout: Duration
        /// Where the document says its own version; nil where it does not.
        public var versionPath: JSONPath?
        /// Header fields that every request carries.
        public var headers: [String: String]
        /// The largest document taken.
        public var maximumBytes: Int

        /// Makes it.
        public init(
            url: String, interval: Duration = .seconds(60), timeout: Duration = .seconds(10),
            versionPath: JSONPath? = nil, headers: [String: String] = [:], maximumBytes: Int = 16 << 20
        ) {
            self.url = url
            self.interval = interval
            self.timeout = timeout
            self.versionPath = versionPath
            self.headers = headers
            self.maximumBytes = maximumBytes
        }
    }

    /// A source that is a file on this machine, or a directory whose `*.json` files are merged.
    public struct File: Sendable, Equatable {
        /// Its path.
        public var path: String
        /// Where the document says its own version; nil where it does not.
        public var versionPath: JSONPath?
        /// The largest document taken, and the most that the files of a directory may have together.
        public var maximumBytes: Int

        /// Makes it.
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
        /// A file or a directory of files.
        case file(File)
    }

    /// The namespace's name.
    public var name: String
    /// Whether clients' changes are on disk before they are acknowledged.
    public var durability: ConfigStore.Durability
    /// The most bytes that a pushed document, and all overrides together, may have.
    public var maximumBytes: Int
    /// The percentage of the remote layer's members that another document may remove unless it is forced; nil for all.
    public var maximumDeletion: Int?
    /// The directory of the administrator's files; nil for no host layer.
    public var hostDirectory: String?
    /// Whether the settings name that directory; if not, it is where the files would be if there were any.
    public var isHostDirectoryNamed: Bool
    /// The remote source; nil for none.
    public var remote: Remote?
    /// Which values are masked for peers that may not see secrets.
    public var secrets: SecretPatterns

    /// Makes it.
    public init(
        name: String, durability: ConfigStore.Durability = .full, maximumBytes: Int = 16 << 20,
        maximumDeletion: Int? = nil, hostDirectory: String? = nil, isHostDirectoryNamed: Bool = true,
        remote: Remote? = nil,
        secrets: SecretPatterns = .none
    ) {
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
        self.name = name
        self.durability = durability
        self.hostDirectory = hostDirectory
        self.isHostDirectoryNamed = isHostDirectoryNamed
        self.remote = remote
        self.secrets = secrets
    }
}
