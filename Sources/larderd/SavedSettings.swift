import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol
import Logging

/// The text of the settings that the agent saved last, which are those that it applied last unless saving failed. The agent
/// runs with them if the settings file is invalid at a start.
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

    /// Reads the settings, and the time at which the agent first read this text; nil if none are saved, or if another
    /// user could have written them.
    func read() -> (text: [UInt8], readAt: Timestamp)? {
        guard (try? UnsafeDirectory.check(directory)) != nil, let bytes = try? files.read(path),
            let end = bytes.firstIndex(of: 0x0A), let header = try? JSONValue(parsing: Array(bytes[..<end])),
            let file = header["settings"]?.string, file.utf8.elementsEqual(settingsFile.utf8),
            let readAt = header["readAt"]?.int
        else { return nil }
        return (Array(bytes[(end + 1)...]), Timestamp(milliseconds: readAt))
    }

    /// Writes the settings with mode 0600, unless they are unchanged.
    /// - Throws: ``FileError`` or ``UnsafeDirectory``
    func write(_ text: [UInt8], readAt: Timestamp) throws {
        if read()?.text == text { return }
        // Before the check, nothing is created below a directory that another user could replace.
        try UnsafeDirectory.check(directory)
        try files.createDirectory(directory)
        try UnsafeDirectory.check(directory)
        let header: JSONValue = ["settings": .string(settingsFile), "readAt": .int(readAt.milliseconds)]
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
