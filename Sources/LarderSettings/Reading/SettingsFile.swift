import Glibc
import LarderPlatform

extension Settings {
    /// The maximum size of a settings file: 1 MiB.
    package static let maxFileBytes = 1 << 20

    /// The settings of a file, and its text.
    package struct File: Sendable {
        package let settings: Settings
        package let text: [UInt8]
        /// See ``SettingsExamination/pathLines``.
        package let pathLines: PathLines
    }

    /// Reads a settings file.
    ///
    /// - Throws: ``SettingsError``; `fileNotFound` if the file does not exist
    package static func load(from path: String) throws(SettingsError) -> File {
        do throws(SettingsError) {
            let text = try SettingsFile.read(path)
            let examination = Settings.examine(text, maxErrors: 1)
            if let error = examination.errors.first { throw error }
            return File(
                settings: examination.settings ?? Settings(), text: text, pathLines: examination.pathLines)
        } catch {
            var error = error
            error.file = path
            throw error
        }
    }

    /// Parses settings.
    ///
    /// - Parameter areSaved: whether the agent saved the settings itself. Settings that had another name in an earlier
    ///   version are then read under that name.
    /// - Throws: ``SettingsError`` with the line and column of the first problem
    package init(parsing bytes: [UInt8], areSaved: Bool = false) throws(SettingsError) {
        let examination = Settings.examine(bytes, maxErrors: 1, areSaved: areSaved)
        if let error = examination.errors.first { throw error }
        self = examination.settings ?? Settings()
    }
}

/// Reads the bytes of a settings file.
enum SettingsFile {
    /// Reads a file of at most ``Settings/maxFileBytes``.
    static func read(_ path: String) throws(SettingsError) -> [UInt8] {
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
            content = try readAll(from: descriptor, upTo: Settings.maxFileBytes)
        } catch {
            throw SettingsError("cannot read the settings: \(error)")
        }
        guard content.count <= Settings.maxFileBytes else {
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
