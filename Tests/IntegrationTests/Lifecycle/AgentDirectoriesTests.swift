import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Directories of the agent")
    struct AgentDirectoriesTests {
        /// Creates a directory with exactly this mode, regardless of the umask.
        private func makeDirectory(_ path: String, mode: mode_t) throws {
            guard mkdir(path, 0o700) == 0, chmod(path, mode) == 0 else { throw HarnessError.system("mkdir \(path)") }
        }

        private func link(_ path: String, to target: String) throws {
            guard symlink(target, path) == 0 else { throw HarnessError.system("symlink \(path)") }
        }

        private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

        // MARK: Links

        @Test(
            "a symbolic link in place of a state file is refused, and its target is unchanged",
            arguments: ["lock", "epoch"])
        func linkedFile(name: String) throws {
            try AgentHome.with { home in
                try home.write("precious", "0123456789abcdef\n")
                try makeDirectory(home.state, mode: 0o700)
                try link("\(home.state)/\(name)", to: home.directory + "/precious")
                let agent = try home.runUntilExit()
                #expect(agent.end == .exit(1))
                #expect(agent.log.contains("\(home.state)/\(name) is a symbolic link"), "\(agent.log)")
                #expect(try text(home.directory + "/precious") == "0123456789abcdef\n")
                #expect(!home.exists(home.socket))
            }
        }

        @Test(
            "a symbolic link in place of a directory in the state directory is refused, and the error names the link",
            arguments: ["config", "config/default", "config/default/generations", "config/default/journal"])
        func linkedDirectory(name: String) throws {
            try AgentHome.with { home in
                let agent = try home.start()
                try agent.call("config.set", ["path": "n", "value": 1])
                #expect(try agent.stop() == .exit(0))
                let (path, moved) = ("\(home.state)/\(name)", home.directory + "/moved")
                try FileManager.default.moveItem(atPath: path, toPath: moved)
                try link(path, to: moved)
                let refused = try home.runUntilExit()
                #expect(refused.end == .exit(1))
                #expect(refused.log.contains("\(path) is a symbolic link"), "\(refused.log)")
            }
        }

        @Test("the state and cache directories themselves can be symbolic links")
        func linkedRoots() throws {
            try AgentHome.with { home in
                for name in ["state", "cache"] {
                    try makeDirectory("\(home.directory)/real-\(name)", mode: 0o700)
                    try link("\(home.directory)/\(name)", to: "\(home.directory)/real-\(name)")
                }
                let agent = try home.start()
                try agent.call("config.set", ["path": "n", "value": 1])
                #expect(try agent.call("agent.info")["imageProblem"] == nil)
                #expect(try agent.stop() == .exit(0))
                #expect(try home.start().call("config.get", ["n"])["value"] == 1)
            }
        }

        @Test("a symbolic link in place of the image directory disables only the image cache")
        func linkedImages() throws {
            try AgentHome.with { home in
                try makeDirectory(home.directory + "/cache", mode: 0o750)
                try makeDirectory(home.directory + "/elsewhere", mode: 0o750)
                try link(home.directory + "/cache/images", to: home.directory + "/elsewhere")
                let agent = try home.start()
                let problem = try agent.call("agent.info")["imageProblem"]?.string ?? ""
                #expect(problem.contains("/cache/images is a symbolic link"), "\(problem)")
                #expect(try agent.call("config.set", ["path": "n", "value": 1])["error"] == nil)
            }
        }

        // MARK: Owner and mode

        /// The log of an agent that refuses a directory. It does not start, except without images if the directory is
        /// that of the cache.
        private func refusal(of name: String, _ home: AgentHome, _ socket: String) throws -> String {
            guard name.hasPrefix("cache") else {
                let agent = try home.runUntilExit(socket: socket)
                #expect(agent.end == .exit(1))
                return agent.log
            }
            let agent = try home.start(socket: socket)
            #expect(try agent.call("agent.info")["imageProblem"] != nil)
            #expect(try agent.stop() == .exit(0))
            return agent.log
        }

        @Test(
            "a directory that another user could replace is refused before anything is created below it", .needsRoot)
        func replaceable() throws {
            try AgentHome.with { home in
                chmod(home.directory, 0o755)
                let (own, victim) = (home.directory + "/own", home.directory + "/victim")
                try makeDirectory(own, mode: 0o755)
                try makeDirectory(victim, mode: 0o700)
                try link(own + "/dir", to: victim)
                chown(own, 60200, 60200)
                let refused = try home.runUntilExit(state: own + "/dir")
                #expect(refused.end == .exit(1))
                #expect(refused.log.contains("\(own) belongs to user 60200"), "\(refused.log)")
                #expect(try home.runUntilExit(state: own + "/new").end == .exit(1))
                #expect(!home.exists(own + "/new"))
                #expect(try FileManager.default.contentsOfDirectory(atPath: victim).isEmpty)
            }
        }

        @Test("an agent that is started without standard streams uses /dev/null for them")
        func closedStreams() throws {
            try AgentHome.with { home in
                let script = #"""
                    "$@" <&- >&- 2>&- &
                    until [ -S sock ]; do sleep 0.05; done
                    for number in 0 1 2; do readlink /proc/$!/fd/$number; done
                    kill $!
                    wait $! || true # the signal may arrive before the agent handles it
                    """#
                let shell = try Command.run(
                    "sh", ["-c", script, "sh", try Products.agent] + home.arguments(), environment: home.environment,
                    directory: home.directory)
                #expect(shell.output == ["/dev/null", "/dev/null", "/dev/null"])
                #expect(shell.end == .exit(0))
            }
        }

        @Test(
            "a directory that others can write to is refused with the command that fixes it",
            arguments: ["run", "state", "cache", "cache/images"], [mode_t(0o777), 0o770, 0o1777])
        func writableByOthers(name: String, mode: mode_t) throws {
            try AgentHome.with { home in
                let path = "\(home.directory)/\(name)"
                if name == "cache/images" { try makeDirectory(home.directory + "/cache", mode: 0o750) }
                try makeDirectory(path, mode: mode)
                let socket = home.directory + "/run/sock"
                if name == "run", mode == 0o1777 {
                    // Others may write to the directory of the socket if it has the sticky bit, like /tmp. Users cannot
                    // replace files of other users in such a directory.
                    #expect(try home.start(socket: socket).call("agent.ping") == ["pong": true])
                    return
                }
                let log = try refusal(of: name, home, socket)
                #expect(log.contains("mode 0\(String(mode, radix: 8))"), "\(log)")
                #expect(log.contains("chmod go-w \(path)"), "\(log)")
                // The error suggests the sticky bit only for the directory of the socket, where it is sufficient.
                #expect(log.contains("chmod +t \(path)") == (name == "run"), "\(log)")
                #expect(!home.exists(path + "/lock"))
                chmod(path, 0o755)
                #expect(try home.start(socket: socket).call("agent.ping") == ["pong": true])
            }
        }

        @Test(
            "a directory of another user is refused with the command that fixes it", .needsRoot,
            arguments: ["run", "state", "cache"])
        func ownedByOther(name: String) throws {
            try AgentHome.with { home in
                let path = "\(home.directory)/\(name)"
                try makeDirectory(path, mode: 0o755)
                chown(path, 4711, 4711)
                let log = try refusal(of: name, home, home.directory + "/run/sock")
                #expect(log.contains("belongs to user 4711"), "\(log)")
                #expect(log.contains("chown -R 0 \(path)"), "\(log)")
            }
        }

        @Test(
            "a world-writable directory owned by root, such as an emptyDir volume, is refused with the commands to fix it",
            .needsRoot, arguments: ["run", "state"])
        func volume(name: String) throws {
            try AgentHome.with { home in
                let path = "\(home.directory)/\(name)"
                chmod(home.directory, 0o755)
                for directory in ["run", "state", "cache"] {
                    try makeDirectory("\(home.directory)/\(directory)", mode: directory == name ? 0o777 : 0o755)
                    if directory != name { chown("\(home.directory)/\(directory)", 4711, 4711) }
                }
                let become = ["--reuid=4711", "--regid=4711", "--clear-groups", try Products.agent]
                let refused = try Command.run(
                    "setpriv", become + home.arguments(socket: home.directory + "/run/sock"),
                    environment: home.environment, directory: home.directory)
                #expect(refused.end == .exit(1))
                let commands = "chown -R 4711 \(path) && chmod go-w \(path)"
                #expect(
                    refused.log.contains("as root (in a pod, in an init container): \(commands)"), "\(refused.log)")
            }
        }

        // MARK: File types

        @Test("a FIFO in place of a state file is refused", arguments: ["lock", "epoch", "config/default/journal"])
        func pipe(name: String) throws {
            try AgentHome.with { home in
                #expect(try home.start().stop() == .exit(0))
                let path = "\(home.state)/\(name)"
                unlink(path)
                guard mkfifo(path, 0o600) == 0 else { throw HarnessError.system("mkfifo") }
                let agent = try home.runUntilExit()
                #expect(agent.end == .exit(1))
                #expect(agent.log.contains(path) && agent.log.contains("not a regular file"), "\(agent.log)")
            }
        }

        @Test("a FIFO in place of the settings file is refused")
        func settingsPipe() throws {
            try AgentHome.with { home in
                guard mkfifo(home.settings, 0o600) == 0 else { throw HarnessError.system("mkfifo") }
                let agent = try home.runUntilExit()
                #expect(agent.end == .exit(78))
                #expect(
                    agent.log.contains(home.settings) && agent.log.contains("not a regular file"), "\(agent.log)")
            }
        }

        @Test("a FIFO in place of the image index disables only the image cache")
        func indexPipe() throws {
            try AgentHome.with { home in
                #expect(try home.start().stop() == .exit(0))
                let path = home.directory + "/cache/images/index.sqlite"
                unlink(path)
                guard mkfifo(path, 0o600) == 0 else { throw HarnessError.system("mkfifo") }
                let problem = try home.start().call("agent.info")["imageProblem"]?.string ?? ""
                #expect(problem.contains("not a regular file"), "\(problem)")
            }
        }

        @Test("a symbolic link in place of the image index is not followed")
        func linkedIndex() throws {
            try AgentHome.with { home in
                #expect(try home.start().stop() == .exit(0))
                let path = home.directory + "/cache/images/index.sqlite"
                try FileManager.default.moveItem(atPath: path, toPath: home.directory + "/elsewhere")
                try link(path, to: home.directory + "/elsewhere")
                let problem = try home.start().call("agent.info")["imageProblem"]?.string ?? ""
                #expect(problem.contains("not a regular file"), "\(problem)")
            }
        }
    }
}
