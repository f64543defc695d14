import Foundation
import TestSupport

/// What the image cache of an agent has on disk.
struct CacheDirectory {
    let path: String

    /// A file there.
    struct File: Hashable {
        let name: String
        let bytes: Int
    }

    init(of home: AgentHome) { path = home.directory + "/cache/images" }

    /// The published images, named by their digests.
    var blobs: [File] { files("blobs") }

    /// What is being written.
    var temporary: [File] { files("tmp") }

    /// Bytes of all images, published or being written; one that has both names for a moment counts once.
    var bytes: Int {
        var inodes: Set<ino_t> = []
        return (paths("blobs") + paths("tmp")).reduce(0) { sum, path in
            guard let status = Self.status(path), inodes.insert(status.st_ino).inserted else { return sum }
            return sum + Int(status.st_size)
        }
    }

    /// The disk space of the published images and their directories, as du(1) counts it.
    var diskBytes: Int {
        let root = path + "/blobs"
        let names = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return ([root] + names.map { root + "/" + $0 }).reduce(0) { sum, path in
            sum + (Self.status(path).map { Int($0.st_blocks) * 512 } ?? 0)
        }
    }

    /// Waits until what is on disk is as it has to become. What was removed while a client read it goes behind the reply.
    func wait(_ purpose: String, until isRight: () throws -> Bool) throws {
        try retrying {
            if try !isRight() {
                throw HarnessError("waited in vain for \(purpose); there are \(blobs.count) blobs, \(temporary)")
            }
        }
    }

    private func files(_ directory: String) -> [File] {
        paths(directory).compactMap { path in
            Self.status(path).map { File(name: String(path.split(separator: "/").last ?? ""), bytes: Int($0.st_size)) }
        }
    }

    /// All files below a directory. One that goes away meanwhile is not there.
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
    /// Holds all of its threads for as long as `body` takes: what that sees on disk was there at one moment.
    func whileHeld<Result>(_ body: () throws -> Result) throws -> Result {
        process.signal(SIGSTOP)
        defer { process.signal(SIGCONT) }
        // A thread stops when its system call is over.
        try retrying {
            let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")
            for thread in threads {
                let text = try String(contentsOfFile: "/proc/\(pid)/task/\(thread)/stat", encoding: .utf8)
                // The state stands behind the program's name, which is in parentheses (proc_pid_stat(5)).
                let state = text[(text.lastIndex(of: ")") ?? text.startIndex)...].dropFirst(2).first
                if state != "T" { throw HarnessError("thread \(thread) does not stop: \(state ?? "?")") }
            }
        }
        return try body()
    }
}
