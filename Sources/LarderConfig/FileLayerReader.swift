import LarderJSON

/// Where a file layer is read, as the settings say.
struct FileLayerReader: Sendable {
    let layer: FileLayer
    /// The file or directory; nil where the settings name none, and the layer is empty.
    let path: String?
    /// Reads it. Blocks until the disk has answered.
    let read: @Sendable () throws(FileReadError) -> ComposedPatch

    /// Merges documents, lowest first.
    ///
    /// - Parameter keepsNulls: whether a layer below has members that a null can remove
    static func merge(_ documents: [JSONValue], keepsNulls: Bool) -> ComposedPatch {
        keepsNulls ? ComposedPatch(documents) : ComposedPatch(MergePatch.merge(documents))
    }
}

extension ComposedPatch {
    /// Changes nothing.
    static let empty = ComposedPatch(.emptyObject)
}

extension NamespaceConfiguration {
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
}
