/// The paths that apply if neither the command line nor the settings file specifies them.
///
/// Each path is determined separately, by the first of these rules that applies:
///
/// 1. the directory that systemd created for the service (`RUNTIME_DIRECTORY`, `STATE_DIRECTORY`, `CACHE_DIRECTORY`,
///    `CONFIGURATION_DIRECTORY`; `systemd.exec(5)`); the first one if there are several
/// 2. for root, the directory of the system: `/run/larder`, `/var/lib/larder`, `/var/cache/larder`, `/etc/larder`
/// 3. for other users, the directory `larder` in `$XDG_RUNTIME_DIR`, `$XDG_STATE_HOME`, `$XDG_CACHE_HOME` or
///    `$XDG_CONFIG_HOME` (XDG Base Directory Specification); the last three default to directories below `$HOME`
///
/// A variable that is empty or not an absolute path counts as unset, as the XDG specification requires. Each property
/// throws if its path cannot be determined, so read it only if neither the command line nor the settings specify that
/// path:
///
///     let socket = try options.socket ?? settings.socket.path ?? paths.socket
package struct DefaultPaths: Sendable, Equatable {
    private let environment: [String: String]
    private let isRoot: Bool

    /// - Parameters:
    ///   - environment: the environment of the process
    ///   - userID: the effective user ID of the process
    package init(environment: [String: String], userID: UInt32) {
        self.environment = environment
        self.isRoot = userID == 0
    }

    /// The socket: `larder.sock` in the runtime directory.
    ///
    /// - Throws: `noDefaultPath`
    package var socket: String {
        get throws(SettingsError) {
            if let directory = fromSystemd("RUNTIME_DIRECTORY") { return "\(directory)/larder.sock" }
            if isRoot { return "/run/larder/larder.sock" }
            // There is no fallback: the XDG specification has no default for XDG_RUNTIME_DIR, and in a directory such
            // as /tmp any user could create a file at the path of the socket first.
            guard let directory = absolute("XDG_RUNTIME_DIR") else {
                throw SettingsError(
                    "there is no default path of the socket, because XDG_RUNTIME_DIR is not set to an absolute path; "
                        + "set it, or give --socket or \"socket.path\"")
            }
            return "\(directory)/larder/larder.sock"
        }
    }

    /// The directory of the state, which must survive reboots.
    ///
    /// - Throws: `noDefaultPath`
    package var stateDirectory: String {
        get throws(SettingsError) {
            try directory("STATE_DIRECTORY", "/var/lib/larder", "XDG_STATE_HOME", ".local/state", "\"state.directory\"")
        }
    }

    /// The directory of the caches, which may be deleted without loss.
    ///
    /// - Throws: `noDefaultPath`
    package var cacheDirectory: String {
        get throws(SettingsError) {
            try directory("CACHE_DIRECTORY", "/var/cache/larder", "XDG_CACHE_HOME", ".cache", "\"cache.directory\"")
        }
    }

    /// The settings file: `larder.json` in the configuration directory. It need not exist.
    ///
    /// - Throws: `noDefaultPath`
    package var settingsFile: String {
        get throws(SettingsError) { "\(try configurationDirectory)/larder.json" }
    }

    /// The directory of the `host` layer of the namespace `default`: `config.d` in the configuration directory. It need
    /// not exist. Other namespaces have a `host` layer only if the settings name its directory.
    ///
    /// - Throws: `noDefaultPath`
    package var hostLayerDirectory: String {
        get throws(SettingsError) { "\(try configurationDirectory)/config.d" }
    }

    private var configurationDirectory: String {
        get throws(SettingsError) {
            try directory("CONFIGURATION_DIRECTORY", "/etc/larder", "XDG_CONFIG_HOME", ".config", "the settings file")
        }
    }

    private func directory(
        _ systemd: String, _ root: String, _ xdg: String, _ belowHome: String, _ setting: String
    ) throws(SettingsError) -> String {
        if let directory = fromSystemd(systemd) { return directory }
        if isRoot { return root }
        if let base = absolute(xdg) { return "\(base)/larder" }
        if let home = absolute("HOME") { return home == "/" ? "/\(belowHome)/larder" : "\(home)/\(belowHome)/larder" }
        throw SettingsError("neither \(xdg) nor HOME is set to an absolute path; set one, or give \(setting)")
    }

    /// The first of the colon-separated directories in a variable that systemd sets; nil if the variable is not set or
    /// does not begin with an absolute path.
    private func fromSystemd(_ name: String) -> String? {
        let first = environment[name]?.split(separator: ":", omittingEmptySubsequences: false).first
        return Self.normalized(first)
    }

    private func absolute(_ name: String) -> String? {
        Self.normalized(environment[name].map { $0[...] })
    }

    /// An absolute path without trailing slashes; nil if the path is not absolute.
    private static func normalized(_ path: Substring?) -> String? {
        guard var path, path.hasPrefix("/") else { return nil }
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return String(path)
    }
}
