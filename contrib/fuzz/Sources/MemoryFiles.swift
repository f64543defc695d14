@testable import LarderConfigStorage
@testable import LarderPlatform
import Synchronization

/// A file system in memory. Paths are not checked, and directories exist implicitly.
final class MemoryFiles: FileSystem {
    private let files = Mutex<[String: [UInt8]]>([:])

    /// All files by path.
    var content: [String: [UInt8]] {
        get { files.withLock { $0 } }
        set { files.withLock { $0 = newValue } }
    }

    init(_ content: [String: [UInt8]] = [:]) { self.content = content }

    func createDirectory(_ path: String) {}

    func list(_ path: String) -> [String] {
        content.keys.filter { $0.hasPrefix(path + "/") }.map { String($0.dropFirst(path.count + 1)) }.sorted()
    }

    func read(_ path: String) -> [UInt8]? { content[path] }

    func head(of path: String, bytes: Int) -> (bytes: [UInt8], size: Int)? {
        read(path).map { (Array($0.prefix(bytes)), $0.count) }
    }

    func readJournal(_ path: String) -> JournalContent? {
        guard let bytes = read(path) else { return nil }
        let count = (bytes.lastIndex { $0 != 0 } ?? -1) + 1
        return JournalContent(bytes: Array(bytes[..<count]), zeros: bytes.count - count)
    }

    func replace(_ path: String, with bytes: [UInt8]) { files.withLock { $0[path] = bytes } }

    func rename(_ path: String, to newPath: String) { files.withLock { $0[newPath] = $0.removeValue(forKey: path) } }

    func remove(_ path: String) { files.withLock { $0[path] = nil } }

    func openJournal(_ path: String, size: Int) -> any JournalFile { MemoryJournal(files: self, path: path) }

    /// A journal that does not allocate space in advance, and therefore does not end with zeros.
    private struct MemoryJournal: JournalFile {
        let files: MemoryFiles
        let path: String

        func write(_ bytes: [UInt8], at offset: Int) {
            var content = files.read(path) ?? []
            content += [UInt8](repeating: 0, count: max(0, offset + bytes.count - content.count))
            content.replaceSubrange(offset..<offset + bytes.count, with: bytes)
            files.replace(path, with: content)
        }

        func truncate(to size: Int) {}
    }
}
