import ArgumentParser
import Dispatch
import LarderCommand
import LarderPlatform
import LarderServer
import LarderProtocol
import Logging
import LarderSystemd
import UnixSignals
import Glibc

/// The command line of the agent. Under the name `larder`, the same executable is the command line for users. Both use
/// mostly the same libraries, so one executable takes half the space of two.
struct Larderd: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "larderd",
        abstract: "The local agent for this host's configuration and images.",
        discussion: """
            Keeps configuration fresh from files and remote sources, keeps one verified copy of each image that \
            anybody asks for, and serves both to local processes over a Unix socket. Without any option it serves the host when root runs it, and the current user otherwise: see the \
            paths under each option. It takes over a socket from systemd, re-reads its settings on SIGHUP and stops \
            cleanly on SIGTERM.

            Examples:
              larderd                                             serve the user
              sudo larderd                                        serve the host
              larderd --socket /tmp/l.sock --state-directory /tmp/l --cache-directory /tmp/l   try it out
              larderd --check-settings --settings ./larder.json   is this file right?

            Exit status: 0 after a clean stop, 1 when it cannot serve, 64 for a wrong command line, \
            78 for wrong settings.
            """,
        version: larderVersion)

    @Option(
        help: ArgumentHelp(
            "Listen on this path.",
            discussion: "Default: $XDG_RUNTIME_DIR/larder/larder.sock; for root /run/larder/larder.sock"))
    var socket: String?

    @Option(
        help: ArgumentHelp(
            "Read this settings file.",
            discussion: "Default: $XDG_CONFIG_HOME/larder/larder.json; for root /etc/larder/larder.json"))
    var settings: String?

    @Option(
        help: ArgumentHelp(
            "Keep the state here.", discussion: "Default: $XDG_STATE_HOME/larder; for root /var/lib/larder"))
    var stateDirectory: String?

    @Option(
        help: ArgumentHelp(
            "Keep the cache here.", discussion: "Default: $XDG_CACHE_HOME/larder; for root /var/cache/larder"))
    var cacheDirectory: String?

    @Option(
        help: "Log from this level: trace, debug, info, notice, warning, error, critical.", transform: Self.level)
    var logLevel: Logger.Level?

    @Flag(help: "Check the settings and the layers' files, report all errors with line and column, and exit.")
    var checkSettings = false

    @Flag(
        help: ArgumentHelp(
            "With --check-settings: errors in the layers' files are warnings.",
            discussion: "A running agent still applies the settings and keeps the last valid content of such a layer."))
    var forReload = false

    /// The sockets from systemd. Adopted before other code reads the environment.
    fileprivate static let activation = Result { try SocketActivation.takeStreamListeners() }

    func validate() throws {
        if forReload, !checkSettings {
            throw ValidationError("--for-reload says how --check-settings judges; add --check-settings")
        }
    }

    func run() async throws {
        if checkSettings { return SettingsCheck(self).report() }
        // Trapped before the settings are read, so that a SIGHUP during the read causes another one.
        let hangups = await UnixSignalsSequence(trapping: .sighup)
        let plan: AgentPlan
        do {
            plan = try AgentPlan(self)
        } catch {
            Process.fail(error, status: EX_CONFIG)
        }
        Process.startLogging(level: plan.logLevel)
        do {
            try await Agent(plan: plan, sockets: Self.activation.get(), hangups: hangups).run()
        } catch {
            Process.fail(error, status: 1)
        }
    }
}

extension Larderd {
    private static func level(_ name: String) throws -> Logger.Level {
        if let level = Logger.Level(rawValue: name) { return level }
        let known = Logger.Level.allCases.map(\.rawValue).joined(separator: ", ")
        throw ValidationError("there is no log level \"\(name)\"; choose one of \(known)")
    }
}

@main
enum Program {
    static func main() {
        // This comes first, because sockets that systemd passed to `larder exec` belong to the program that it
        // executes.
        if Process.name == "larder" { CommandEntry.main() }
        Process.prepare()
        _ = Larderd.activation
        do {
            var command = try Larderd.parseAsRoot(nil)
            guard let agent = command as? Larderd else { return try command.run() }
            // Checked before the first task starts. Without enough threads, Dispatch waits indefinitely, and NIO stops
            // the process.
            if !agent.checkSettings { try Process.checkThreads(Agent.maxThreads) }
            Task { @MainActor in
                do { try await agent.run() } catch { Larderd.exit(withError: error) }
                exit(EXIT_SUCCESS)
            }
            dispatchMain()
        } catch let error as AgentError {
            Process.fail(error, status: 1)
        } catch {
            Larderd.exit(withError: error)
        }
    }
}
