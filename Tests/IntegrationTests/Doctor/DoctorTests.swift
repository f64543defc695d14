import CLinuxShims
import Foundation
import JSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("larder doctor with real agents")
struct DoctorTests {
    /// One finding as `--json` has it.
    private struct Told {
        let level: String
        let title: String
        let advice: [String]
    }

    /// Runs the doctor, and returns its exit status and what it says of each thing, all of its lines together.
    private func examine(_ agent: TemporaryAgent, _ arguments: String...) async throws -> (Int32, [String: [Told]]) {
        let run = try await SpawnedProgram.run(
            "larder", ["doctor", "--json"] + arguments, environment: agent.environment)
        let report = try JSONValue(parsing: run.output)
        var told: [String: [Told]] = [:]
        for finding in try #require(report["findings"]).elements {
            let advice = try #require(finding["advice"]).elements.compactMap(\.string)
            told[finding["check"]?.string ?? "", default: []].append(
                Told(level: finding["level"]?.string ?? "", title: finding["title"]?.string ?? "", advice: advice))
        }
        return (run.status, told)
    }

    @Test("with an agent that serves, everything that concerns it is well")
    func serving() async throws {
        try await TemporaryAgent.with { agent in
            let (status, told) = try await examine(agent)
            #expect(status == 0)
            for check in ["socket", "connection", "version", "settings", "disk", "upstream", "images"] {
                #expect(told[check]?.allSatisfy { $0.level == "ok" } == true, "\(check): \(told[check] ?? [])")
            }
            #expect(told["settings"]?.first?.title.hasPrefix("\(agent.directory)/settings.json is right") == true)
            let text = try await agent.larder("doctor")
            #expect(text.output.hasPrefix("[ok]      socket      \(agent.socket), "))
        }
    }

    @Test("without an agent it says so, and that there is no socket")
    func missingSocket() async throws {
        try await TemporaryAgent.withDirectory { agent in
            let (status, told) = try await examine(agent)
            #expect(status == 5)
            #expect(told["socket"]?.map(\.title) == ["there is no socket at \(agent.socket)"])
            #expect(
                told["socket"]?.first?.advice == ["start the agent of that socket: larderd --socket \(agent.socket)"])
            #expect(told["connection"]?.map(\.level) == ["skipped"])
        }
    }

    @Test("a socket that a killed agent left behind is told from one that somebody serves")
    func staleSocket() async throws {
        try await TemporaryAgent.withDirectory { agent in
            let process = try await agent.start()
            process.signal(SIGKILL)
            _ = await process.end()
            let (status, told) = try await examine(agent)
            #expect(status == 5)
            #expect(told["connection"]?.map(\.title) == ["nobody listens on \(agent.socket)"])
            #expect(told["socket"]?.map(\.level) == ["ok"])
        }
    }

    @Test("a socket that somebody listens on and nobody serves is told with who listens")
    func silentSocket() async throws {
        try await TemporaryAgent.withDirectory { agent in
            let listener = try LineListener(path: agent.socket)
            defer { listener.close() }
            let (status, told) = try await examine(agent, "--timeout", "100ms")
            #expect(status == 5)
            let title = try #require(told["connection"]?.first?.title)
            #expect(title.contains("(process \(getpid()), "), "\(title)")
            #expect(title.hasSuffix("but does not answer in time"))
        }
    }

    @Test("something else at the socket's path is named")
    func noSocket() async throws {
        try await TemporaryAgent.withDirectory { agent in
            try FileManager.default.createDirectory(atPath: agent.socket, withIntermediateDirectories: false)
            let (status, told) = try await examine(agent)
            #expect(status == 5)
            #expect(told["socket"]?.map(\.title) == ["\(agent.socket) is a directory, not a socket"])
        }
    }

    @Test("a user who may not connect is told so and who may", .enabled(if: geteuid() == 0))
    func wrongMode() async throws {
        try await TemporaryAgent.with { agent in
            chmod(agent.directory, 0o755)
            chmod(agent.socket, 0o600)
            let run = try await SpawnedProgram.run(
                "/usr/bin/setpriv",
                ["--reuid=65534", "--regid=65534", "--clear-groups", try Products.commandLine, "doctor"],
                environment: agent.environment)
            #expect(run.status == 5)
            #expect(run.output.contains("may not connect to \(agent.socket), root:"), "\(run)")
            #expect(run.output.contains("only root may"))
        }
    }

    @Test("wrong settings are told with their line, with and without an agent")
    func wrongSettings() async throws {
        try await TemporaryAgent.with { agent in
            try agent.write("{\n  colour: 1,\n}", to: "settings.json")
            let (status, told) = try await examine(agent)
            #expect(status == 1)
            #expect(told["settings"]?.map(\.title) == ["\(agent.directory)/settings.json is wrong"])
            let text = try await agent.larder("doctor")
            #expect(text.status == 1)
            #expect(text.output.contains("settings.json:2:3: colour is not a setting"))
        }
        try await TemporaryAgent.withDirectory { agent in
            try agent.write("{ sockets: {} }", to: "settings.json")
            let (status, told) = try await examine(agent, "--settings", "\(agent.directory)/settings.json")
            #expect(status == 5)
            #expect(told["settings"]?.map(\.title) == ["\(agent.directory)/settings.json is wrong"])
        }
    }

    @Test("settings that root may read and the agent's user may not are a problem", .enabled(if: geteuid() == 0))
    func hiddenSettings() async throws {
        try await TemporaryAgent.withDirectory { agent in
            chmod(agent.directory, 0o755)
            let path = "\(agent.directory)/settings.json"
            try agent.write("{}", to: "settings.json")
            for (mode, isReadable) in [(0o600, false), (0o644, true)] as [(mode_t, Bool)] {
                chmod(path, mode)
                let nobody = AgentUser(user: 65534, group: 65534, groups: [])
                // The tests beside this one may keep the machine busy for long.
                let answer = await nobody.mayRead(path, limit: .seconds(300))
                #expect(answer == isReadable)
            }
        }
    }

    @Test("a namespace whose source fails is told with the reason")
    func failingSource() async throws {
        try await TemporaryAgent.withDirectory { agent in
            try agent.write(
                "{namespaces: {shop: {remote: {file: {path: '\(agent.directory)/shop.json'}}}}}", to: "settings.json")
            let process = try await agent.start()
            // The source was asked once this is answered.
            _ = try await agent.larder("refresh", "-n", "shop")
            let (status, told) = try await examine(agent)
            #expect(status == 1)
            #expect(told["upstream"]?.map(\.level) == ["ok", "problem"])
            #expect(told["upstream"]?.last?.advice == ["ask again now: larder refresh -n shop"])
            await agent.stop(process)
        }
    }

    @Test("a full disk is found where the state is", .enabled(if: geteuid() == 0))
    func fullDisk() async throws {
        try await TemporaryAgent.withDirectory { agent in
            let state = "\(agent.directory)/state"
            try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: false)
            let mounted = try await SpawnedProgram.run(
                "/bin/mount", ["-t", "tmpfs", "-o", "size=4m", "larder-test", state])
            // Not every container may mount.
            guard mounted.status == 0 else { return }
            do {
                let process = try await agent.start()
                var (status, told) = try await examine(agent)
                // What the agent writes behind its start may give room back once it is done.
                for round in 0..<20 where told["disk"]?.first?.level != "problem" {
                    // Room is taken in ever smaller pieces, until not a byte is left.
                    for (index, size) in [1 << 20, 1 << 12].enumerated() {
                        for number in 0..<1024
                        where !FileManager.default.createFile(
                            atPath: "\(state)/filler\(round)-\(index)-\(number)",
                            contents: Data(repeating: 1, count: size))
                        { break }
                    }
                    (status, told) = try await examine(agent)
                }
                #expect(status == 1)
                #expect(told["disk"]?.first?.level == "problem", "\(told["disk"] ?? [])")
                #expect(told["disk"]?.first?.title.contains("the file system is full") == true)
                await agent.stop(process)
            } catch {
                Issue.record(error)
            }
            _ = try await SpawnedProgram.run("/bin/umount", ["-l", state])
        }
    }
}

/// A socket that accepts connections, in the kernel's queue, and never reads.
private struct LineListener {
    private let descriptor: Int32

    init(path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0 && listen(descriptor, 16) == 0)
    }

    func close() { Glibc.close(descriptor) }
}
