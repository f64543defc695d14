import Foundation
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("larder doctor with real agents", .ownThread)
struct DoctorTests {
    /// One finding as `--json` has it.
    private struct Told {
        let level: String
        let title: String
        let advice: [String]
    }

    /// Runs the doctor, and returns its exit status and what it says of each thing, all of its lines together.
    private func examine(_ home: AgentHome, _ arguments: String...) throws -> (Int32, [String: [Told]]) {
        let run = try Command.run(
            Products.commandLine, ["doctor", "--json"] + arguments, environment: home.clientEnvironment)
        let report = try JSONValue(parsing: run.text)
        var told: [String: [Told]] = [:]
        for finding in try #require(report["findings"]).elements {
            let advice = try #require(finding["advice"]).elements.compactMap(\.string)
            told[finding["check"]?.string ?? "", default: []].append(
                Told(level: finding["level"]?.string ?? "", title: finding["title"]?.string ?? "", advice: advice))
        }
        return (run.status, told)
    }

    @Test("with an agent that serves, everything that concerns it is well")
    func serving() throws {
        try AgentHome.with(settings: "{}", starting: true) { home in
            let (status, told) = try examine(home)
            // Whether a time server sets the host's clock is no matter of the agent's.
            #expect(status == (told.values.joined().contains { $0.level == "warning" } ? 12 : 0))
            for check in ["socket", "connection", "version", "settings", "disk", "upstream", "images"] {
                #expect(told[check]?.allSatisfy { $0.level == "ok" } == true, "\(check): \(told[check] ?? [])")
            }
            #expect(told["settings"]?.first?.title.hasPrefix("\(home.settings) is right") == true)
            let text = try home.larder("doctor")
            #expect(text.text.hasPrefix("[ok]      socket      \(home.socket), "))
        }
    }

    @Test("without an agent it says so, and that there is no socket")
    func missingSocket() throws {
        try AgentHome.with { home in
            let (status, told) = try examine(home)
            #expect(status == 5)
            #expect(told["socket"]?.map(\.title) == ["there is no socket at \(home.socket)"])
            #expect(
                told["socket"]?.first?.advice == ["start the agent of that socket: larderd --socket \(home.socket)"])
            #expect(told["connection"]?.map(\.level) == ["skipped"])
        }
    }

    @Test("a socket that a killed agent left behind is told from one that somebody serves")
    func staleSocket() throws {
        try AgentHome.with { home in
            try home.start().kill()
            let (status, told) = try examine(home)
            #expect(status == 5)
            #expect(told["connection"]?.map(\.title) == ["nobody listens on \(home.socket)"])
            #expect(told["socket"]?.map(\.level) == ["ok"])
        }
    }

    @Test("a socket that somebody listens on and nobody serves is told with who listens")
    func silentSocket() throws {
        try AgentHome.with { home in
            let listener = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
            defer { listener.close() }
            try #require(try withUnixAddress(home.socket) { bind(listener.number, $0, $1) } == 0)
            try #require(listen(listener.number, 16) == 0)
            let (status, told) = try examine(home, "--timeout", "100ms")
            #expect(status == 5)
            let title = try #require(told["connection"]?.first?.title)
            #expect(title.contains("(process \(getpid()), "), "\(title)")
            #expect(title.hasSuffix("but does not answer in time"))
        }
    }

    @Test("something else at the socket's path is named")
    func noSocket() throws {
        try AgentHome.with { home in
            try FileManager.default.createDirectory(atPath: home.socket, withIntermediateDirectories: false)
            let (status, told) = try examine(home)
            #expect(status == 5)
            #expect(told["socket"]?.map(\.title) == ["\(home.socket) is a directory, not a socket"])
        }
    }

    @Test("a user who may not connect is told so and who may", .enabled(if: geteuid() == 0))
    func wrongMode() throws {
        try AgentHome.with(settings: "{}", starting: true) { home in
            chmod(home.directory, 0o755)
            chmod(home.socket, 0o600)
            let run = try Command.run(
                "setpriv",
                ["--reuid=65534", "--regid=65534", "--clear-groups", try Products.commandLine, "doctor"],
                environment: home.clientEnvironment)
            #expect(run.status == 5)
            #expect(run.text.contains("may not connect to \(home.socket), root:"), "\(run)")
            #expect(run.text.contains("only root may"))
        }
    }

    @Test("wrong settings are told with their line, with and without an agent")
    func wrongSettings() throws {
        try AgentHome.with(settings: "{}", starting: true) { home in
            try home.write(settings: "{\n  colour: 1,\n}")
            let (status, told) = try examine(home)
            #expect(status == 1)
            #expect(told["settings"]?.map(\.title) == ["\(home.settings) is wrong"])
            let text = try home.larder("doctor")
            #expect(text.status == 1)
            #expect(text.text.contains("larder.json:2:3: colour is not a setting"))
        }
        try AgentHome.with { home in
            try home.write(settings: "{ sockets: {} }")
            let (status, told) = try examine(home, "--settings", home.settings)
            #expect(status == 5)
            #expect(told["settings"]?.map(\.title) == ["\(home.settings) is wrong"])
        }
    }

    @Test("settings that root may read and the agent's user may not are a problem", .enabled(if: geteuid() == 0))
    func hiddenSettings() async throws {
        try await AgentHome.with { home in
            chmod(home.directory, 0o755)
            let path = home.settings
            try home.write(settings: "{}")
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
    func failingSource() throws {
        try AgentHome.with { home in
            try home.write(
                settings:
                    "{namespaces: {shop: {remote: {file: {path: '\(home.directory)/shop.json'}}}}}")
            let agent = try home.start()
            // The source was asked once this is answered.
            try home.larder("refresh", "-n", "shop")
            let (status, told) = try examine(home)
            #expect(status == 1)
            #expect(told["upstream"]?.map(\.level) == ["ok", "problem"])
            #expect(told["upstream"]?.last?.advice == ["ask again now: larder refresh --namespace shop"])
            #expect(try agent.stop() == .exit(0))
        }
    }

    @Test("a full disk is found where the state is", .enabled(if: geteuid() == 0))
    func fullDisk() throws {
        try AgentHome.with { home in
            let state = home.state
            try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: false)
            let mounted = try Command.run(
                "mount", ["-t", "tmpfs", "-o", "size=4m,mode=0700", "larder-test", state])
            // Not every container may mount.
            guard mounted.status == 0 else { return }
            do {
                let agent = try home.start()
                var (status, told) = try examine(home)
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
                    (status, told) = try examine(home)
                }
                #expect(status == 1)
                #expect(told["disk"]?.first?.level == "problem", "\(told["disk"] ?? [])")
                #expect(told["disk"]?.first?.title.contains("the file system is full") == true)
                #expect(try agent.stop() == .exit(0))
            } catch {
                Issue.record(error)
            }
            _ = try Command.run("umount", ["-l", state])
        }
    }
}
