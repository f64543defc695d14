import Glibc
import LarderClient
@testable import LarderClientCore
import LarderTesting
import Synchronization
import TestSupport
import Testing

@Suite("Unreachable agents", .timeLimit(.minutes(15)))
struct UnreachableTests {
    @Test("a missing socket is reported with the advice to start the agent")
    func missing() async throws {
        try await withTemporaryDirectory { directory in
            let path = "\(directory)/none.sock"
            let failure = await error { try await LarderClient.withConnection(socket: path) { _ in } }
            #expect(failure?.code == .unreachable)
            #expect(failure?.systemError == ENOENT)
            #expect(failure?.reason == "there is no socket at \(path)")
            #expect(failure?.advice?.contains("systemctl start larder.socket") == true)
        }
    }

    @Test("a socket without a listener is reported")
    func refused() async throws {
        try await withTemporaryDirectory { directory in
            let path = "\(directory)/dead.sock"
            let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            try check(withUnixAddress(path) { bind(descriptor, $0, $1) })
            close(descriptor)
            let failure = await error { try await LarderClient.withConnection(socket: path) { _ in } }
            #expect(failure?.systemError == ECONNREFUSED)
            #expect(failure?.reason.contains("no process listens") == true)
        }
    }

    @Test("an empty path is an invalid argument, also for run() and for streams")
    func emptyPath() async throws {
        let client = LarderClient(socket: "")
        #expect(await error { try await client.agent.ping() }?.code == .invalidArgument)
        #expect(await error { try await client.config.mappedSnapshot() }?.code == .invalidArgument)
        #expect(await error { for try await _ in client.config.snapshots() {} }?.code == .invalidArgument)
        #expect(await error { try await client.run() }?.code == .invalidArgument)
    }

    @Test("a file that is not a socket is reported")
    func plainFile() async throws {
        try await withTemporaryDirectory { directory in
            let path = "\(directory)/file"
            close(open(path, O_CREAT | O_WRONLY, 0o600))
            let failure = await error { try await LarderClient.withConnection(socket: path) { _ in } }
            #expect(failure?.reason == "\(path) is not a socket")
            #expect(failure?.advice == "pass the path of the agent socket")
            #expect(failure?.systemError == ENOTSOCK)
            #expect(failure?.isRetryable == false && failure?.isRefusal == true && failure?.isOutage == true)
        }
    }

    @Test("the advice for a permission error names who may connect")
    func permission() throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/file"
            close(open(path, O_CREAT | O_WRONLY, 0o600))
            // Root is never denied access, so the test constructs the errors.
            let owned = LarderClientError.unreachable(path, errno: EACCES)
            #expect(owned.reason == "permission denied on \(path)")
            #expect(owned.advice?.hasPrefix("only ") == true)
            #expect(!owned.isRetryable && owned.isRefusal && owned.isOutage)
            let hidden = LarderClientError.unreachable("\(directory)/none/file", errno: EACCES)
            #expect(hidden.advice?.contains("run as a user who can access the directory") == true)
        }
    }

    /// Only root can give a file to another group.
    @Test(
        "the advice for a permission error names the group that may connect, and never suggests joining the group root",
        .enabled(if: geteuid() == 0 && getgrnam("daemon") != nil, "needs root and the group daemon"))
    func groups() throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/file"
            close(open(path, O_CREAT | O_WRONLY, 0o600))
            let group = try #require(getgrnam("daemon"))
            chown(path, 0, group.pointee.gr_gid)
            chmod(path, 0o660)
            let shared = LarderClientError.unreachable(path, errno: EACCES)
            #expect(shared.advice?.contains("usermod -aG daemon USER") == true)
            chown(path, 0, 0)
            let rooted = LarderClientError.unreachable(path, errno: EACCES)
            #expect(rooted.advice?.hasPrefix("only root may connect") == true)
            // The setting socket.group has no effect on a socket of systemd.
            #expect(rooted.advice?.contains("SocketGroup= in larder.socket") == true)
        }
    }

    @Test("the name of a user or group is looked up once, also if the host has none")
    func names() {
        let lookups = Mutex<[UInt32]>([])
        let names = NameCache { id in
            lookups.withLock { $0.append(id) }
            return id == 7 ? "seven" : nil
        }
        for _ in 0..<2 {
            #expect(names.name(of: 7) == "seven")
            #expect(names.name(of: 8) == nil)
        }
        #expect(lookups.withLock { $0 } == [7, 8])
    }

    @Test("a path that is too long for a socket address is reported with the limit")
    func longPath() async throws {
        let path = "/tmp/" + String(repeating: "x", count: 120)
        let failure = await error { try await LarderClient.withConnection(socket: path) { _ in } }
        #expect(failure?.code == .unreachable)
        #expect(failure?.reason.contains("107 bytes") == true)
        #expect(failure?.isRetryable == false && failure?.isOutage == false)
        #expect(await error { try await LarderClient(socket: path).run() }?.systemError == ENAMETOOLONG)
        #expect(await error { for try await _ in LarderClient(socket: path).config.snapshots() {} } == failure)
    }

    @Test("the error of a change without a reply says that the change may have been executed")
    func timeoutOfChange() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        agent.faults.delay = .seconds(1000)
        let change = Task { await error { try await client.config.set(1, at: "a") } }
        try await agent.waitForDelayedMessages()
        agent.clock.advance(by: .seconds(30))
        #expect(await change.value?.mayHaveBeenExecuted == true)
        #expect(
            await change.value?.description == "the agent did not reply to config.set within 30 s; "
                + "it may have been executed: check its effect before you repeat it")
    }

    @Test("a full accept queue is retried six times and then reported")
    func busy() async throws {
        try await withTemporaryDirectory { directory in
            let path = "\(directory)/busy.sock"
            let listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            try check(withUnixAddress(path) { bind(listener, $0, $1) })
            try check(listen(listener, 0))
            let first = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            try check(withUnixAddress(path) { connect(first, $0, $1) })
            defer {
                close(first)
                close(listener)
            }
            let clock = ImmediateClock()
            let configuration = ScriptedAgent.configuration { $0.clock = clock }
            let failure = await error {
                try await LarderClient.withConnection(socket: path, configuration: configuration) { _ in }
            }
            #expect(failure?.systemError == EAGAIN)
            #expect(clock.sleeps.count == 6)
        }
    }

    @Test(
        "the socket path comes from the environment, the runtime directory, or /run",
        arguments: [
            (["LARDER_SOCKET": "/a", "XDG_RUNTIME_DIR": "/run/user/1"], true, "/a"),
            (["LARDER_SOCKET": "", "XDG_RUNTIME_DIR": "/run/user/1"], true, "/run/user/1/larder/larder.sock"),
            (["XDG_RUNTIME_DIR": "/run/user/1"], false, "/run/larder/larder.sock"),
            ([:], true, "/run/larder/larder.sock"),
        ])
    func lookup(environment: [String: String], exists: Bool, expected: String) {
        #expect(LarderSocket.path(environment: { environment[$0] }, exists: { _ in exists }) == expected)
    }
}
