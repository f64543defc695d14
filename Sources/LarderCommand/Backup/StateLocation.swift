import Glibc
import LarderEncoding

/// The directory to which a backup is restored.
enum StateLocation {
    /// Returns the directory given on the command line, else the default state directory of this user's agent. The
    /// directory that the backup names is only compared with the default. It is never used itself, because a backup
    /// from another host could then make root write to any path.
    /// - Throws: ``Failure`` if no directory is given, and the default is unknown or differs from the directory that
    ///   the backup names.
    static func directory(named option: String?, for backup: BackupFile, _ file: String) throws(Failure) -> String {
        if let option { return option }
        let defaultDirectory = defaultDirectory(isRoot: geteuid() == 0) { getenv($0).map { String(cString: $0) } }
        if let defaultDirectory, defaultDirectory == backup.stateDirectory { return defaultDirectory }
        throw Failure(
            .usage,
            "the backup is from an agent with the state directory \(backup.stateDirectory)"
                + (defaultDirectory.map { ", but the default here is \($0)" }
                    ?? ", and there is no default here, because HOME is not set")
                + "; name the directory to restore to: larder restore \(file.shellWord) --state-directory "
                + backup.stateDirectory.shellWord)
    }

    /// The default state directory of this user's agent; nil if the environment does not determine it.
    static func defaultDirectory(isRoot: Bool, environment: (String) -> String?) -> String? {
        if isRoot { return "/var/lib/larder" }
        func absolute(_ name: String) -> String? {
            environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        return (absolute("XDG_STATE_HOME") ?? absolute("HOME").map { "\($0)/.local/state" }).map { "\($0)/larder" }
    }
}
