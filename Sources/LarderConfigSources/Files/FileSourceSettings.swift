package import LarderJSON

/// A source that is a file on this machine, or a directory whose `*.json` and `*.json5` files are merged.
package struct FileSourceSettings: Sendable, Equatable {
    /// Its path.
    package var path: String
    /// Where the document says its own version; nil where it does not.
    package var versionPath: JSONPath?
    /// The largest document taken, and the most that the files of a directory may have together.
    package var maximumBytes: Int

    package init(path: String, versionPath: JSONPath? = nil, maximumBytes: Int = 16 << 20) {
        self.path = path
        self.versionPath = versionPath
        self.maximumBytes = maximumBytes
    }
}
