package import LarderJSON

/// The settings of a source that is a file on this host, or a directory whose `*.json` and `*.json5` files are merged.
package struct FileSourceSettings: Sendable, Equatable {
    @ComparedAsBytes package var path: String
    /// The path of the version in the document; nil for none.
    package var versionPath: JSONPath?
    /// The maximum size of the file, or of all files of a directory together, in bytes.
    package var maximumBytes: Int

    package init(path: String, versionPath: JSONPath? = nil, maximumBytes: Int = 16 << 20) {
        self.path = path
        self.versionPath = versionPath
        self.maximumBytes = maximumBytes
    }
}
