import Glibc

/// Where a backup is restored to.
enum StateLocation {
    /// The directory that the command line names, else the usual one of this user's agent. A path in the backup is never used:
    /// the file may be from elsewhere, and root would write there.
    /// - Throws: ``Failure`` if none is named and the agent that the backup is from had another one.
    static func directory(named option: String?, for backup: BackupFile, _ file: String) throws(Failure) -> String {
        if let option { return option }
        let usual = usual(isRoot: geteuid() == 0) { getenv($0).map { String(cString: $0) } }
        if let usual, usual == backup.stateDirectory { return usual }
        throw Failure(
            .usage,
            "the backup is from an agent with the state directory \(backup.stateDirectory)"
                + (usual.map { ", and the default here is \($0)" } ?? ", and none is known here, as HOME is not set")
                + "; name the one to restore to: larder restore \(file.shellWord) --state-directory "
                + backup.stateDirectory.shellWord)
    }

    /// The state directory that an agent of this user has if no settings name another one.
    static func usual(isRoot: Bool, environment: (String) -> String?) -> String? {
        if isRoot { return "/var/lib/larder" }
        func absolute(_ name: String) -> String? {
            environment(name).flatMap { $0.hasPrefix("/") ? $0 : nil }
        }
        return (absolute("XDG_STATE_HOME") ?? absolute("HOME").map { "\($0)/.local/state" }).map { "\($0)/larder" }
    }
}
