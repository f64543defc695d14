import Foundation
import LarderJSON
import TestSupport

/// The files of an agent's image cache.
struct CacheDirectory {
    let path: String

    struct File: Hashable {
        let name: String
        let bytes: Int
    }

    init(of home: AgentHome) { path = home.directory + "/cache/images" }

    /// The published images. Their names are their digests.
    var blobs: [File] { files("blobs") }

    /// The files that are being written.
    var temporary: [File] { files("tmp") }

    /// The total size in bytes of the published images and the files that are being written. While an image is being
    /// published, its file has a name in both directories and counts once.
    var bytes: Int {
        var inodes: Set<ino_t> = []
        return (paths("blobs") + paths("tmp")).reduce(0) { sum, path in
            guard let status = Self.status(path), inodes.insert(status.st_ino).inserted else { return sum }
            return sum + Int(status.st_size)
        }
    }

    /// The disk space in bytes of the published images and their directories, as du(1) counts it.
    var diskBytes: Int {
        let root = path + "/blobs"
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return ([root] + names.map { root + "/" + $0 }).reduce(0) { sum, path in
            sum + (Self.status(path).map { Int($0.st_blocks) * 512 } ?? 0)
        }
    }

    /// Waits until `condition` is true. Needed because the agent may delete files after it has replied.
    func wait(_ purpose: String, until condition: () throws -> Bool) throws {
        try retrying {
            if try !condition() {
                throw HarnessError.timeout(
                    "\(purpose); there are \(blobs.count) blobs, temporary files: \(temporary)")
            }
        }
    }

    /// Waits until the agent counts exactly the disk space in use. It counts a file or an empty directory until it has
    /// removed it, and a sweep removes empty directories last.
    func waitUntilCounted(by client: LineClient) throws {
        try retrying {
            let counted = try client.imageStatistics()["bytes"]?.int
            let used = diskBytes
            if counted != used { throw HarnessError.timeout("the agent counts \(counted ?? 0) bytes, du \(used)") }
        }
    }

    private func files(_ directory: String) -> [File] {
        paths(directory).compactMap { path in
            Self.status(path).map { File(name: String(path.split(separator: "/").last ?? ""), bytes: Int($0.st_size)) }
        }
    }

    /// All files below a directory. Omits files that are removed during the call.
    private func paths(_ directory: String) -> [String] {
        let root = path + "/" + directory
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return names.map { root + "/" + $0 }.filter { Self.status($0).map { $0.st_mode & S_IFMT == S_IFREG } ?? false }
    }

    private static func status(_ path: String) -> stat? {
        var status = stat()
        return lstat(path, &status) == 0 ? status : nil
    }
}

extension AgentProcess {
    /// Stops all threads of the agent (SIGSTOP) during `body`, so that `body` sees the files at one point in time.
    func whileStopped<Result>(_ body: () throws -> Result) throws -> Result {
        process.signal(SIGSTOP)
        defer { process.signal(SIGCONT) }
        // A thread stops only after its current system call.
        try retrying {
            let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")
            for thread in threads {
                let text = try String(contentsOfFile: "/proc/\(pid)/task/\(thread)/stat", encoding: .utf8)
                // The state of the thread follows the program name, which is in parentheses (proc_pid_stat(5)).
                let state = text[(text.lastIndex(of: ")") ?? text.startIndex)...].dropFirst(2).first
                if state != "T" { throw HarnessError("thread \(thread) is not stopped: \(state ?? "?")") }
            }
        }
        return try body()
    }
}
