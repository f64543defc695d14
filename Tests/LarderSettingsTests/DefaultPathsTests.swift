import LarderSettings
import Testing

@Suite("default paths")
struct DefaultPathsTests {
    static func paths(_ environment: [String: String], userID: UInt32 = 1000) throws -> [String] {
        let paths = DefaultPaths(environment: environment, userID: userID)
        return try [
            paths.socket, paths.stateDirectory, paths.cacheDirectory, paths.settingsFile, paths.hostLayerDirectory,
        ]
    }

    @Test("a user's are the XDG directories")
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

    @Test("without XDG variables they are below the home directory; an empty or relative one counts as not set")
    func home() throws {
        let expected = [
            "/run/user/1000/larder/larder.sock", "/home/u/.local/state/larder", "/home/u/.cache/larder",
            "/home/u/.config/larder/larder.json", "/home/u/.config/larder/config.d",
        ]
        let environment = ["HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000"]
        #expect(try Self.paths(environment) == expected)
        let useless = ["XDG_STATE_HOME": "", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "./config"]
        #expect(try Self.paths(environment.merging(useless) { $1 }) == expected)
    }

    @Test("root's are the system's, whatever the session's variables say")
    func root() throws {
        let expected = [
            "/run/larder/larder.sock", "/var/lib/larder", "/var/cache/larder", "/etc/larder/larder.json",
            "/etc/larder/config.d",
        ]
        #expect(try Self.paths([:], userID: 0) == expected)
        let session = ["HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0", "XDG_CONFIG_HOME": "/root/.config"]
        #expect(try Self.paths(session, userID: 0) == expected)
    }

    @Test("the directories that systemd made go first, for root and users alike", arguments: [0, 1000] as [UInt32])
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

    @Test("each path is decided on its own")
    func mixed() throws {
        #expect(
            try Self.paths(["STATE_DIRECTORY": "/srv/state"], userID: 0) == [
                "/run/larder/larder.sock", "/srv/state", "/var/cache/larder", "/etc/larder/larder.json",
                "/etc/larder/config.d",
            ])
    }

    @Test("a path that follows from nothing is an error only when it is asked for, and says what to set")
    func unknown() throws {
        let paths = DefaultPaths(environment: ["XDG_STATE_HOME": "/x"], userID: 1000)
        #expect(try paths.stateDirectory == "/x/larder")
        let socket = #expect(throws: SettingsError.self) { try paths.socket }
        #expect(socket?.code == .noDefaultPath)
        #expect(socket?.description.contains("XDG_RUNTIME_DIR") == true)
        let settings = #expect(throws: SettingsError.self) { try paths.settingsFile }
        #expect(settings?.description.contains("XDG_CONFIG_HOME") == true)
        let given: String? = "/tmp/a.sock"
        #expect(try given ?? paths.socket == "/tmp/a.sock")
    }
}
