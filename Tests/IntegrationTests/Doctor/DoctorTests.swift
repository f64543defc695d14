import Foundation
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("larder doctor with real agents", .ownThread)
struct DoctorTests {
    /// A finding in the output of `--json`.
    private struct ReportedFinding {
        let level: String
        let title: String
        let advice: [String]
    }

    /// Runs `larder doctor --json` and returns its exit status, and its findings by check.
    private func examine(_ home: AgentHome, _ arguments: String...) throws -> (Int32, [String: [ReportedFinding]]) {
        let run = try Command.run(
            Products.commandLine, ["doctor", "--json"] + arguments, environment: home.clientEnvironment)
        let report = try JSONValue(parsing: run.text)
        var findings: [String: [ReportedFinding]] = [:]
        for finding in try #require(report["findings"]).elements {
            let advice = try #require(finding["advice"]).elements.compactMap(\.string)
            findings[finding["check"]?.string ?? "", default: []].append(
                ReportedFinding(
                    level: finding["level"]?.string ?? "", title: finding["title"]?.string ?? "", advice: advice))
        }
        return (run.status, findings)
    }

    @Test("with a healthy running agent, all checks that concern the agent are ok")
    func serving() throws {
        try AgentHome.with(settings: "{}", starting: true) { home in
            let (status, findings) = try examine(home)
            // The clock of the test host may be unsynchronized, which is a warning.
            #expect(status == (findings.values.joined().contains { $0.level == "warning" } ? 12 : 0))
            for check in ["socket", "connection", "version", "settings", "disk", "upstream", "images"] {
                #expect(findings[check]?.allSatisfy { $0.level == "ok" } == true, "\(check): \(findings[check] ?? [])")
            }
            #expect(findings["settings"]?.first?.title.hasPrefix("\(home.settings) is valid") == true)
            let text = try home.larder("doctor")
            #expect(text.text.hasPrefix("[ok]      socket      \(home.socket), "))
        }
    }

    @Test("without an agent, doctor reports a missing socket and skips the connection")
    func missingSocket() throws {
        try AgentHome.with { home in
            let (status, findings) = try examine(home)
            #expect(status == 5)
            #expect(findings["socket"]?.map(\.title) == ["there is no socket at \(home.socket)"])
            #expect(
                findings["socket"]?.first?.advice == ["start the agent of this socket: larderd --socket \(home.socket)"]
            )
            #expect(findings["connection"]?.map(\.level) == ["skipped"])
        }
    }

    @Test("a socket left by a killed agent is reported as a socket without a listener")
    func staleSocket() throws {
        try AgentHome.with { home in
            try home.start().kill()
            let (status, findings) = try examine(home)
            #expect(status == 5)
            #expect(findings["connection"]?.map(\.title) == ["no process listens on \(home.socket)"])
            #expect(findings["socket"]?.map(\.level) == ["ok"])
        }
    }

    @Test("a socket whose listener does not reply is reported with the listening process")
    func silentSocket() throws {
        try AgentHome.with { home in
            let listener = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
            defer { listener.close() }
            try #require(try withUnixAddress(home.socket) { bind(listener.number, $0, $1) } == 0)
            try #require(listen(listener.number, 16) == 0)
            let (status, findings) = try examine(home, "--timeout", "100ms")
            #expect(status == 5)
            let title = try #require(findings["connection"]?.first?.title)
            #expect(title.contains("(process \(getpid()), "), "\(title)")
            #expect(title.hasSuffix("but did not reply in time"))
        }
    }

    @Test("a directory at the socket's path is reported as a directory")
    func directoryAtSocketPath() throws {
        try AgentHome.with { home in
            try FileManager.default.createDirectory(atPath: home.socket, withIntermediateDirectories: false)
            let (status, findings) = try examine(home)
            #expect(status == 5)
            #expect(findings["socket"]?.map(\.title) == ["\(home.socket) is a directory, not a socket"])
        }
    }

    @Test("a user who cannot connect to the socket sees its owner and which users can connect", .needsRoot)
    func wrongMode() throws {
        try AgentHome.with(settings: "{}", starting: true) { home in
            chmod(home.directory, 0o755)
            chmod(home.socket, 0o600)
            let run = try Command.run(
                "setpriv",
                ["--reuid=65534", "--regid=65534", "--clear-groups", try Products.commandLine, "doctor"],
                environment: home.clientEnvironment)
            #expect(run.status == 5)
            #expect(run.text.contains("cannot connect to \(home.socket), root:"), "\(run)")
            #expect(run.text.contains("only root can connect"))
        }
    }

    @Test("invalid settings are a problem with and without an agent, and the text output names the line")
    func wrongSettings() throws {
        try AgentHome.with(settings: "{}", starting: true) { home in
            try home.write(settings: "{\n  color: 1,\n}")
            let (status, findings) = try examine(home)
            #expect(status == 1)
            #expect(findings["settings"]?.map(\.title) == ["\(home.settings) is invalid"])
            let text = try home.larder("doctor")
            #expect(text.status == 1)
            #expect(text.text.contains("larder.json:2:3: color is not a setting"))
        }
        try AgentHome.with { home in
            try home.write(settings: "{ sockets: {} }")
            let (status, findings) = try examine(home, "--settings", home.settings)
            #expect(status == 5)
            #expect(findings["settings"]?.map(\.title) == ["\(home.settings) is invalid"])
        }
    }

    @Test("doctor in another directory finds settings that the agent was given with a relative path")
    func relativeSettings() throws {
        try AgentHome.with { home in
            try home.write("own.json", "{}")
            let agent = try home.start(wrapper: ["sh", "-c", #"exec "$0" "$@" --settings own.json"#])
            let (_, findings) = try examine(home)
            let title = try #require(findings["settings"]?.first?.title)
            #expect(title.hasPrefix("/"))
            #expect(title.hasSuffix("/own.json is valid, and the agent has read it"))
            #expect(try agent.stop() == .exit(0))
        }
    }

    @Test("doctor run as root checks whether the agent's user can read the settings", .needsRoot)
    func hiddenSettings() async throws {
        try await AgentHome.with { home in
            chmod(home.directory, 0o755)
            let path = home.settings
            try home.write(settings: "{}")
            for (mode, isReadable) in [(0o600, false), (0o644, true)] as [(mode_t, Bool)] {
                chmod(path, mode)
                let user = AgentUser(user: 65534, group: 65534, groups: [])
                // The time limit is long, because parallel tests can keep the machine busy.
                let mayRead = await user.mayRead(path, limit: .seconds(300))
                #expect(mayRead == isReadable)
            }
        }
    }

    @Test("doctor run as root finds the directory that the agent's user cannot enter, also behind a link", .needsRoot)
    func closedDirectory() async throws {
        try await AgentHome.with { home in
            chmod(home.directory, 0o755)
            let closed = "\(home.directory)/closed"
            try FileManager.default.createDirectory(atPath: "\(closed)/open", withIntermediateDirectories: true)
            let path = "\(closed)/open/larder.json"
            try Data("{}".utf8).write(to: URL(filePath: path))
            let link = "\(home.directory)/link.json"
            try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
            let user = AgentUser(user: 65534, group: 65534, groups: [])
            for (mode, expected) in [(0o700, closed), (0o711, nil)] as [(mode_t, String?)] {
                chmod(closed, mode)
                for file in [path, link] {
                    #expect(await user.closedDirectory(above: file, limit: .seconds(300)) == expected)
                    #expect(await user.mayRead(file, limit: .seconds(300)) == (expected == nil))
                }
            }
        }
    }

    @Test("a namespace whose source fails is a problem, with the command that retries it")
    func failingSource() throws {
        try AgentHome.with { home in
            try home.write(
                settings:
                    "{namespaces: {shop: {remote: {file: {path: '\(home.directory)/shop.json'}}}}}")
            let agent = try home.start()
            // `larder refresh` ends after the first attempt of the agent to read the source.
            try home.larder("refresh", "-n", "shop")
            let (status, findings) = try examine(home)
            #expect(status == 1)
            #expect(findings["upstream"]?.map(\.level) == ["ok", "problem"])
            #expect(findings["upstream"]?.last?.advice == ["poll the source now: larder refresh --namespace shop"])
            #expect(try agent.stop() == .exit(0))
        }
    }

    @Test("a full file system at the state directory is a problem", .needsMount)
    func fullDisk() throws {
        try AgentHome.with { home in
            let state = home.state
            try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: false)
            let mounted = try Command.run(
                "mount", ["-t", "tmpfs", "-o", "size=4m,mode=0700", "larder-test", state])
            try #require(mounted.status == 0, "\(mounted.log)")
            do {
                let agent = try home.start()
                var (status, findings) = try examine(home)
                // Background writes of the agent can free space when they finish, so the disk is filled repeatedly.
                for round in 0..<20 where findings["disk"]?.first?.level != "problem" {
                    // Writes files of 1 MiB, then of 4 KiB, until no space is left.
                    for (index, size) in [1 << 20, 1 << 12].enumerated() {
                        for number in 0..<1024
                        where !FileManager.default.createFile(
                            atPath: "\(state)/filler\(round)-\(index)-\(number)",
                            contents: Data(repeating: 1, count: size))
                        { break }
                    }
                    (status, findings) = try examine(home)
                }
                #expect(status == 1)
                #expect(findings["disk"]?.first?.level == "problem", "\(findings["disk"] ?? [])")
                #expect(findings["disk"]?.first?.title.contains("the file system is full") == true)
                #expect(try agent.stop() == .exit(0))
            } catch {
                Issue.record(error)
            }
            _ = try Command.run("umount", ["-l", state])
        }
    }
}
