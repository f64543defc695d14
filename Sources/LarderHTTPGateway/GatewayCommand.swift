import CLinuxShims
import Glibc
import LarderClientCore
import LarderEncoding
import LarderProtocol
import LarderSystemd
import Logging

/// The command line of `larder-http`.
package struct GatewayCommand {
    private static let help = """
        usage: larder-http [--settings FILE] [--check-settings]

        Serves the configuration and the feature flags of the local agent over HTTP, on a loopback port or a Unix socket.
        Uses the sockets that systemd passes, if any. It connects to the agent at $LARDER_SOCKET, otherwise at
        \(LarderSocket.systemPath). SIGTERM and SIGINT end it after the requests in progress.

          --settings FILE    read this settings file (default: \(defaultSettings))
          --check-settings   check the settings and exit; root checks them with the rights of the user \(account)
          --version          show the version
          --help             show this text

        Exit status: 0 after a clean shutdown, 1 if the gateway cannot serve, 64 if the command line is invalid, 78 if the
        settings are invalid.

        """
    private static let defaultSettings = "/etc/larder/http.json"
    /// The user of the packaged service.
    private static let account = "larder-http"

    /// Runs the program. Must be called before the process has other threads.
    package static func main(_ arguments: [String]) -> Never {
        signal(SIGPIPE, SIG_IGN)
        larder_set_up_allocator()
        raiseDescriptorLimit()
        // Other threads inherit the mask, so that only this thread receives the signals.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGTERM)
        sigaddset(&signals, SIGINT)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let sockets = Result { () throws(SystemdError) in try SocketActivation.take(allowsInternet: true) }

        var (path, onlyChecks) = (defaultSettings, false)
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            switch argument {
            case "--help", "-h": end(0, help, STDOUT_FILENO)
            case "--version": end(0, "\(larderVersion)\n", STDOUT_FILENO)
            case "--check-settings": onlyChecks = true
            case "--settings" where !rest.isEmpty: path = rest.removeFirst()
            default: end(64, "larder-http: unknown argument or missing value: \(argument); try --help\n")
            }
        }
        if onlyChecks, geteuid() == 0 { giveUpRoot() }
        let settings: GatewaySettings
        do throws(GatewaySettingsError) {
            settings = try GatewaySettings.load(from: path)
            if onlyChecks {
                let condition = try settings.condition()
                let text = condition.map { "valid if the units provide what is missing here: \($0)" } ?? "valid"
                end(0, "\(path): the settings are \(text)\n", STDOUT_FILENO)
            }
        } catch {
            end(78, "larder-http: \(error)\n")
        }
        LoggingSystem.bootstrap(
            { label, provider in
                ServiceLogHandler(
                    label: label, identifier: "larder-http", fieldPrefix: "LARDER_", metadataProvider: provider)
            }, metadataProvider: nil)
        let (stops, stop) = AsyncStream<Void>.makeStream()
        Task {
            do {
                let client = LarderClient(configuration: LarderClient.Configuration(onEvent: { _ in }))
                let logger = Logger(label: "larder-http")
                let gateway = try await Gateway(settings, sockets: sockets.get(), client: client, logger: logger)
                let places = gateway.addresses.map { "\($0)" }.joined(separator: ", ")
                logger.info("serving", metadata: ["addresses": "\(places)", "agent": "\(client.socket)"])
                for await _ in stops { break }
                await gateway.shutDown()
                exit(0)
            } catch {
                end(error is GatewaySettingsError ? 78 : 1, "larder-http: \(error)\n")
            }
        }
        var received: CInt = 0
        sigwait(&signals, &received)
        stop.yield()
        while true { pause() }
    }

    /// Takes the rights of the service's user, if the host has one, so that files which only root can read are errors.
    private static func giveUpRoot() {
        guard let record = getpwnam(account)?.pointee else { return }
        if initgroups(account, record.pw_gid) != 0 || setgid(record.pw_gid) != 0 || setuid(record.pw_uid) != 0 {
            end(
                1,
                "larder-http: cannot check the settings as the user \(account): \(String(cString: strerror(errno)))\n")
        }
    }

    /// Raises the soft limit of open files to the hard limit (getrlimit(2)), because each connection needs a descriptor.
    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    private static func end(_ status: CInt, _ text: String, _ descriptor: CInt = STDERR_FILENO) -> Never {
        let bytes = Array(text.utf8)
        _ = write(descriptor, bytes, bytes.count)
        exit(status)
    }
}
