import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Thread limit")
    struct ThreadLimitTests {
        /// The thread limit applies to all processes of a user together (getrlimit(2)). Each test case therefore has a
        /// user of its own: this one, or one of those that follow it.
        private static let user = 65_000

        @Test(
            "an agent that cannot create its threads exits with an error that names the limit", .needsRoot,
            arguments: [1, 2, 4, 8, 12, 200])
        func limit(_ threads: Int) throws {
            try AgentHome.with { home in
                // The user of the agent can enter the home, but cannot write to it. With enough threads, the agent
                // therefore fails with another error: it cannot create its state directory.
                chmod(home.directory, 0o711)
                let asUser = OtherUser.command(Self.user + threads)
                let command = try Command.run(
                    asUser[0],
                    Array(asUser.dropFirst())
                        + ["prlimit", "--nproc=\(threads)", "--", try Products.agent] + home.arguments(),
                    environment: home.environment, directory: home.directory)
                #expect(command.end == .exit(1), "\(command.log)")
                let isRefused = command.log.contains("can be started") && command.log.contains("LimitNPROC=")
                #expect(isRefused == (threads <= 12), "\(command.log)")
            }
        }

        @Test(
            "a name lookup for which no thread can be created completes at the latest once the limit permits one",
            .needsRoot)
        func exhausted() throws {
            let limit = 60
            let asUser = OtherUser.command(Self.user)
            try AgentHome.with { home in
                let agent = try home.start(as: Self.user, limit: "--nproc=\(limit)")
                let client = try agent.connect()
                // Processes of the same user, which use up the thread limit of the agent. They themselves have the
                // higher limit of root.
                var others: [ChildProcess] = []
                for _ in 0..<limit {
                    let other = try ChildProcess(
                        asUser[0], asUser.dropFirst() + ["sh", "-c", "echo started; exec sleep 3600"])
                    #expect(try other.line() == "started")
                    others.append(other)
                    // Keeps the task threads of the agent busy, because idle threads end after some seconds.
                    _ = try client.imageRefusal("http://localhost:1/", ["policy": "cacheOnly"])
                }
                let id = try client.requestImage("http://localhost:1/")
                let refusal =
                    try Self.refusal(client, id, until: .after(.seconds(10)))
                    ?? {
                        #expect(agent.pollEnd() == nil, "\(agent.log)")
                        for other in others { other.kill() }
                        return try Self.refusal(client, id, until: .usual)
                    }()
                #expect(refusal == "forbiddenAddress", "\(agent.log)")
            }
        }

        @Test(
            "a limit that is reached after the start is logged and reported by doctor, and does not prevent a stop",
            .needsRoot)
        func reachedLater() throws {
            let user = Self.user + 300
            try AgentHome.with { home in
                let asUser = OtherUser.command(user)
                let agent = try home.start(as: user)
                #expect(try agent.call("agent.info")["threadProblem"] == nil)
                // As the same user, because root may lack CAP_SYS_RESOURCE in a container.
                let lower = ["prlimit", "--pid", "\(agent.pid)", "--nproc=1:1"]
                let lowered = try Command.run(asUser[0], Array(asUser.dropFirst()) + lower)
                #expect(lowered.status == 0, "\(lowered.log)")
                try agent.waitForLog("cannot start a thread")
                #expect(try agent.call("agent.info")["threadProblem"]?.string?.contains("LimitNPROC=") == true)
                let doctor = try home.larder("doctor")
                #expect(doctor.text.contains("cannot start a thread"), "\(doctor)")
                agent.terminate()
                #expect(try agent.process.waitForEnd(until: .after(.seconds(15))) == .exit(0), "\(agent.log)")
            }
        }

        /// Returns the name of a request's error, or nil if there is no reply before the deadline.
        private static func refusal(_ client: LineClient, _ id: Int, until deadline: Deadline) throws -> String? {
            do {
                throw HarnessError("the agent replied with \(try client.reply(to: id, until: deadline))")
            } catch let refusal as LineClient.Refusal {
                return refusal.name
            } catch  where deadline.hasPassed {
                return nil
            }
        }
    }
}
