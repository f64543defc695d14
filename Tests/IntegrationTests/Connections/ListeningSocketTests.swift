import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Listening socket")
    struct ListeningSocketTests {
        /// The arguments of systemd-socket-activate. It passes few environment variables to the agent by default, so
        /// the variables of a sanitizer are named with `-E`.
        private static func activation(at path: String, of home: AgentHome) throws -> [String] {
            ["-l", path] + ChildProcess.sanitizerVariables.keys.flatMap { ["-E", $0] }
                + [try Products.agent, "--state-directory", home.state, "--cache-directory", home.directory + "/cache"]
        }

        @Test(
            "a socket-activated agent serves a first client that half-closes its connection, and keeps the socket file")
        func socketActivation() throws {
            try AgentHome.with { home in
                let path = home.directory + "/x.sock"
                let activated = try ChildProcess(
                    "systemd-socket-activate", try Self.activation(at: path, of: home),
                    environment: home.environment,
                    directory: home.directory)
                try activated.waitForLog("Listening on")
                let answer = try Socat.pipe(#"{"id":1,"method":"agent.ping"}"#, to: path)
                #expect(answer == [#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#])

                let client = try LineClient(path: path)
                let info = try client.call("agent.info")
                #expect(info["activated"] == true)
                #expect(info["pid"]?.int == Int(activated.pid))
                client.close()
                let ready = try activated.waitForLog("ready")
                #expect(
                    ready.contains("permissions") && ready.contains("uid"),
                    "the owner and mode of the socket are not in the log")

                activated.signal(SIGTERM)
                #expect(try activated.waitForEnd() == .exit(0), "\(activated.logText)")
                #expect(home.exists(path))
            }
        }

        @Test("an agent on an abstract socket from systemd serves clients and writes no plain copies")
        func abstractSocket() throws {
            try AgentHome.with { home in
                let name = "larder-test-\(getpid())-\(UInt32.random(in: .min ... .max))"
                let listener = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
                let bound = try withUnixAddress("\0" + name) { address, _ in
                    let length = MemoryLayout<sa_family_t>.size + 1 + name.utf8.count
                    return bind(listener.number, address, socklen_t(length))
                }
                guard bound == 0, listen(listener.number, 8) == 0 else { throw HarnessError.system("listen") }
                // The working directory of the agent is the directory of this test, `home.directory`. An abstract
                // socket has no directory, so the agent must write no copies, not even to its working directory.
                let before = Set(try FileManager.default.contentsOfDirectory(atPath: home.directory))
                _ = try home.start(listener: listener)
                let reply = try Command.run(
                    "socat", Socat.timeout + ["-", "ABSTRACT-CONNECT:\(name)"],
                    input: #"{"id":1,"method":"agent.info"}"# + "\n" + #"{"id":2,"method":"config.status"}"#)
                #expect(reply.text.contains(#""socket":"@\#(name)""#), "\(reply.text)")
                #expect(reply.text.contains(#""copy":null"#), "\(reply.text)")
                let made = Set(try FileManager.default.contentsOfDirectory(atPath: home.directory)).subtracting(before)
                #expect(made == ["state", "cache", "notify0"])
                #expect(try home.larder("ping", "--socket", "@\(name)").status == 0)
                #expect(try home.larder("set", "n", "1", "--socket", "@\(name)").status == 0)
                #expect(try home.larder("get", "n", "--socket", "@\(name)").text == "1\n")
                let doctor = try home.larder("doctor", "--socket", "@\(name)")
                #expect(doctor.text.contains("@\(name) is abstract"), "\(doctor.text)")
                let absent = try home.larder("ping", "--socket", "@\(name)-absent")
                #expect(absent.status == 5 && absent.log.contains("no process listens"), "\(absent.log)")
            }
        }

        @Test("clients that connect before a socket-activated agent has started are served")
        func socketActivationBacklog() throws {
            try AgentHome.with { home in
                let path = home.directory + "/x.sock"
                for _ in 0..<2 {
                    unlink(path)
                    let activated = try ChildProcess(
                        "systemd-socket-activate", try Self.activation(at: path, of: home),
                        environment: home.environment,
                        directory: home.directory)
                    try activated.waitForLog("Listening on")
                    let clients = try (0..<20).map { _ in try LineClient(path: path) }
                    for client in clients { #expect(try client.call("agent.ping") == ["pong": true]) }
                    activated.signal(SIGTERM)
                    #expect(try activated.waitForEnd() == .exit(0), "\(activated.logText)")
                }
            }
        }

        @Test("an agent does not start on the socket of a running agent")
        func liveSocket() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let second = try home.runUntilExit(state: home.directory + "/other")
                #expect(second.end == .exit(1))
                #expect(second.log.contains("another agent") && second.log.contains(home.socket), "\(second.log)")
                #expect(try agent.call("agent.ping") == ["pong": true])
            }
        }

        @Test("an agent does not start on the socket of another program, and keeps that socket")
        func foreignSocket() throws {
            try AgentHome.with { home in
                let other = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
                #expect(try withUnixAddress(home.socket) { bind(other.number, $0, $1) } == 0)
                #expect(listen(other.number, 8) == 0)
                let agent = try home.runUntilExit()
                #expect(agent.end == .exit(1))
                #expect(agent.log.contains("is listening on \(home.socket)"), "\(agent.log)")
                #expect(home.exists(home.socket))
            }
        }

        @Test("an agent does not start with the state directory of a running agent, and logs the pid of that agent")
        func lockedState() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                let socket = home.directory + "/second"
                let second = try home.runUntilExit(socket: socket)
                #expect(second.end == .exit(1))
                #expect(second.log.contains("pid \(agent.pid)") && second.log.contains(home.state), "\(second.log)")
                #expect(!home.exists(socket))
            }
        }

        @Test("the socket of a killed agent is replaced by the next agent")
        func staleSocket() throws {
            try AgentHome.with { home in
                let first = try home.start()
                first.kill()
                #expect(home.exists(home.socket))
                let second = try home.start()
                #expect(try second.call("agent.ping") == ["pong": true])
            }
        }

        @Test("an agent does not start if its socket path is another kind of file, and keeps that file")
        func notASocket() throws {
            try AgentHome.with { home in
                try home.write("sock", "precious")
                let agent = try home.runUntilExit()
                #expect(agent.end == .exit(1))
                #expect(agent.log.contains("\(home.socket) exists but is not a socket"), "\(agent.log)")
                #expect(try String(contentsOfFile: home.socket, encoding: .utf8) == "precious")
            }
        }

        @Test("a stopping agent removes its socket, but not a socket that has replaced it")
        func removal() throws {
            try AgentHome.with { home in
                #expect(try home.start().stop() == .exit(0))
                #expect(!home.exists(home.socket))

                let agent = try home.start()
                unlink(home.socket)
                let other = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
                #expect(try withUnixAddress(home.socket) { bind(other.number, $0, $1) } == 0)
                #expect(try agent.stop() == .exit(0))
                #expect(home.exists(home.socket))
            }
        }

        @Test("the socket has the mode from the settings, regardless of the umask")
        func mode() throws {
            try AgentHome.with(settings: "{ socket: { mode: '0622' } }") { home in
                let agent = try home.start()
                let attributes = try FileManager.default.attributesOfItem(atPath: home.socket)
                #expect(attributes[.posixPermissions] as? Int == 0o622)
                try agent.waitForLog("0622")
            }
        }

        @Test("a socket path that is too long is rejected with the maximum length")
        func longPath() throws {
            try AgentHome.with { home in
                let agent = try home.runUntilExit(socket: home.directory + "/" + String(repeating: "x", count: 120))
                #expect(agent.end == .exit(1))
                #expect(agent.log.contains("at most 107"), "\(agent.log)")
            }
        }

        @Test(
            "the accept queue of a busy agent has the maximum length that the kernel allows", arguments: [false, true])
        func backlog(isActivated: Bool) throws {
            let limit = try String(contentsOfFile: "/proc/sys/net/core/somaxconn", encoding: .utf8)
            let count = min(try require(Int(limit.trimmingCharacters(in: .newlines)), "somaxconn"), 600)
            raiseDescriptorLimit()
            try AgentHome.with { home in
                let (path, agent): (String, ChildProcess)
                if isActivated {
                    path = home.directory + "/x.sock"
                    agent = try ChildProcess(
                        "systemd-socket-activate", try Self.activation(at: path, of: home),
                        environment: home.environment, directory: home.directory)
                    try agent.waitForLog("Listening on")
                    try LineClient(path: path).call("agent.ping")
                } else {
                    (path, agent) = (home.socket, try home.start().process)
                }
                agent.signal(SIGSTOP)
                defer { agent.signal(SIGCONT) }
                let clients = try (0..<count).map { _ in
                    let client = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
                    client.makeNonBlocking()
                    return (client, try withUnixAddress(path) { connect(client.number, $0, $1) })
                }
                #expect(clients.filter { $0.1 == 0 }.count == count)
            }
        }
    }
}
