import Glibc
import TestSupport
import Testing

extension Integration {
    @Suite("Threads that cannot be created")
    struct ThreadLimitTests {
        /// No other test runs processes of this user, whose threads count together (getrlimit(2)).
        private static let user = 65_431

        @Test(
            "an agent that may not have enough threads ends with an error that names the limit",
            .enabled(if: geteuid() == 0, "only root can become another user"),
            arguments: [1, 2, 4, 8, 12, 200])
        func limit(_ threads: Int) throws {
            try AgentHome.with { home in
                // The agent cannot create its state directory: with enough threads, that is the error.
                chmod(home.directory, 0o711)
                let command = try Command.run(
                    "setpriv",
                    ["--reuid=\(Self.user)", "--regid=\(Self.user)", "--clear-groups", "--"]
                        + ["prlimit", "--nproc=\(threads)", "--", try Products.agent] + home.arguments(),
                    environment: home.environment, directory: home.directory)
                #expect(command.end == .exit(1), "\(command.log)")
                let isRefused = command.log.contains("cannot start") && command.log.contains("LimitNPROC=")
                #expect(isRefused == (threads <= 12), "\(command.log)")
            }
        }
    }
}
