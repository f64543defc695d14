import LarderSettings
import Testing

@Suite("Default paths")
struct DefaultPathsTests {
    static func paths(_ environment: [String: String], userID: UInt32 = 1000) throws -> [String] {
        let paths = DefaultPaths(environment: environment, userID: userID)
        return try [
            paths.socket, paths.stateDirectory, paths.cacheDirectory, paths.settingsFile, paths.hostLayerDirectory,
        ]
    }

    @Test("the default paths of a user are in the XDG directories")
    func user() throws {
        let environment = [
            "HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000", "XDG_STATE_HOME": "/x/state",
            "XDG_CACHE_HOME": "/x/cache/", "XDG_CONFIG_HOME": "/x/config",
        ]
        #expect(
            try Self.paths(environment) == [
                "/run/user/1000/larder/larder.sock", "/x/state/larder", "/x/cache/larder",
                "/x/config/larder/larder.json", "/x/config/larder/config.d",
            ])
    }

    @Test("without valid XDG variables, the paths are below the home directory")
    func home() throws {
        let expected = [
            "/run/user/1000/larder/larder.sock", "/home/u/.local/state/larder", "/home/u/.cache/larder",
            "/home/u/.config/larder/larder.json", "/home/u/.config/larder/config.d",
        ]
        let environment = ["HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000"]
        #expect(try Self.paths(environment) == expected)
        let unusable = ["XDG_STATE_HOME": "", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "./config"]
        #expect(try Self.paths(environment.merging(unusable) { $1 }) == expected)
    }

    @Test("the default paths of root are in system directories, regardless of the XDG variables of the session")
    func root() throws {
        let expected = [
            "/run/larder/larder.sock", "/var/lib/larder", "/var/cache/larder", "/etc/larder/larder.json",
            "/etc/larder/config.d",
        ]
        #expect(try Self.paths([:], userID: 0) == expected)
        let session = ["HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0", "XDG_CONFIG_HOME": "/root/.config"]
        #expect(try Self.paths(session, userID: 0) == expected)
    }

    @Test("directories that systemd passes take precedence, for root and for users", arguments: [0, 1000] as [UInt32])
    func systemd(userID: UInt32) throws {
        let environment = [
            "HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000", "RUNTIME_DIRECTORY": "/run/larder-web",
            "STATE_DIRECTORY": "/var/lib/private/larder:/var/lib/other", "CACHE_DIRECTORY": "/var/cache/larder-web",
            "CONFIGURATION_DIRECTORY": "/etc/larder-web",
        ]
        #expect(
            try Self.paths(environment, userID: userID) == [
                "/run/larder-web/larder.sock", "/var/lib/private/larder", "/var/cache/larder-web",
                "/etc/larder-web/larder.json", "/etc/larder-web/config.d",
            ])
    }

    @Test("each default path is determined independently of the others")
    func mixed() throws {
        #expect(
            try Self.paths(["STATE_DIRECTORY": "/srv/state"], userID: 0) == [
                "/run/larder/larder.sock", "/srv/state", "/var/cache/larder", "/etc/larder/larder.json",
                "/etc/larder/config.d",
            ])
    }

    @Test("a default path that cannot be determined is an error only if used, and the error names a variable to set")
    func unknown() throws {
        let paths = DefaultPaths(environment: ["XDG_STATE_HOME": "/x"], userID: 1000)
        #expect(try paths.stateDirectory == "/x/larder")
        let socket = #expect(throws: SettingsError.self) { try paths.socket }
        #expect(socket?.code == .invalid)
        #expect(socket?.description.contains("XDG_RUNTIME_DIR") == true)
        let settings = #expect(throws: SettingsError.self) { try paths.settingsFile }
        #expect(settings?.description.contains("XDG_CONFIG_HOME") == true)
        let given: String? = "/tmp/a.sock"
        #expect(try given ?? paths.socket == "/tmp/a.sock")
    }
}
