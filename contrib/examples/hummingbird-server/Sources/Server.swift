import Hummingbird
import LarderServiceLifecycle
import Logging

@main
struct Server {
    static func main() async throws {
        let logger = Logger(label: "hummingbird-server")
        let client = LarderClient()
        let greeting = GreetingService(client: client, logger: logger)

        let router = Router()
        router.get("hello/:name") { _, context in
            try greeting.current.message(for: context.parameters.require("name"))
        }

        let port = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 8080
        let application = Application(
            router: router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
            // Services shut down in the reverse order: first the server, then the greeting, then the client.
            services: [LarderService(client), greeting],
            logger: logger)
        try await application.runService()
    }
}
