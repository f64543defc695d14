package import LarderConfigModel
package import LarderConfigSources
package import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging

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
    /// Where the document contains feature flags; nil if it contains none.
    package var flags: FlagSettings?

    /// Sets the maximum size of documents from any source.
    package mutating func limitDocuments(to bytes: Int) {
        maximumBytes = bytes
        remote?.limitDocuments(to: bytes)
    }
}

/// Where the document of a namespace contains feature flags.
package struct FlagSettings: Sendable, Equatable {
    /// The member of the document that contains the flags by name; empty if the whole document is in flagd's format.
    /// The rules that flags share are in the member `$evaluators` of the document in both cases.
    @ComparedAsBytes package var member: String

    package init(member: String) { self.member = member }

    /// The path of the flags in the document.
    package var path: JSONPath { JSONPath([member.isEmpty ? "flags" : member]) }
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

// Converts the settings of a namespace to the types that the store, the layers and the status use.

extension NamespaceConfiguration {
    /// The locks and experiments for a host.
    func rules(hostIdentity: String) -> LayerRules {
        LayerRules(
            locks: LockedPaths(locks), experiments: experiments, unit: experiments.unit ?? hostIdentity)
    }

    var limits: StoreLimits {
        StoreLimits(
            durability: durability,
            documents: DocumentLimits(maximumBytes: maximumBytes, maximumDeletion: maximumDeletion))
    }

    /// The status before the first refresh.
    var initialStatus: NamespaceStatus {
        var files: [FileLayer: String] = [:]
        for layer in FileLayer.allCases { files[layer] = location(of: layer) }
        return NamespaceStatus(
            source: remote.map {
                .init($0.kind, at: $0.location, identity: $0.identity, staleIfError: $0.staleIfError)
            }, files: files)
    }

    // MARK: File layers

    /// The file or directory of a file layer; nil if the settings name none.
    func location(of layer: FileLayer) -> String? {
        switch layer {
        case .defaults: defaultsPath
        case .host: hostDirectory
        }
    }

    /// The reader of a file layer.
    /// - Parameter lastContent: the layer's content in the last known good state if the reader is created at the start
    ///   of the agent; nil for later readers
    func reader(of layer: FileLayer, lastContent: JSONValue?) -> FileLayerReader {
        switch layer {
        case .defaults:
            let (path, maximumBytes) = (defaultsPath, maximumBytes)
            return FileLayerReader(layer: layer, path: path) { isCancelled throws(FileReadError) in
                guard let path else { return .empty }
                let files = try DocumentFiles.read(at: path, maximumBytes: maximumBytes)
                return FileLayerReader.merge(try files.documents(unless: isCancelled), keepsNulls: false)
            }
        case .host:
            let (directory, keepsNulls) = (hostReader(lastContent: lastContent), keepsNulls(layer))
            return FileLayerReader(layer: layer, path: hostDirectory) { isCancelled throws(FileReadError) in
                try directory?.read(keepsNulls: keepsNulls, unless: isCancelled) ?? .empty
            }
        }
    }

    /// The reader of the host layer; nil if the settings have no directory.
    ///
    /// If the settings name the directory and the layer had content in the last known good state, the directory must
    /// still exist. The default directory may be missing even then, because that content may come from another
    /// directory.
    func hostReader(lastContent: JSONValue?) -> HostDirectory? {
        let wasThere = isHostDirectoryNamed && lastContent.map { $0 != .emptyObject } == true
        return hostDirectory.map {
            HostDirectory(
                path: $0, isNamed: isHostDirectoryNamed, wasThere: wasThere, maximumBytes: maximumBytes)
        }
    }

    /// Whether nulls in the layer's files are kept. A null removes a member of a lower layer, so nulls matter only if
    /// there is a lower layer.
    func keepsNulls(_ layer: FileLayer) -> Bool { layer == .host && defaultsPath != nil }

    /// Whether a file layer is read from the same files and in the same way under the settings `other`.
    func hasSameFiles(_ layer: FileLayer, as other: NamespaceConfiguration) -> Bool {
        guard keepsNulls(layer) == other.keepsNulls(layer), maximumBytes == other.maximumBytes else { return false }
        return switch layer {
        case .defaults: defaultsPath.isSpelled(as: other.defaultsPath)
        case .host:
            hostDirectory.isSpelled(as: other.hostDirectory) && isHostDirectoryNamed == other.isHostDirectoryNamed
        }
    }

    /// Checks the files of the layers: the defaults, the administrator's files, and a remote source that is a file.
    /// Blocks on disk I/O.
    /// - Returns: At most one problem for each file. If the file is not JSON, the problem has the position of the first
    ///   error.
    package func examineFiles() -> [LayerProblem] {
        var problems: [LayerProblem] = []
        if let defaultsPath { problems += LayerProblem.found(at: defaultsPath, maximumBytes: maximumBytes) }
        if let hostDirectory {
            problems += LayerProblem.found(
                inHostDirectory: hostDirectory, isNamed: isHostDirectoryNamed, maximumBytes: maximumBytes)
        }
        if case .file(let file) = remote {
            problems += LayerProblem.found(at: file.path, maximumBytes: file.maximumBytes)
        }
        return problems
    }

    /// The files in the directories of the layers that are not read because of their names, such as `40-web.jsn`. Blocks on
    /// disk I/O.
    package func ignoredFiles() -> [String] {
        var directories = [defaultsPath, hostDirectory].compactMap(\.self)
        if case .file(let file) = remote { directories.append(file.path) }
        return directories.flatMap { LayerProblem.ignoredFiles(in: $0) }
    }
}

/// The environment that all namespaces share.
struct NamespaceEnvironment: Sendable {
    let epoch: String
    let stateDirectory: String
    let files: any FileSystem
    let blocking: BlockingThreadPool
    let watcher: FileWatcher
    let fetcher: HTTPFetcher
    /// Identifies this host. The identity determines when the host polls and in which experiments it takes part.
    let hostIdentity: String
    /// Identifies this host for servers; nil if it has no machine ID.
    let hostID: String?
    let clock: any Clock<Duration>
    let wallClock: WallClock
    /// The time since the host started, including suspended time.
    let hostUptime: @Sendable () -> Duration
    /// The signal that is raised at each publication of a namespace, and when a namespace starts or ends.
    let changes: Signal
    /// The durations of all requests to sources.
    let durations = RequestDurations()
    /// Provides random delays.
    let generator: any RandomNumberGenerator & Sendable
    let logger: Logger

    var sources: SourceEnvironment {
        SourceEnvironment(
            fetcher: fetcher, watcher: watcher, blocking: blocking, hostIdentity: hostIdentity, clock: clock,
            generator: generator, logger: logger)
    }

    /// Creates the source of a namespace; nil if the settings name none.
    func source(_ settings: RemoteSourceSettings?, reporting publication: ConfigPublication) -> (any ConfigSource)? {
        settings.map { settings in
            sources.source(settings) { [hostID] in
                let status = publication.status
                return PollReport(
                    hostID: hostID, state: status.freshnessAtRest.rawValue, version: status.upstreamVersion,
                    rejected: status.newestRejection.map { $0.version ?? "" })
            }
        }
    }
}

/// The settings that determine how a store accepts changes.
package struct StoreLimits: Sendable, Equatable {
    package var durability: Durability
    package var documents: DocumentLimits
}
