/// Where everything is when neither the command line nor the settings file say so.
///
/// Each path is decided on its own, in this order:
///
/// 1. the directory that systemd made for the service (`RUNTIME_DIRECTORY`, `STATE_DIRECTORY`, `CACHE_DIRECTORY`,
///    `CONFIGURATION_DIRECTORY`; `systemd.exec(5)`), the first one where it made several;
/// 2. for root, the system's directories: `/run/larder`, `/var/lib/larder`, `/var/cache/larder`, `/etc/larder`;
/// 3. for everybody else, the user's directories (XDG Base Directory Specification), `larder` in `$XDG_RUNTIME_DIR`,
///    `$XDG_STATE_HOME`, `$XDG_CACHE_HOME`, `$XDG_CONFIG_HOME`, the last three below `$HOME` when they are not set.
///
/// A variable that is empty or not an absolute path counts as not set, as that specification demands. A path that
/// follows from nothing throws only when it is asked for, so that it may be given in another way:
///
///     let socket = try options.socket ?? settings.socket.path ?? paths.socket
package struct DefaultPaths: Sendable, Equatable {
    private let environment: [String: String]
    private let isRoot: Bool

    /// The defaults of a process.
    ///
    /// - Parameters:
    ///   - environment: Its environment.
    ///   - userID: Its effective user.
    package init(environment: [String: String], userID: UInt32) {
        self.environment = environment
        self.isRoot = userID == 0
    }

    /// The socket: `larder.sock` in the runtime directory.
    ///
    /// - Throws: ``SettingsError`` with `noDefaultPath`.
    package var socket: String {
        get throws(SettingsError) {
            if let directory = fromSystemd("RUNTIME_DIRECTORY") { return "\(directory)/larder.sock" }
            if isRoot { return "/run/larder/larder.sock" }
            // The specification has no default for this one, and a guess such as /tmp would be anybody's to take.
            guard let directory = absolute("XDG_RUNTIME_DIR") else {
                throw SettingsError(
                    .noDefaultPath,
                    "no place for the socket is known, as XDG_RUNTIME_DIR is not set; "
                        + "set it, or give --socket or \"socket.path\"")
            }
            return "\(directory)/larder/larder.sock"
        }
    }

    /// The directory of the state: what must survive.
    ///
    /// - Throws: ``SettingsError`` with `noDefaultPath`.
    package var stateDirectory: String {
        get throws(SettingsError) {
            try directory("STATE_DIRECTORY", "/var/lib/larder", "XDG_STATE_HOME", ".local/state", "\"state.directory\"")
        }
    }

    /// The directory of the caches: what may be deleted without loss.
    ///
    /// - Throws: ``SettingsError`` with `noDefaultPath`.
    package var cacheDirectory: String {
        get throws(SettingsError) {
            try directory("CACHE_DIRECTORY", "/var/cache/larder", "XDG_CACHE_HOME", ".cache", "\"cache.directory\"")
        }
    }

    /// The settings file, `larder.json` in the configuration directory. It need not exist.
    ///
    /// - Throws: ``SettingsError`` with `noDefaultPath`.
    package var settingsFile: String {
        get throws(SettingsError) { "\(try configurationDirectory)/larder.json" }
    }

    /// The directory of the `host` layer of the namespace `default`: `config.d` in the configuration directory. It need
    /// not exist. Other namespaces have a `host` layer only where the settings name its directory.
    ///
    /// - Throws: ``SettingsError`` with `noDefaultPath`.
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
        throw SettingsError(
            .noDefaultPath, "neither \(xdg) nor HOME is set to an absolute path; set one, or give \(setting)")
    }

    /// The first of the directories in a variable that systemd set, which separates them with colons.
    private func fromSystemd(_ name: String) -> String? {
        let first = environment[name]?.split(separator: ":", omittingEmptySubsequences: false).first
        return Self.normalised(first)
    }

    private func absolute(_ name: String) -> String? {
        Self.normalised(environment[name].map { $0[...] })
    }

    /// An absolute path without slashes at its end.
    private static func normalised(_ path: Substring?) -> String? {
        guard var path, path.hasPrefix("/") else { return nil }
        while path.count > 1, path.hasSuffix("/") { path.removeLast() }
        return String(path)
    }
}
