import Glibc
import LarderPlatform

/// Resolves a path as the kernel does (path_resolution(7)), and watches everything that can change the result. In each
/// directory along the path, including those behind symbolic links, it watches only the entry that is on the path.
///
/// Each watch is set before the watched object is read. A change during the survey is therefore part of the result or
/// raises a signal.
struct PathSurvey {
    /// The watches that the survey has set, and the events for which each of them signals.
    private(set) var interests: [Int32: Inotify.Interest] = [:]
    /// Whether a part of the path could not be watched. Its changes are only detected by polling.
    private(set) var isBlind = false
    /// The error number of a watch that the kernel refused for an existing path: the user has no watches left, or the
    /// kernel has no memory left.
    private(set) var refusal: Int32?

    private let inotify: Inotify
    private let subscriber: Int
    private var links = 0

    /// The maximum number of symbolic links that the kernel follows in one lookup.
    private static let maxLinks = 40
    /// The maximum number of directory entries that are watched themselves, because users have few watches. Changes of
    /// further entries are detected by polling.
    private static let maxEntries = 1024

    private enum Goal {
        case directory(String)
        case other
    }

    init(_ inotify: Inotify, subscriber: Int) {
        self.inotify = inotify
        self.subscriber = subscriber
    }

    /// Resolves and watches the path of a file or directory. The path need not exist yet.
    ///
    /// - Parameter path: an absolute path
    mutating func run(_ path: String) {
        guard case .directory(let directory) = walk(Self.components(path), from: "/") else { return }
        watch(directory, as: .directory, .everything)
        // The watch of the directory does not report changes behind its symbolic links, or writes to its files through
        // other hard links or mounts. The entries are therefore watched, too.
        for entry in entries(of: directory) {
            _ = walk([entry], from: directory)
        }
    }

    /// Resolves names, starting at a directory whose path contains no symbolic links.
    private mutating func walk(_ names: [String], from start: String) -> Goal {
        var current = start
        var ahead = Array(names.reversed())
        links = 0
        while let name = ahead.popLast() {
            if name == "." { continue }
            if name == ".." {
                current = Self.parent(current)
                continue
            }
            watch(current, as: .passage, .names([name]))
            let next = current == "/" ? "/" + name : current + "/" + name
            // The entry is missing or unreadable. The watch reports when that changes.
            guard let status = fileStatus(next.cPath, followingLinks: false) else { return .other }
            switch status.fileType {
            case S_IFLNK:
                links += 1
                guard links <= Self.maxLinks, let target = Self.target(of: next) else { return .other }
                if target.hasPrefix("/") { current = "/" }
                ahead += Self.components(target).reversed()
            case S_IFDIR:
                current = next
            default:
                if ahead.isEmpty { watch(next, as: .file, .everything) }
                return .other
            }
        }
        return .directory(current)
    }

    private mutating func watch(_ path: String, as kind: Inotify.Kind, _ interest: Inotify.Interest) {
        let watch: Int32
        switch inotify.watch(path, as: kind, interest, for: subscriber) {
        case .watching(let number): watch = number
        case .failed(let number):
            isBlind = true
            if [ENOSPC, ENOMEM].contains(number) { refusal = number }
            return
        }
        interests[watch] = interests[watch].map { $0.union(interest) } ?? interest
    }

    private func entries(of directory: String) -> [String] {
        guard let descriptor = try? Descriptor(directory.cPath, flags: O_DIRECTORY),
            let names = try? DirectoryListing.names(in: descriptor.number)
        else { return [] }
        return names.filter { $0.first != UInt8(ascii: ".") && $0.last != UInt8(ascii: "~") }
            .prefix(Self.maxEntries)
            .map { String(decoding: $0, as: UTF8.self) }
    }

    private static func components(_ path: String) -> [String] {
        path.split(separator: "/").map(String.init)
    }

    private static func parent(_ path: String) -> String {
        guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "/" }
        return String(path[..<slash])
    }

    private static func target(of link: String) -> String? {
        // The target of a link is always shorter than PATH_MAX (symlink(7)), so it fits into this buffer.
        let bytes = [UInt8](unsafeUninitializedCapacity: Int(PATH_MAX)) { buffer, count in
            count = buffer.withMemoryRebound(to: CChar.self) { text in
                text.baseAddress.map { max(0, readlink(link, $0, text.count)) } ?? 0
            }
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }
}
