/// One file that holds a whole document: the `file` kind of remote source.
///
/// Reading blocks until the disk has answered. Nothing is kept between two readings.
public struct DocumentFile: Sendable, Hashable {
    /// Where it is.
    public let path: String
    /// The largest content accepted, in bytes.
    public let maximumBytes: Int

    /// Bytes that were the file's whole content at one moment.
    public struct Reading: Sendable, Hashable {
        /// The content, never empty.
        public let bytes: [UInt8]
        /// Stands for this content: a reading with the stamp of the one before is "not modified".
        public let stamp: FileStamp
    }

    /// Makes a reader of a file. The file need not exist yet.
    public init(path: String, maximumBytes: Int = 16 << 20) {
        self.path = path
        self.maximumBytes = maximumBytes
    }

    /// Reads the file. If it changes meanwhile it is read again, a few times.
    ///
    /// - Throws: ``FileReadError``; an empty file is an error, because it is what a file looks like that is about to be
    ///   written.
    public func read() throws(FileReadError) -> Reading {
        let reading = try CarefulFile(name: path.cPath, path: path, maximumBytes: maximumBytes).read()
        guard !reading.bytes.isEmpty else {
            throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}")
        }
        return Reading(bytes: reading.bytes, stamp: FileStamp(of: reading.bytes))
    }
}
