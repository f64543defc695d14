package import LarderJSON

/// The settings of a source that is a file on this host, or a directory whose `*.json` and `*.json5` files are merged.
package struct FileSourceSettings: Sendable, Equatable {
    @ComparedAsBytes package var path: String
    /// The path of the version in the document; nil for none.
    package var versionPath: JSONPath?
    /// The maximum size of the file, or of all files of a directory together, in bytes.
    package var maximumBytes = 16 << 20
}

extension FileSourceSettings {
    package init(path: String) { self.path = path }
}
