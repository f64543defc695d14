public import LarderJSON

/// A source that is a file on this machine, or a directory whose `*.json` and `*.json5` files are merged.
public struct FileSourceSettings: Sendable, Equatable {
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
