import Glibc
import LarderPlatform
import Logging

/// Watches one path for one stream. After an event it waits for the end of the burst, resolves the path again, and
/// yields an element.
struct PathFollower: Sendable {
    let path: String
    let inotify: Inotify
    let clock: any Clock<Duration>
    let logger: Logger?
    let output: AsyncStream<FileWatcher.Change>.Continuation

    /// Runs until it is cancelled or the watcher stops.
    func run() async {
        let (signal, wakeUps) = Signal.makeStream()
        let subscriber = inotify.subscribe(signal)
        defer {
            inotify.unsubscribe(subscriber)
            output.finish()
        }
        await withTaskGroup { group in
            group.addTask { await follow(signal, wakeUps, subscriber) }
            group.addTask { await poll(signal) }
            await group.next()
            group.cancelAll()
        }
    }

    private func follow(_ signal: Signal, _ wakeUps: AsyncStream<Void>, _ subscriber: Int) async {
        var retry: Task<Void, Never>?
        defer { retry?.cancel() }
        var problem: String?
        signal.take()
        retry = scan(subscriber, signal, &problem)
        output.yield(FileWatcher.Change(watchProblem: problem))
        for await _ in wakeUps {
            // The events that caused this wake-up may belong to the previous burst, which has been handled already.
            guard signal.take() else { continue }
            retry?.cancel()
            await settle(signal)
            if Task.isCancelled { return }
            retry = scan(subscriber, signal, &problem)
            output.yield(FileWatcher.Change(watchProblem: problem))
        }
    }

    private func poll(_ signal: Signal) async {
        while (try? await clock.sleep(for: FileWatcher.Timing.poll)) != nil { signal.raise() }
    }

    private func settle(_ signal: Signal) async {
        for _ in 0..<FileWatcher.Timing.maxBurst {
            guard (try? await clock.sleep(for: FileWatcher.Timing.settle)) != nil else { return }
            if !signal.take() { return }
        }
    }

    /// Sets the watches along the current path. New watches are set before old ones are removed.
    /// - Parameter problem: why the path is not watched; nil if it is. Logs a change of the problem.
    /// - Returns: a task that raises the signal when refused watches should be requested again; nil if all were granted
    private func scan(_ subscriber: Int, _ signal: Signal, _ problem: inout String?) -> Task<Void, Never>? {
        let unavailability = inotify.unavailability()
        var scan = PathScan(inotify, subscriber: subscriber)
        scan.run(path)
        inotify.keepOnly(scan.interests, for: subscriber)
        let previous = problem
        problem = unavailability.map(queueProblem) ?? scan.refusal.map(watchProblem)
        log(problem, after: previous)
        guard problem != nil else {
            if scan.isBlind {
                logger?.debug(
                    "a part of the path cannot be watched and is polled instead", metadata: ["path": "\(path)"])
            }
            return nil
        }
        let clock = clock
        return Task {
            try? await clock.sleep(for: FileWatcher.Timing.retry)
            if !Task.isCancelled { signal.raise() }
        }
    }

    private func log(_ message: String?, after previous: String?) {
        if let message, message != previous {
            logger?.warning("\(path): \(message)", metadata: ["path": "\(path)"])
        } else if message == nil, previous != nil {
            logger?.notice("\(path): changes are watched again", metadata: ["path": "\(path)"])
        }
    }

    private func queueProblem(_ number: Int32) -> String {
        switch number {
        case EMFILE:
            unwatched("this user has no inotify instances left", "raise fs.inotify.max_user_instances, see sysctl(8)")
        case ENFILE: unwatched("the system has no open files left", "raise fs.file-max, see sysctl(8)")
        default: unwatched("inotify is not available: \(String(cString: strerror(number)))", "see inotify(7)")
        }
    }

    private func watchProblem(_ number: Int32) -> String {
        number == ENOSPC
            ? unwatched("this user has no inotify watches left", "raise fs.inotify.max_user_watches, see sysctl(8)")
            : unwatched(
                "the kernel refused an inotify watch: \(String(cString: strerror(number)))",
                "stop other programs to free memory")
    }

    private func unwatched(_ cause: String, _ advice: String) -> String {
        "changes are not watched: \(cause); the files are read every \(FileWatcher.Timing.retry) instead; \(advice)"
    }
}

/// Resolves a path as the kernel does (path_resolution(7)), and watches everything that can change the result. In each
/// directory along the path, including those behind symbolic links, it watches only the entry that is on the path.
///
/// Each watch is set before the watched object is read. A change during the scan is therefore part of the result or
/// raises a signal.
struct PathScan {
    /// The watches that the scan has set, and the events for which each of them signals.
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
                current = splitPath(current).directory
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
