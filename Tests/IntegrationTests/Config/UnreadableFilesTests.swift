import Foundation
import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Files and directories without permission")
    struct UnreadableFilesTests {
        /// A command prefix that makes file permissions apply also to root.
        private static let unprivileged =
            geteuid() == 0 ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--"] : []

        /// Expects that the agent does not start and logs one line that contains all `words`.
        private func expectFailure(_ home: AgentHome, _ words: [String], status: CInt = 1, socket: String? = nil) throws
        {
            let command = Self.unprivileged + [try Products.agent] + home.arguments(socket: socket)
            let run = try Command.run(
                command[0], Array(command[1...]), environment: home.environment, directory: home.directory)
            #expect(run.end == .exit(status))
            let lines = run.log.split(separator: "\n").filter { $0.hasPrefix("larderd: ") }
            #expect(lines.count == 1, "\(run.log)")
            for word in words { #expect(lines.first?.contains(word) == true, "\(run.log)") }
        }

        @Test("a state directory that is a file or not accessible causes an error with its path and the reason")
        func stateDirectory() throws {
            try AgentHome.with { home in
                try home.write("state", "not a directory")
                try expectFailure(home, ["state", "Not a directory"])
                unlink(home.state)
                try home.makeDirectory("state")
                chmod(home.state, 0)
                defer { chmod(home.state, 0o700) }
                try expectFailure(home, ["state", "Permission denied"])
            }
        }

        @Test("a socket directory without write permission causes an error with its path and the reason")
        func socketDirectory() throws {
            try AgentHome.with { home in
                try home.makeDirectory("run")
                chmod(home.directory + "/run", 0o500)
                defer { chmod(home.directory + "/run", 0o700) }
                try expectFailure(home, ["run/sock", "Permission denied"], socket: home.directory + "/run/sock")
            }
        }

        @Test("if the settings cannot be read, the agent exits with status 78")
        func settings() throws {
            try AgentHome.with(settings: "{}") { home in
                chmod(home.settings, 0)
                try expectFailure(
                    home, ["larder.json", "cannot read the settings", "enter the directories above it"], status: 78)
            }
        }

        @Test(
            "an agent that cannot read its layer files and cache serves configuration and keeps changes across a restart"
        )
        func hostAndCache() throws {
            try AgentHome.with { home in
                try home.makeDirectory("etc/config.d")
                try home.write("etc/config.d/10.json", #"{ "from": "host" }"#)
                chmod(home.directory + "/etc/config.d/10.json", 0)
                try home.makeDirectory("cache")
                chmod(home.directory + "/cache", 0)
                defer { chmod(home.directory + "/cache", 0o700) }
                try expectChangesKept(home, Self.unprivileged)
            }
        }

        @Test("the agent serves and keeps changes if /etc is empty and cannot be read", .needsMount)
        func noEtc() throws {
            let mount = #"mount -t tmpfs -o mode=0 tmpfs /etc && exec "$0" "$@""#
            try AgentHome.with { home in
                try expectChangesKept(home, ["unshare", "--mount", "sh", "-c", mount] + Self.unprivileged)
            }
        }

        /// Starts two agents in succession, and expects that the second serves a change that the first made.
        private func expectChangesKept(_ home: AgentHome, _ wrapper: [String]) throws {
            let agent = try home.start(wrapper: wrapper)
            #expect(try agent.call("config.get")["value"] == [:])
            try agent.call("config.set", ["path": "kept", "value": true])
            #expect(try agent.stop() == .exit(0))
            let next = try home.start(wrapper: wrapper)
            #expect(try next.call("config.get", ["kept"])["value"] == true)
        }
    }
}
