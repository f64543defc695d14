internal import Glibc
internal import JSON

/// A directory of JSON files that are merged into one document: the `host` layer.
///
/// Read are the regular files, behind symbolic links too, whose names end with `.json` and do not begin with a dot. A
/// file that cannot be read or understood makes the whole reading an error that names it: the caller keeps what it has,
/// and no file that is half written ever empties the layer. Reading blocks until the disk has answered.
public struct HostDirectory: Sendable, Hashable {
    /// Where it is.
    public let path: String
    /// Whether somebody named it. One that is only taken for granted may be missing together with what it is in.
    public let isNamed: Bool
    /// The largest file accepted, and the largest sum of all, in bytes.
    public let maximumBytes: Int
    /// The largest number of files accepted.
    public let maximumFiles: Int

    /// Makes a reader of a directory. The directory need not exist yet.
    public init(path: String, isNamed: Bool = true, maximumBytes: Int = 16 << 20, maximumFiles: Int = 1024) {
        self.path = path
        self.isNamed = isNamed
        self.maximumBytes = maximumBytes
        self.maximumFiles = maximumFiles
    }

    /// Reads all files as they were at one moment. If the directory or a file changes meanwhile, all are read again, a few
    /// times.
    ///
    /// - Returns: an empty reading if the directory does not exist but its parent does, or nobody named it
    /// - Throws: ``FileReadError``
    public func read() throws(FileReadError) -> HostReading {
        for _ in 0..<CarefulFile.attempts {
            let directory: Descriptor
            do {
                directory = try Descriptor(path.cPath, flags: O_DIRECTORY)
            } catch {
                return try missing(error.number)
            }
            guard let contents = try contents(of: directory.number) else { continue }
            // A directory behind a symbolic link may have been exchanged as a whole.
            guard let opened = directory.status(), let named = fileStatus(path.cPath),
                opened.st_ino == named.st_ino, opened.st_dev == named.st_dev
            else { continue }
            return try merged(contents)
        }
        throw FileReadError(
            .unstable, path, "it changed each time while it was read; write it less often or exchange it as a whole")
    }

    private struct Contents {
        var files: [(name: String, bytes: [UInt8])] = []
        var problems: [HostProblem] = []
    }

    /// Only a directory that is really not there is empty. No permission to look, a dangling link, or a mount that is
    /// missing as a whole say nothing about what the administrator wants.
    private func missing(_ number: CInt) throws(FileReadError) -> HostReading {
        guard number == ENOENT else { throw FileReadError(path, errno: number) }
        if fileStatus(path.cPath, followingLinks: false) != nil {
            throw FileReadError(.notFound, path, "the symbolic link leads nowhere; repair or remove it", errno: number)
        }
        if !isNamed { return .empty }
        // A trailing slash is no name of its own.
        var parent = path[...]
        while parent.count > 1, parent.last == "/" { parent.removeLast() }
        parent = parent.lastIndex(of: "/").map { parent[...$0] } ?? "."
        guard fileStatus(String(parent).cPath)?.fileType == S_IFDIR else {
            throw FileReadError(
                .parentMissing, path, "neither it nor the directory above it exists; correct the path or mount it",
                errno: number)
        }
        return .empty
    }

    /// All files, or nothing if they were not all of one moment.
    private func contents(of directory: CInt) throws(FileReadError) -> Contents? {
        let names = try jsonNames(in: directory)
        var result = Contents()
        var identities: [FileIdentity] = []
        var room = maximumBytes
        for name in names {
            let shown = path + "/" + String(decoding: name, as: UTF8.self)
            let cName = name.map { CChar(bitPattern: $0) } + [0]
            if let status = fileStatus(cName, in: directory), status.fileType != S_IFREG {
                let reason = "not a regular file; it is not read"
                result.problems.append(HostProblem(name: String(decoding: name, as: UTF8.self), reason: reason))
                identities.append(FileIdentity(status))
                continue
            }
            let file = CarefulFile(name: cName, in: directory, path: shown, maximumBytes: room)
            let reading: CarefulFile.Reading
            do {
                reading = try file.read()
            } catch  where error.code == .notFound && fileStatus(cName, in: directory, followingLinks: false) == nil {
                return nil  // it was removed after it was listed
            }
            room -= reading.bytes.count
            result.files.append((String(decoding: name, as: UTF8.self), reading.bytes))
            identities.append(reading.identity)
        }
        guard try jsonNames(in: directory) == names else { return nil }
        for (name, identity) in zip(names, identities) {
            let status = fileStatus(name.map { CChar(bitPattern: $0) } + [0], in: directory)
            guard let status, FileIdentity(status) == identity else { return nil }
        }
        return result
    }

    private func merged(_ contents: Contents) throws(FileReadError) -> HostReading {
        var files: [HostFile] = []
        for (name, bytes) in contents.files {
            let document = try Self.parse(bytes, path: path + "/" + name)
            files.append(HostFile(name: name, bytes: bytes.count, document: document))
        }
        return HostReading(
            document: MergePatch.merge(files.map(\.document)), files: files, problems: contents.problems)
    }

    private static func parse(_ bytes: [UInt8], path: String) throws(FileReadError) -> JSONValue {
        if bytes.isEmpty { throw FileReadError(.empty, path, "it is empty; write a JSON object, at least {}") }
        let document: JSONValue
        do throws(JSONError) {
            document = try JSONValue(parsing: bytes)
        } catch {
            throw FileReadError(.invalidJSON, path, error.reason, offset: error.offset)
        }
        guard document.kind == .object else {
            throw FileReadError(.notAnObject, path, "it is JSON, but not an object; put the settings between { and }")
        }
        return document
    }

    /// The names that count, in byte order.
    private func jsonNames(in directory: CInt) throws(FileReadError) -> [[UInt8]] {
        let suffix = Array(".json".utf8)
        let names: [[UInt8]]
        do throws(Errno) {
            names = try directoryNames(directory)
        } catch {
            throw FileReadError(path, errno: error.number)
        }
        let chosen = names.filter { $0.first != UInt8(ascii: ".") && $0.ends(with: suffix) }
        guard chosen.count <= maximumFiles else {
            throw FileReadError(.tooMany, path, "it has \(chosen.count) files, more than \(maximumFiles); merge some")
        }
        return chosen.sorted { $0.lexicographicallyPrecedes($1) }
    }
}
