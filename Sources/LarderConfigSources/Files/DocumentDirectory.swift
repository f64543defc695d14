import CLinuxShims
import Glibc
import LarderPlatform

/// A directory of JSON files that together are one document: the host layer, or a remote source.
///
/// Read are the files whose names end with `.json` or `.json5` and do not begin with a dot, behind symbolic links too. One
/// that cannot be read or understood, or is no regular file, makes the whole reading an error that names it: the caller keeps what
/// it has, and no file that is half written ever empties a layer. Reading blocks until the disk has answered.
struct DocumentDirectory: Sendable, Hashable {
    let path: String
    /// The largest file accepted, and the largest sum of all, in bytes.
    let maximumBytes: Int
    /// The largest number of files accepted.
    let maximumFiles: Int

    /// Makes a reader of a directory. The directory need not exist yet.
    init(path: String, maximumBytes: Int = 16 << 20, maximumFiles: Int = 1024) {
        self.path = path
        self.maximumBytes = maximumBytes
        self.maximumFiles = maximumFiles
    }

    /// Reads all files as they were at one moment, in the byte order of their names. If the directory or a file changes
    /// meanwhile, all are read again, a few times.
    func read() throws(FileReadError) -> DocumentFiles {
        for _ in 0..<StableFileReader.attempts {
            let directory: Descriptor
            do {
                directory = try Descriptor(path.cPath, flags: O_DIRECTORY)
            } catch {
                throw FileReadError(path, errno: error.number)
            }
            guard let files = try files(in: directory.number) else { continue }
            // A directory behind a symbolic link may have been exchanged as a whole.
            guard let opened = directory.status(), let named = fileStatus(path.cPath),
                opened.st_ino == named.st_ino, opened.st_dev == named.st_dev
            else { continue }
            return DocumentFiles(files: files)
        }
        throw FileReadError(
            .unstable, path, "it changed each time while it was read; write it less often or exchange it as a whole")
    }

    /// All files, or nothing if they were not all of one moment.
    private func files(in directory: CInt) throws(FileReadError) -> [DocumentFiles.File]? {
        let names = try jsonNames(in: directory)
        var files: [DocumentFiles.File] = []
        var identities: [FileIdentity] = []
        var room = maximumBytes
        for name in names {
            let shown = path + "/" + String(decoding: name, as: UTF8.self)
            let cName = name.map { CChar(bitPattern: $0) } + [0]
            let file = StableFileReader(name: cName, in: directory, path: shown, maximumBytes: room)
            let reading: StableFileReader.Reading
            do {
                reading = try file.read()
            } catch  where error.code == .notFound && fileStatus(cName, in: directory, followingLinks: false) == nil {
                return nil  // it was removed after it was listed
            }
            room -= reading.bytes.count
            files.append(DocumentFiles.File(path: shown, bytes: reading.bytes))
            identities.append(reading.identity)
        }
        guard try jsonNames(in: directory) == names else { return nil }
        for (name, identity) in zip(names, identities) {
            let status = fileStatus(name.map { CChar(bitPattern: $0) } + [0], in: directory)
            guard let status, FileIdentity(status) == identity else { return nil }
        }
        return files
    }

    private static func isDocument(_ name: [UInt8]) -> Bool {
        [".json", ".json5"].contains { name.ends(with: Array($0.utf8)) }
    }

    /// Everything that is wrong with the directory and its files, in the order of their names.
    func problems() -> [FileReadError] {
        var problems: [FileReadError] = []
        do throws(FileReadError) {
            let directory: Descriptor
            do {
                directory = try Descriptor(path.cPath, flags: O_DIRECTORY)
            } catch {
                throw FileReadError(path, errno: error.number)
            }
            var room = maximumBytes
            for name in try jsonNames(in: directory.number) {
                do throws(FileReadError) {
                    let shown = path + "/" + String(decoding: name, as: UTF8.self)
                    let file = StableFileReader(
                        name: name.map { CChar(bitPattern: $0) } + [0], in: directory.number, path: shown,
                        maximumBytes: room)
                    let bytes = try file.read().bytes
                    room -= bytes.count
                    _ = try DocumentFiles.parse(DocumentFiles.File(path: shown, bytes: bytes))
                } catch {
                    problems.append(error)
                }
            }
        } catch {
            problems.append(error)
        }
        return problems
    }

    /// The names that count, in byte order.
    private func jsonNames(in directory: CInt) throws(FileReadError) -> [[UInt8]] {
        let names: [[UInt8]]
        do throws(Errno) {
            names = try DirectoryListing.names(in: directory)
        } catch {
            throw FileReadError(path, errno: error.number)
        }
        let chosen = names.filter { $0.first != UInt8(ascii: ".") && Self.isDocument($0) }
        guard chosen.count <= maximumFiles else {
            throw FileReadError(.tooMany, path, "it has \(chosen.count) files, more than \(maximumFiles); merge some")
        }
        return chosen.sorted { $0.lexicographicallyPrecedes($1) }
    }
}

extension [UInt8] {
    fileprivate func ends(with suffix: [UInt8]) -> Bool { self.suffix(suffix.count).elementsEqual(suffix) }
}
