import Foundation
import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Files and directories without permission")
    struct UnreadableFilesTests {
        /// Words before the agent's command that make permissions apply to root as well.
        private static let unprivileged =
            geteuid() == 0 ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"] : []

        /// Whether a file system can be mounted for one process.
        private static let canMount =
            (try? Command.run("unshare", ["--mount", "true"]).end == .exit(0)) ?? false

        /// Starts an agent that cannot start, and checks that it ends with one line that contains `words`.
        private func refuses(_ home: AgentHome, _ words: [String], status: CInt = 1, socket: String? = nil) throws {
            let command = Self.unprivileged + [try Products.agent] + home.arguments(socket: socket)
            let run = try Command.run(
                command[0], Array(command[1...]), environment: home.environment, directory: home.directory)
            #expect(run.end == .exit(status))
            let lines = run.log.split(separator: "\n").filter { $0.hasPrefix("larderd: ") }
            #expect(lines.count == 1, "\(run.log)")
            for word in words { #expect(lines.first?.contains(word) == true, "\(run.log)") }
        }

        @Test("a state directory without permission, or that is a file, stops the start with its name and the reason")
        func stateDirectory() throws {
            try AgentHome.with { home in
                try home.write("state", "not a directory")
                try refuses(home, ["state", "Not a directory"])
                unlink(home.state)
                try home.makeDirectory("state")
                chmod(home.state, 0)
                defer { chmod(home.state, 0o700) }
                try refuses(home, ["state", "Permission denied"])
            }
        }

        @Test("a socket directory without permission stops the start with its name and the reason")
        func socketDirectory() throws {
            try AgentHome.with { home in
                try home.makeDirectory("run")
                chmod(home.directory + "/run", 0o500)
                defer { chmod(home.directory + "/run", 0o700) }
                try refuses(home, ["run/sock", "Permission denied"], socket: home.directory + "/run/sock")
            }
        }

        @Test("settings without permission stop the start with status 78")
        func settings() throws {
            try AgentHome.with(settings: "{}") { home in
                chmod(home.settings, 0)
                try refuses(home, ["larder.json", "may not be read"], status: 78)
            }
        }

        @Test("without permission for the host's files and the cache, configuration is served and changes are kept")
        func hostAndCache() throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc/config.d")
                try home.write("etc/config.d/10.json", #"{ "from": "host" }"#)
                chmod(home.directory + "/etc/config.d/10.json", 0)
                try home.makeDirectory("cache")
                chmod(home.directory + "/cache", 0)
                defer { chmod(home.directory + "/cache", 0o700) }
                try keepsChanges(home, Self.unprivileged)
            }
        }

        @Test("an /etc that is empty and cannot be read does not stop the agent", .enabled(if: canMount))
        func noEtc() throws {
            let mount = #"mount -t tmpfs -o mode=0 tmpfs /etc && exec "$0" "$@""#
            try AgentHome.with { home in
                try keepsChanges(home, ["unshare", "--mount", "sh", "-c", mount] + Self.unprivileged)
            }
        }

        /// Starts an agent twice; the second serves what was set over the first.
        private func keepsChanges(_ home: AgentHome, _ wrapper: [String]) throws {
            let agent = try home.start(wrapper: wrapper)
            #expect(try agent.ask("config.get")["value"] == [:])
            try agent.ask("config.set", ["path": "kept", "value": true])
            #expect(try agent.stop() == .exit(0))
            let next = try home.start(wrapper: wrapper)
            #expect(try next.ask("config.get", ["kept"])["value"] == true)
        }
    }
}
