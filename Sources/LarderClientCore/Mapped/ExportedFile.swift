import Glibc
import LarderJSON
package import LarderSnapshotFile

/// The file in which the agent exports the current document of a namespace, for programs that start without the agent.
package enum ExportedFile {
    /// Returns the directory of the exported files: `current/` next to the socket. Nil for an abstract socket, which is
    /// in no directory.
    package static func defaultDirectory(nextTo socket: String) -> String? {
        guard !socket.hasPrefix("@") else { return nil }
        guard let slash = socket.lastIndex(of: "/") else { return "current" }
        return socket[...slash] + "current"
    }

    /// Reads the file of a namespace and converts it to the format that the agent passes, so that all values are read
    /// in the same way. Returns nil if the file cannot be read or does not contain an object.
    package static func read(_ namespace: String, in directory: String) -> MappedSnapshot? {
        guard let bytes = contents("\(directory)/\(namespace).json"), let value = try? JSONValue(parsing: bytes),
            value.kind == .object
        else { return nil }
        return try? mapped(value, name: "larder \(namespace) exported")
    }

    /// A snapshot without values.
    /// - Throws: `systemFailed` if the process can open no more files.
    package static func empty() throws(SnapshotFileError) -> MappedSnapshot {
        try mapped(.emptyObject, name: "larder empty")
    }

    private static func mapped(_ value: JSONValue, name: String) throws(SnapshotFileError) -> MappedSnapshot {
        let file = try SnapshotFileWriter.file(of: value, revision: 0, epoch: "0", name: name)
        return MappedSnapshot(try SnapshotFileReader(descriptor: file.descriptor))
    }

    private static func contents(_ path: String) -> [UInt8]? {
        // O_NONBLOCK: a FIFO at this path must not block the call.
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var (bytes, chunk) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 16))
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { return bytes }
            bytes += chunk[..<count]
        }
    }
}
