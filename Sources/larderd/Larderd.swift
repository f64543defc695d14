import ArgumentParser
import LarderProtocol
import Logging

/// The command line of the agent. Under the name `larder`, the same executable is the command line for users. Both
/// programs use mostly the same libraries, so one executable takes half the space of two.
struct Larderd: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "larderd",
        abstract: "The local agent for this host's configuration and images.",
        discussion: """
            Keeps configuration up to date from files and remote sources, keeps one verified copy of each requested \
            image, and serves both to local processes over a Unix socket. Without options it serves the whole host if \
            root runs it, otherwise the current user; each option lists its default paths. It uses the socket that \
            systemd passes, if any, reloads its settings on SIGHUP, and shuts down cleanly on SIGTERM and SIGINT.

            Examples:
              larderd                                             serve the current user
              sudo larderd                                        serve the host
              larderd --check-settings --settings ./larder.json   check a settings file
              d=$(mktemp -d)                                      try it out, in a directory of its own
              larderd --socket $d/larder.sock --state-directory $d/state --cache-directory $d/cache

            Exit status: 0 after a clean shutdown, 1 if the agent cannot serve, 64 if the command line is invalid, \
            78 if the settings are invalid, no earlier ones are saved, and systemd did not pass a socket.
            """,
        version: larderVersion)

    @Option(
        help: ArgumentHelp(
            "Listen on this path.",
            discussion: "Default: $XDG_RUNTIME_DIR/larder/larder.sock; for root /run/larder/larder.sock"),
        completion: .file())
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "Read this settings file.",
            discussion: "Default: $XDG_CONFIG_HOME/larder/larder.json; for root /etc/larder/larder.json"),
        completion: .file())
    var settings: String?

    @Option(
        help: ArgumentHelp(
            "Keep the state in this directory.",
            discussion: "Default: $XDG_STATE_HOME/larder; for root /var/lib/larder"),
        completion: .directory)
    var stateDirectory: String?

    @Option(
        help: ArgumentHelp(
            "Keep the image cache in this directory.",
            discussion: "Default: $XDG_CACHE_HOME/larder; for root /var/cache/larder"),
        completion: .directory)
    var cacheDirectory: String?

    @Option(
        help: "Log messages of this level and above: trace, debug, info, notice, warning, error or critical.",
        completion: .list(Logger.Level.allCases.map(\.rawValue)), transform: Self.level)
    var logLevel: Logger.Level?

    @Flag(help: "Check the settings and the files that they name, report all errors with line and column, and exit.")
    var checkSettings = false

    @Flag(
        help: ArgumentHelp(
            "With --check-settings: report errors in the files that the settings name as warnings.",
            discussion: "On a reload, the agent applies the settings and keeps the last valid content of these files.")
    )
    var forReload = false

    @Flag(
        help: ArgumentHelp(
            "Print the settings of the file and of larder.d beside it, and exit.",
            discussion: "A JSON array with the file and line of each value. Values of header fields are left out."))
    var showSettings = false

    @Flag(
        help: ArgumentHelp(
            "Ask the proxies of the settings for a tunnel to the server of each source, and exit.",
            discussion: "A JSON array with the problem of each proxy. larder doctor uses it."))
    var testProxies = false

    func validate() throws {
        if forReload, !checkSettings {
            throw ValidationError("--for-reload requires --check-settings; add it")
        }
    }

    private static func level(_ name: String) throws -> Logger.Level {
        if let level = Logger.Level(rawValue: name) { return level }
        let known = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
        throw ValidationError("\"\(name)\" is not a log level; use one of \(known)")
    }
}
