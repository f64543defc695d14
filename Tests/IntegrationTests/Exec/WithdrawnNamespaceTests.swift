import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    /// Runs commands as another user, because the user who runs the agent always has access.
    @Suite("Commands that follow a namespace without access", .needsRoot)
    struct WithdrawnNamespaceTests {
        private static let user = 4711

        private static func settings(_ access: String, _ namespaces: String) -> String {
            "{ socket: { mode: '0666' }, access: \(access), namespaces: { hidden: { access: {} }, \(namespaces) } }"
        }
        private static let reader = "{ users: { '\(user)': ['read'] } }"
        private static let usual = settings(reader, "shop: {}")

        /// Runs the command line as the other user, from a copy to which that user has access.
        private struct Commands {
            let home: AgentHome
            let program: String

            init(_ home: AgentHome) throws {
                self.home = home
                program = home.directory + "/larder"
                chmod(home.directory, 0o711)
                // Copies the target of the link, because the other user may not have access to it.
                let file = try URL(fileURLWithPath: Products.commandLine).resolvingSymlinksInPath()
                try FileManager.default.copyItem(at: file, to: URL(fileURLWithPath: program))
                chmod(program, 0o755)
                try home.makeDirectory("out")
                chmod(home.directory + "/out", 0o777)
            }

            func start(_ arguments: [String]) throws -> ChildProcess {
                let user = WithdrawnNamespaceTests.user
                return try ChildProcess(
                    "setpriv",
                    ["--reuid=\(user)", "--regid=\(user)", "--clear-groups", program] + arguments,
                    environment: home.environment.merging(["LARDER_SOCKET": home.socket]) { $1 },
                    directory: home.directory + "/out")
            }
        }

        private func line(_ process: ChildProcess) throws -> String {
            let line = try process.output.line(until: .usual, "a line of the program; the log:\n\(process.logText)")
            return String(decoding: try require(line, "line; the log:\n\(process.logText)"), as: UTF8.self)
        }

        @Test(
            "if a user loses access, exec and render with --watch retry until access returns; watch ends with an error",
            arguments: [
                // These settings remove the namespace, not only the access to it. The user gets the same error in both
                // cases.
                Self.settings(Self.reader, ""),
                Self.settings("{}", "shop: {}"),
            ])
        func accessRemoved(settings: String) throws {
            try AgentHome.with(settings: Self.usual) { home in
                let agent = try home.start()
                let larder = try Commands(home)
                try agent.call("config.set", ["limit", 1, "shop"])
                let exec = try larder.start(
                    ["exec", "--watch", "-n", "shop", "--interval", "10ms", "--"]
                        + ["/bin/sh", "-c", "echo limit $LIMIT; exec sleep 600"])
                #expect(try line(exec) == "limit 1")
                let render = try larder.start(
                    ["render", "--json", "x.json", "--exec", "cat {}", "--watch", "-n", "shop"])
                try render.waitForLog(": 1")
                let watch = try larder.start(["watch", "limit", "-n", "shop"])
                #expect(try line(watch) == "1")

                try home.write(settings: settings)
                try agent.reload()
                let note = "requires the right \"read\" in namespace \"shop\""
                for process in [exec, render] {
                    #expect(try process.waitForLog(note).hasSuffix("; retrying until the namespace may be read"))
                }
                #expect(try watch.waitForEnd() == .exit(4))
                #expect(watch.log.count == 1 && watch.log[0].contains(note), "\(watch.log)")

                try home.write(settings: Self.usual)
                try agent.reload()
                try agent.call("config.set", ["limit", 2, "shop"])
                // The program may first start with the value before this change.
                while try line(exec) != "limit 2" {}
                try render.waitForLog(": 2")
                for process in [exec, render] {
                    #expect(process.log.count { $0.contains(note) } == 1, "\(process.log)")
                    #expect(!process.log.contains { $0.contains("reconnecting") }, "\(process.log)")
                    process.signal(SIGTERM)
                    _ = try process.waitForEnd()
                }
            }
        }

        @Test("without access at the start, exec and render with --watch fail immediately")
        func noAccessAtStart() throws {
            try AgentHome.with(settings: Self.usual) { home in
                _ = try home.start()
                let larder = try Commands(home)
                for arguments in [
                    ["exec", "--watch", "-n", "hidden", "--", "/bin/true"],
                    ["render", "--json", "x.json", "--watch", "-n", "hidden"],
                ] {
                    #expect(try larder.start(arguments).waitForEnd() == .exit(4))
                }
            }
        }
    }
}
