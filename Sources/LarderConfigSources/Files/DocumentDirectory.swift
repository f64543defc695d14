import Glibc
import LarderConfigModel
package import LarderJSON
package import LarderPlatform
import Synchronization
import SystemPackage

/// A directory of JSON files that together form one document: the host layer, or a remote source.
///
/// All files whose names end with `.json` or `.json5` and do not begin with a dot are read. Symbolic links are
/// followed. If a file cannot be read or parsed, or is not a regular file, the whole read fails with an error that
/// names the file. The caller then keeps the last content, so that a partially written file does not empty a layer.
/// Reading blocks on disk I/O.
struct DocumentDirectory: Sendable, Hashable {
    /// The directory need not exist yet.
    let path: String
    /// The maximum size of all files together, in bytes.
    var maximumBytes = 16 << 20
    /// The maximum number of files.
    var maximumFiles = 1024

    /// Reads all files in a consistent state, in the byte order of their names. Tries again a few times if the
    /// directory or a file changes during the read.
    func read() throws(FileReadError) -> DocumentFiles {
        for _ in 0..<StableFileReader.attempts {
            let directory = try opened()
            guard let files = try files(in: directory.number) else { continue }
            // If the path is a symbolic link, it may point to another directory now.
            guard let opened = directory.status(), let named = fileStatus(path.cPath),
                opened.st_ino == named.st_ino, opened.st_dev == named.st_dev
            else { continue }
            return DocumentFiles(files: files)
        }
        throw FileReadError(
            .unstable, path, "it changed during every read; change it less often, or replace it as a whole")
    }

    /// Reads all files; nil if one of them changed during the read.
    private func files(in directory: CInt) throws(FileReadError) -> [DocumentFiles.File]? {
        let names = try jsonNames(in: directory)
        var files: [DocumentFiles.File] = []
        var identities: [FileIdentity] = []
        var room = maximumBytes
        for name in names {
            let shown = path + "/" + String(decoding: name, as: UTF8.self)
            let cName = name.map { CChar(bitPattern: $0) } + [0]
            let file = StableFileReader(name: cName, directory: directory, path: shown, maximumBytes: room)
            let reading: StableFileReader.Reading
            do {
                reading = try file.read()
            } catch  where error.code == .notFound && fileStatus(cName, in: directory, followingLinks: false) == nil {
                return nil  // removed after it was listed
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

    private func opened() throws(FileReadError) -> Descriptor {
        do throws(Errno) {
            return try Descriptor(path.cPath, flags: O_DIRECTORY)
        } catch {
            throw FileReadError(path, errno: error.rawValue)
        }
    }

    /// Returns the errors of the directory and of each file, in the order of their names.
    func problems() -> [FileReadError] {
        var problems: [FileReadError] = []
        do throws(FileReadError) {
            let directory = try opened()
            var room = maximumBytes
            for name in try jsonNames(in: directory.number) {
                do throws(FileReadError) {
                    let shown = path + "/" + String(decoding: name, as: UTF8.self)
                    let file = StableFileReader(
                        name: name.map { CChar(bitPattern: $0) } + [0], directory: directory.number, path: shown,
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

    /// Returns the paths of the files that are probably meant to be read, but are not because of their names, in byte
    /// order; empty if the directory cannot be read. Leaves out hidden files, files whose names begin with `README`, and
    /// files such as `10-web.json.bak` and `10-web.json~`, because renaming a file is a usual way to exclude it.
    func ignoredFiles() -> [String] {
        guard let directory = try? opened(), let names = try? DirectoryListing.names(in: directory.number) else {
            return []
        }
        let ignored = names.filter { name in
            let text = String(decoding: name, as: UTF8.self)
            return !Self.isRead(name) && !text.hasPrefix(".") && !text.hasPrefix("README") && !text.hasSuffix("~")
                && ![".json.", ".json5."].contains(where: text.contains)
        }
        return ignored.sorted { $0.lexicographicallyPrecedes($1) }
            .map { path + "/" + String(decoding: $0, as: UTF8.self) }
    }

    private static func isRead(_ name: [UInt8]) -> Bool {
        name.first != UInt8(ascii: ".") && [".json", ".json5"].contains { name.ends(with: Array($0.utf8)) }
    }

    /// Returns the names of the files to read, in byte order.
    private func jsonNames(in directory: CInt) throws(FileReadError) -> [[UInt8]] {
        let names: [[UInt8]]
        do throws(Errno) {
            names = try DirectoryListing.names(in: directory)
        } catch {
            throw FileReadError(path, errno: error.rawValue)
        }
        let chosen = names.filter(Self.isRead)
        guard chosen.count <= maximumFiles else {
            throw FileReadError(.tooMany, path, "it has \(chosen.count) files, more than \(maximumFiles); merge some")
        }
        return chosen.sorted { $0.lexicographicallyPrecedes($1) }
    }
}

extension [UInt8] {
    fileprivate func ends(with suffix: [UInt8]) -> Bool { self.suffix(suffix.count).elementsEqual(suffix) }
}

/// The directory of the administrator's files: the `host` layer.
///
/// If the directory has never existed, the layer is empty. If it existed before and is missing now, that is an error,
/// because it may be unmounted or about to be replaced. In that case the layer must not become empty.
package final class HostDirectory: Sendable {
    package let path: String
    /// Whether the settings name the directory. Otherwise it is the default directory, whose parent may be missing,
    /// too.
    let isNamed: Bool
    private let files: DocumentDirectory
    private let wasThere: Atomic<Bool>

    /// The directory need not exist yet.
    ///
    /// - Parameter wasThere: whether the directory is known to have existed
    package init(
        path: String, isNamed: Bool = true, wasThere: Bool = false, maximumBytes: Int = 16 << 20,
        maximumFiles: Int = 1024
    ) {
        self.path = path
        self.isNamed = isNamed
        self.wasThere = Atomic(wasThere)
        files = DocumentDirectory(path: path, maximumBytes: maximumBytes, maximumFiles: maximumFiles)
    }

    /// Reads and merges all files in a consistent state. Blocks on disk I/O.
    ///
    /// - Parameters:
    ///   - keepsNulls: whether nulls are kept, to remove members of a lower layer
    ///   - isCancelled: returns whether the content is not needed any more
    /// - Returns: an empty patch if the directory has never existed
    /// - Throws: ``FileReadError``
    package func read(
        keepsNulls: Bool = false, unless isCancelled: @escaping () -> Bool = { false }
    ) throws(FileReadError) -> ComposedPatch {
        let reading: DocumentFiles
        do {
            reading = try files.read()
        } catch  where error.path == path && error.errno == ENOENT {
            return try missing()
        }
        wasThere.store(true, ordering: .relaxed)
        return FileLayerReader.merge(try reading.documents(unless: isCancelled), keepsNulls: keepsNulls)
    }

    /// Returns the content of the layer if the directory is missing: an empty patch. Throws if a symbolic link is
    /// dangling or a mount may be missing, because the administrator does not intend an empty layer then.
    private func missing() throws(FileReadError) -> ComposedPatch {
        if fileStatus(path.cPath, followingLinks: false) != nil {
            throw FileReadError(
                .notFound, path, "the target of the symbolic link does not exist; repair or remove the link",
                errno: ENOENT)
        }
        if wasThere.load(ordering: .relaxed) {
            throw FileReadError(
                .notFound, path, "the directory existed before and is missing; restore it, even if it is to be empty",
                errno: ENOENT)
        }
        if !isNamed { return .empty }
        // Trailing slashes are removed first, because they are not part of the name of the directory.
        var parent = path[...]
        while parent.count > 1, parent.last == "/" { parent.removeLast() }
        parent = parent.lastIndex(of: "/").map { parent[...$0] } ?? "."
        guard fileStatus(String(parent).cPath)?.fileType == S_IFDIR else {
            throw FileReadError(
                .parentMissing, path, "neither it nor its parent directory exists; correct the path or mount it",
                errno: ENOENT)
        }
        return .empty
    }
}

/// An error in a file of a layer.
package struct LayerProblem: Sendable, Hashable {
    /// The file, the position and the reason.
    package let error: FileReadError
    /// Whether the error depends on the host and the user of this process instead of the content of the file: the file
    /// or directory of the layer does not exist, or this user is not allowed to read it.
    package let isCircumstance: Bool

    init(_ error: FileReadError, at location: String) {
        self.error = error
        let isAbsent = error.path == location && [.notFound, .parentMissing].contains(error.code)
        isCircumstance = isAbsent || error.code == .permissionDenied
    }

    /// Checks the file or directory of a layer, which must exist. Blocks on disk I/O.
    /// - Returns: at most one problem per file, with the position of the first error if the file cannot be parsed
    package static func found(at path: String, maximumBytes: Int) -> [LayerProblem] {
        if fileStatus(path.cPath)?.fileType == S_IFDIR {
            let problems = DocumentDirectory(path: path, maximumBytes: maximumBytes).problems()
            if !problems.isEmpty { return problems.map { LayerProblem($0, at: path) } }
        }
        do throws(FileReadError) {
            _ = try DocumentFiles.read(at: path, maximumBytes: maximumBytes).documents()
            return []
        } catch {
            return [LayerProblem(error, at: path)]
        }
    }

    /// The files in a directory of layer files that are not read because of their names, although they are probably meant
    /// to be. Blocks on disk I/O.
    package static func ignoredFiles(in directory: String) -> [String] {
        DocumentDirectory(path: directory).ignoredFiles()
    }

    /// Checks the host layer directory. Blocks on disk I/O.
    /// - Parameter isNamed: whether the settings name the directory. If not, it is the default directory, which may be
    ///   missing.
    /// - Returns: at most one problem per file
    package static func found(
        inHostDirectory path: String, isNamed: Bool, maximumBytes: Int
    ) -> [LayerProblem] {
        DocumentDirectory(path: path, maximumBytes: maximumBytes).problems()
            .filter { isNamed || $0.path != path || $0.errno != ENOENT }
            .map { LayerProblem($0, at: path) }
    }
}
