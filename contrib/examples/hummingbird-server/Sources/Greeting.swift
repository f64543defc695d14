import LarderServiceLifecycle
import Logging
import Synchronization

/// The part of the configuration that this server uses: the object at the path `greeting`.
struct Greeting: Codable {
    var text = "Hello"
    var exclamationMarks = 1

    func message(for name: String) -> String {
        "\(text), \(name)" + String(repeating: "!", count: exclamationMarks)
    }
}

/// Keeps the greeting up to date while the server runs. Request handlers read ``current``, which never waits.
final class GreetingService: Service {
    private let client: LarderClient
    private let logger: Logger
    private let greeting = Mutex(Greeting())

    init(client: LarderClient, logger: Logger) {
        self.client = client
        self.logger = logger
    }

    /// The newest valid greeting; the default until the agent has delivered one.
    var current: Greeting { greeting.withLock { $0 } }

    /// Follows the agent until the server shuts down. An agent that is away, now or later, is only logged.
    func run() async throws {
        let snapshots = client.config.snapshots(at: "greeting").onInterruption { [logger] interruption in
            if !interruption.isRepeated { logger.warning("\(interruption)") }
        }
        for try await snapshot in snapshots.cancelOnGracefulShutdown() {
            do throws(LarderClientError) {
                let newest = try snapshot.decode(default: Greeting())
                greeting.withLock { $0 = newest }
            } catch {
                logger.error("the last valid greeting stays in use: \(error)")
            }
        }
    }
}
