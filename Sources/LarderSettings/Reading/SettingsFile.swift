import Glibc
import LarderJSON
import LarderJSON5
import LarderPlatform

extension Settings {
    /// The maximum size of all files of the settings together: 1 MiB.
    package static let maxFileBytes = 1 << 20

    /// The settings of a file and of the directory `larder.d` beside it, and their text.
    package struct File: Sendable {
        package let settings: Settings
        /// The text of the settings file; if there are files in `larder.d`, the result of the merge.
        package let text: [UInt8]
        /// See ``SettingsExamination/pathLines``.
        package let pathLines: PathLines
        /// Whether the settings file itself exists. If not, `larder.d` has files.
        package let isPresent: Bool
    }

    /// Reads a settings file and the files of the directory `larder.d` beside it.
    ///
    /// - Throws: ``SettingsError``; `fileNotFound` if neither the settings file nor a file in `larder.d` exists
    package static func load(from path: String, host: HostFacts = HostFacts()) throws(SettingsError) -> File {
        let files = try SettingsFile.all(at: path)
        let examination = Settings.examine(files, maxErrors: 1, host: host)
        if let error = examination.errors.first { throw error }
        let isMerged = files.contains(where: \.isPatch)
        let merged = isMerged ? examination.document?.json?.compactBytes : files.first?.text
        return File(
            settings: examination.settings ?? Settings(), text: merged ?? Array("{}".utf8),
            pathLines: examination.pathLines, isPresent: files.first?.isPatch == false)
    }

    /// The directory `larder.d` beside a settings file, whose files are merged over it.
    package static func directory(beside path: String) -> String {
        "\(path.lastIndex(of: "/").map { path[...$0] } ?? "")larder.d"
    }

    /// Parses settings.
    ///
    /// - Parameters:
    ///   - areSaved: whether the agent saved the settings itself. Settings that had another name in an earlier version are
    ///     then read under that name.
    ///   - host: the values of the placeholders
    /// - Throws: ``SettingsError`` with the line and column of the first problem
    package init(
        parsing bytes: [UInt8], areSaved: Bool = false, host: HostFacts = HostFacts()
    ) throws(SettingsError) {
        let examination = Settings.examine(bytes, maxErrors: 1, areSaved: areSaved, host: host)
        if let error = examination.errors.first { throw error }
        self = examination.settings ?? Settings()
    }
}

/// A file of the settings: the settings file, or a file of the directory `larder.d` beside it.
struct SettingsFile {
    /// Nil for a text that does not come from a file.
    let path: String?
    /// Whether the content is a merge patch for the files before it (RFC 7396).
    let isPatch: Bool
    let text: [UInt8]

    /// The maximum number of files in `larder.d`.
    private static let maxPatches = 1024

    /// Reads the settings file at a path, and the files of `larder.d` in the byte order of their names.
    ///
    /// The files of `larder.d` can grant rights, so the directory and each file must belong to root or to the user of this
    /// process, and no other user may be able to write to them.
    ///
    /// - Throws: ``SettingsError`` with the path of the file; `fileNotFound` if there is no file
    static func all(at path: String) throws(SettingsError) -> [SettingsFile] {
        var files: [SettingsFile] = []
        var missing: SettingsError?
        do throws(SettingsError) {
            files.append(SettingsFile(path: path, isPatch: false, text: try read(path, upTo: Settings.maxFileBytes)))
        } catch {
            guard error.code == .fileNotFound else { throw error }
            missing = error
        }
        var room = Settings.maxFileBytes - (files.first?.text.count ?? 0)
        for patch in try patches(in: Settings.directory(beside: path)) {
            let text = try read(patch, upTo: room)
            room -= text.count
            files.append(SettingsFile(path: patch, isPatch: true, text: text))
        }
        if files.isEmpty, let missing { throw missing }
        return files
    }

    /// The paths of the files in `larder.d`; empty if the directory does not exist.
    private static func patches(in directory: String) throws(SettingsError) -> [String] {
        let descriptor = uninterrupted { open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
        if descriptor < 0, errno == ENOENT { return [] }
        guard descriptor >= 0 else {
            throw SettingsError(
                errno == ENOTDIR
                    ? "this is not a directory; remove it, or create a directory with *.json and *.json5 files"
                    : "cannot read the directory: \(String(cString: strerror(errno)))", file: directory)
        }
        let names: [[UInt8]]
        do {
            names = try DirectoryListing.names(closing: descriptor)
        } catch {
            throw SettingsError("cannot read the directory: \(error)", file: directory)
        }
        let chosen = names.filter(isPatchName).sorted { $0.lexicographicallyPrecedes($1) }
        guard chosen.count <= maxPatches else {
            throw SettingsError("it has \(chosen.count) files, more than \(maxPatches); merge some", file: directory)
        }
        do throws(UnsafeDirectory) { try UnsafeDirectory.check(directory) } catch {
            throw Self.unsafe(error, directory)
        }
        var paths: [String] = []
        for name in chosen {
            let path = "\(directory)/\(String(decoding: name, as: UTF8.self))"
            do throws(UnsafeDirectory) { try UnsafeDirectory.checkFile(path) } catch {
                throw Self.unsafe(error, path)
            }
            paths.append(path)
        }
        return paths
    }

    /// The error for a file or directory that other users can change. Its path is shown once.
    private static func unsafe(_ error: UnsafeDirectory, _ path: String) -> SettingsError {
        let text = "\(error)"
        return SettingsError(text.hasPrefix("\(path) ") ? "it" + text.dropFirst(path.count) : text, file: path)
    }

    private static func isPatchName(_ name: [UInt8]) -> Bool {
        name.first != UInt8(ascii: ".")
            && [".json", ".json5"].contains { name.suffix($0.utf8.count).elementsEqual($0.utf8) }
    }

    /// Reads a file.
    private static func read(_ path: String, upTo maximum: Int) throws(SettingsError) -> [UInt8] {
        do throws(SettingsError) {
            return try content(of: path, upTo: maximum)
        } catch {
            var error = error
            error.file = path
            throw error
        }
    }

    private static func content(of path: String, upTo maximum: Int) throws(SettingsError) -> [UInt8] {
        // Without O_NONBLOCK, opening a FIFO would block until a process opens it for writing.
        let descriptor = uninterrupted { open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) }
        guard descriptor >= 0 else { throw failure(errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure(errno) }
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFDIR: throw failure(EISDIR)
        default:
            throw SettingsError("this is not a regular file; write the settings to a file and name that")
        }
        let content: [UInt8]
        do {
            content = try readAll(from: descriptor, upTo: maximum)
        } catch {
            throw SettingsError("cannot read the settings: \(error)")
        }
        guard content.count <= maximum else {
            throw SettingsError(
                "the settings are larger than \(Settings.maxFileBytes) bytes; check whether this is the right file")
        }
        return content
    }

    private static func failure(_ number: CInt) -> SettingsError {
        switch number {
        case ENOENT, ENOTDIR:
            SettingsError("there is no such file; create it, or name another settings file", code: .fileNotFound)
        case EISDIR:
            SettingsError("this is a directory; name the settings file in it")
        case EACCES, EPERM:
            SettingsError(
                "user \(geteuid()) cannot read the settings; allow that user to read the file and to enter the "
                    + "directories above it (namei -l shows their modes)")
        default:
            // glibc's strerror is thread-safe since 2.32.
            SettingsError("cannot read the settings: \(String(cString: strerror(number)))")
        }
    }
}

/// The texts of all files of the settings. A position is an offset in Unicode scalars in the sequence of all texts, so that
/// it also determines the file.
struct SettingsText {
    private struct Part {
        let path: String?
        let scalars: [Unicode.Scalar]
        /// The position of the first scalar.
        let start: Int
    }

    private var parts: [Part] = []

    /// Parses a file. The positions of the value and of the errors count from the start of all files.
    ///
    /// - Returns: the value, and an error for each duplicate member
    /// - Throws: ``SettingsError`` with file, line and column
    mutating func parse(
        _ file: SettingsFile
    ) throws(SettingsError) -> (value: SettingsValue, duplicates: [SettingsError]) {
        // The position after the last scalar of a file is its own: errors at the end of a text have it.
        let start = parts.last.map { $0.start + $0.scalars.count + 1 } ?? 0
        do throws(JSON5Error) {
            let scalars = try JSON5Parser.scalars(of: file.text)
            let (value, duplicates) = try JSON5Parser.parseAll(scalars)
            parts.append(Part(path: file.path, scalars: scalars, start: start))
            return (
                value.moved(by: start),
                duplicates.map { duplicate in
                    var error = SettingsError(duplicate)
                    error.offset = duplicate.offset + start
                    return error
                }
            )
        } catch {
            var failure = SettingsError(error)
            failure.file = file.path
            throw failure
        }
    }

    /// The file, line and column of a position.
    func place(of offset: Int) -> (file: String?, line: Int, column: Int) {
        guard let part = parts.last(where: { $0.start <= offset }) else { return (nil, 1, 1) }
        let (line, column) = JSON5Text.place(of: offset - part.start, in: part.scalars)
        return (part.path, line, column)
    }

    /// Returns an error with its file, line and column instead of its position.
    func placed(_ error: SettingsError) -> SettingsError {
        guard let offset = error.offset else { return error }
        var error = error
        (error.file, error.line, error.column) = place(of: offset)
        error.offset = nil
        return error
    }

    /// The files and lines of positions in ascending order.
    func lines(of offsets: [Int]) -> [(file: String?, line: Int)] {
        var places: [(String?, Int)] = []
        var rest = offsets[...]
        for (index, part) in parts.enumerated() {
            let end = index + 1 < parts.count ? parts[index + 1].start : Int.max
            var (line, start) = (1, 0)
            while let offset = rest.first, offset < end {
                rest.removeFirst()
                let local = min(offset - part.start, part.scalars.count)
                line += JSON5Text.place(of: local - start, in: Array(part.scalars[start..<local])).line - 1
                start = local
                places.append((part.path, line))
            }
        }
        return places
    }
}
