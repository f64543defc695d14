import Glibc
import LarderPlatform
import Synchronization

@testable import LarderConfigStorage

/// A file system in memory, for simulations. Its calls never block.
final class MemoryFileSystem: FileSystem {
    private let files = Mutex<[String: [UInt8]]>([:])

    func createDirectory(_ path: String) throws(FileError) {}

    func list(_ path: String) throws(FileError) -> [String] {
        let prefix = path + "/"
        return files.withLock { files in
            files.keys.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }.sorted()
        }
    }

    func read(_ path: String) throws(FileError) -> [UInt8]? { files.withLock { $0[path] } }
    func head(of path: String, bytes: Int) throws(FileError) -> (bytes: [UInt8], size: Int)? {
        try read(path).map { (Array($0.prefix(bytes)), $0.count) }
    }
    func readJournal(_ path: String) throws(FileError) -> JournalContent? {
        guard let bytes = try read(path) else { return nil }
        let end = (bytes.lastIndex { $0 != 0 } ?? -1) + 1
        return JournalContent(bytes: Array(bytes[..<end]), zeros: bytes.count - end)
    }
    func replace(_ path: String, with bytes: [UInt8]) throws(FileError) { files.withLock { $0[path] = bytes } }
    func remove(_ path: String) throws(FileError) { _ = files.withLock { $0.removeValue(forKey: path) } }

    func rename(_ path: String, to newPath: String) throws(FileError) {
        let exists = files.withLock { files in
            guard let bytes = files.removeValue(forKey: path) else { return false }
            files[newPath] = bytes
            return true
        }
        if !exists { throw FileError("rename", path, errno: ENOENT) }
    }

    func openJournal(_ path: String, size: Int) throws(FileError) -> any JournalFile {
        files.withLock { files in
            let bytes = files[path] ?? []
            files[path] = bytes + Array(repeating: 0, count: max(0, size - bytes.count))
        }
        return Journal(owner: self, path: path)
    }

    private struct Journal: JournalFile {
        let owner: MemoryFileSystem
        let path: String

        func write(_ bytes: [UInt8], at offset: Int) throws(FileError) {
            owner.files.withLock { files in
                var content = files[path] ?? []
                files[path] = nil  // Without this, the next line would copy the bytes.
                content += Array(repeating: 0, count: max(0, offset + bytes.count - content.count))
                content.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
                files[path] = content
            }
        }

        func truncate(to size: Int) throws(FileError) {
            owner.files.withLock { files in files[path] = files[path].map { Array($0.prefix(size)) } }
        }
    }
}
