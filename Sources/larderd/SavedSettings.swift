import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol
import Logging

/// The files that settings come from.
enum SettingsFiles: String {
    /// The settings are the defaults.
    case none
    /// Only files of `larder.d`.
    case directory
    /// The settings file, with or without files of `larder.d`.
    case main

    /// Why settings that come from these files must not replace those that came from earlier ones: files are missing, which
    /// is treated as a mistake, because the missing ones may have restricted access. Nil if no file is known to be missing.
    /// - Parameter path: the absolute path of the settings file
    func problem(since earlier: SettingsFiles, at path: String) -> AgentError? {
        switch (earlier, self) {
        case (.main, .none): return Self.missing(path)
        case (.main, .directory):
            return AgentError(
                "\(path): this file no longer exists; restore it, or create it with the content {} if the files of larder.d "
                    + "contain all settings, then reload it")
        case (.directory, .none):
            return AgentError(
                "\(path): neither this file nor a file of larder.d beside it exists any more; \(Self.creation)")
        default: return nil
        }
    }

    /// The error that a settings file that was used before no longer exists.
    static func missing(_ path: String) -> AgentError {
        AgentError("\(path): this file no longer exists; \(creation)")
    }

    private static let creation =
        "restore it, or create it with the content {} for the default settings, then reload it"
}

/// The text of the settings that the agent saved last, which are those that it applied last unless saving failed. The agent
/// runs with them if the settings file is invalid or missing at a start.
struct SavedSettings {
    /// A state directory, which need not exist.
    let directory: String
    /// The absolute path of the settings file. Only the settings of this file are read.
    let settingsFile: String

    /// Agents with different settings files can share this directory if the settings name other state directories, so
    /// the name contains a hash of the path.
    var path: String {
        var hash = FNV1a()
        hash.add(settingsFile.utf8)
        return "\(directory)/settings-\(withUnsafeBytes(of: hash.value.bigEndian) { $0.hex })"
    }

    /// Reads the settings, the time at which the agent first read this text, and the files that it came from; nil if none
    /// are saved, or if another user could have written them.
    func read() -> (text: [UInt8], readAt: Timestamp, files: SettingsFiles)? {
        guard (try? UnsafeDirectory.check(directory)) != nil, let bytes = try? files.read(path),
            let end = bytes.firstIndex(of: 0x0A), let header = try? JSONValue(parsing: Array(bytes[..<end])),
            let file = header["settings"]?.string, file.utf8.elementsEqual(settingsFile.utf8),
            let readAt = header["readAt"]?.int
        else { return nil }
        // An earlier version did not save which files there were.
        let files = header["files"]?.string.flatMap(SettingsFiles.init) ?? .none
        return (Array(bytes[(end + 1)...]), Timestamp(milliseconds: readAt), files)
    }

    /// Writes the settings with mode 0600, unless they are unchanged.
    /// - Throws: ``FileError`` or ``UnsafeDirectory``
    func write(_ text: [UInt8], readAt: Timestamp, from sources: SettingsFiles) throws {
        if let saved = read(), saved.text == text, saved.files == sources { return }
        // Before the check, nothing is created below a directory that another user could replace.
        try UnsafeDirectory.check(directory)
        try files.createDirectory(directory)
        try UnsafeDirectory.check(directory)
        let header: JSONValue = [
            "settings": .string(settingsFile), "readAt": .int(readAt.milliseconds), "files": .string(sources.rawValue),
        ]
        try files.replace(path, with: header.compactBytes + [0x0A] + text)
    }

    private var files: LocalFileSystem { LocalFileSystem(beneath: directory) }
}

/// Saves the settings in effect, so that the agent can start with them if the file is invalid then.
struct SettingsSaver: Sendable {
    /// The time after which settings are saved again if that failed.
    var pause = Duration.seconds(5)
    let logger: Logger
    /// Called after each attempt with the reason why the settings are not saved; nil if they are.
    let report: @Sendable (String?) -> Void

    /// Saves settings.
    /// - Returns: a task that tries again until it succeeds or is cancelled; nil if the settings are saved
    func save(_ write: @escaping @Sendable () async throws -> Void) async -> Task<Void, Never>? {
        guard let problem = await attempt(write) else { return nil }
        logger.warning("cannot save the settings; retrying: \(problem)", metadata: ["error": "\(problem)"])
        return Task {
            while (try? await Task.sleep(for: pause)) != nil {
                if await attempt(write) != nil { continue }
                logger.notice("the settings are saved now")
                return
            }
        }
    }

    /// - Returns: why the settings are not saved; nil if they are
    private func attempt(_ write: @escaping @Sendable () async throws -> Void) async -> String? {
        var problem: String?
        do { try await write() } catch { problem = "\(error)" }
        report(problem)
        return problem
    }
}
