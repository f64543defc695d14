import LarderConfigModel
package import LarderConfigSources
import LarderJSON

// What the settings of a namespace mean for its layers.

extension NamespaceConfiguration {
    /// The rules for this host.
    func rules(hostIdentity: String) -> LayerRules {
        LayerRules(
            locks: LockedPaths(locks), experiments: experiments, unit: experiments.unit ?? hostIdentity)
    }

    /// Where a file layer is read.
    ///
    /// - Parameter document: what the layer said when it was last written down, at a start
    func files(_ layer: FileLayer, holding document: JSONValue?) -> FileLayerReader {
        switch layer {
        case .defaults:
            let (path, maximumBytes) = (defaultsPath, maximumBytes)
            return FileLayerReader(layer: layer, path: path) { () throws(FileReadError) in
                guard let path else { return .empty }
                let files = try DocumentFiles.read(at: path, maximumBytes: maximumBytes)
                return FileLayerReader.merge(try files.documents(), keepsNulls: false)
            }
        case .host:
            let (directory, keepsNulls) = (host(holding: document), keepsNulls(layer))
            return FileLayerReader(layer: layer, path: hostDirectory) { () throws(FileReadError) in
                try directory?.read(keepsNulls: keepsNulls) ?? .empty
            }
        }
    }

    /// The file or directory of a file layer; nil where the settings name none.
    func location(of layer: FileLayer) -> String? {
        switch layer {
        case .defaults: defaultsPath
        case .host: hostDirectory
        }
    }

    /// Whether nulls in a layer's files stay in it: in every one that has another below.
    func keepsNulls(_ layer: FileLayer) -> Bool { layer == .host && defaultsPath != nil }

    /// Whether a file layer comes about in the same way under other settings.
    func hasSameFiles(_ layer: FileLayer, as other: NamespaceConfiguration) -> Bool {
        guard keepsNulls(layer) == other.keepsNulls(layer) else { return false }
        return switch layer {
        case .defaults: defaultsPath == other.defaultsPath && maximumBytes == other.maximumBytes
        case .host: hostDirectory == other.hostDirectory && isHostDirectoryNamed == other.isHostDirectoryNamed
        }
    }

    /// The host layer's directory at the start; nil for none.
    ///
    /// - Parameter document: what the layer said when it was last written down. The settings may have named another
    ///   directory then, or none: only of one that they name is it taken for what that directory said.
    func host(holding document: JSONValue?) -> HostDirectory? {
        let wasThere = isHostDirectoryNamed && document.map { $0 != .emptyObject } == true
        return hostDirectory.map { HostDirectory(path: $0, isNamed: isHostDirectoryNamed, wasThere: wasThere) }
    }

    /// What the settings say of how the store takes changes.
    var limits: StoreLimits {
        StoreLimits(
            durability: durability,
            documents: DocumentLimits(maximumBytes: maximumBytes, maximumDeletion: maximumDeletion))
    }

    /// The status of a namespace with these settings before anything has happened.
    var initialStatus: NamespaceStatus {
        var files: [FileLayer: String] = [:]
        for layer in FileLayer.allCases { files[layer] = location(of: layer) }
        return NamespaceStatus(
            source: remote.map { ($0.kind, $0.location) }, files: files, staleIfError: remote?.staleIfError)
    }

    /// Reads the files of the layers: the defaults, the administrator's files, and a remote source that is a file. Blocks until
    /// the disk has answered.
    /// - Returns: a problem for each file; for one that is not JSON the first place at which it is not.
    package func examineFiles() -> [LayerProblem] {
        var problems: [LayerProblem] = []
        if let defaultsPath { problems += LayerProblem.found(at: defaultsPath, maximumBytes: maximumBytes) }
        if let hostDirectory {
            problems += LayerProblem.found(inHostDirectory: hostDirectory, isNamed: isHostDirectoryNamed)
        }
        if case .file(let file) = remote {
            problems += LayerProblem.found(at: file.path, maximumBytes: file.maximumBytes)
        }
        return problems
    }
}
