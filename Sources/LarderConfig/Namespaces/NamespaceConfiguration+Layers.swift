import LarderConfigModel
package import LarderConfigSources
import LarderJSON

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
            source: remote.map { .init($0.kind, at: $0.location, identity: $0.identity) }, files: files,
            staleIfError: remote?.staleIfError)
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
}
