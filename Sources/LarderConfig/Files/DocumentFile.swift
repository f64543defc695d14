/// One file that holds a whole document.
///
/// Reading blocks until the disk has answered. Nothing is kept between two readings.
struct DocumentFile: Sendable, Hashable {
    let path: String
    /// The largest content accepted, in bytes.
    let maximumBytes: Int

    /// Makes a reader of a file. The file need not exist yet.
    init(path: String, maximumBytes: Int = 16 << 20) {
        self.path = path
        self.maximumBytes = maximumBytes
    }

    /// Reads the file. If it changes meanwhile it is read again, a few times.
    ///
    /// - Throws: ``FileReadError``; an empty file is an error, because it is what a file looks like that is about to be
    ///   written.
    func read() throws(FileReadError) -> DocumentFiles {
        let reading = try CarefulFile(name: path.cPath, path: path, maximumBytes: maximumBytes).read()
        guard !reading.bytes.isEmpty else {
            throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}")
        }
        return DocumentFiles(files: [DocumentFiles.File(path: path, bytes: reading.bytes)])
    }
}
