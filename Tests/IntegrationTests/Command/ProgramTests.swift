import Foundation
import TestSupport
import Testing

extension Integration {
    @Suite("One program, two names")
    struct ProgramTests {
        /// Runs a shell script in which `$LARDER` is the command line, and `$SOCKET` the socket of the agent.
        private func shell(_ home: AgentHome, _ script: String) throws -> Command {
            let own = ["LARDER": try Products.commandLine, "SOCKET": home.socket]
            return try Command.run(
                "/bin/sh", ["-c", script], environment: home.environment.merging(own) { $1 },
                directory: home.directory)
        }

        /// Removes signals 32 and 33 from the line `SigIgn` of /proc/PID/status (proc(5)). glibc uses them: a program
        /// that posix_spawn(3) starts ignores both, and a program with threads catches 33.
        private func withoutInternalSignals(_ line: String) -> String {
            guard line.hasPrefix("SigIgn:\t"), let set = UInt64(line.dropFirst(8), radix: 16) else { return line }
            return "SigIgn:\t" + String(set & ~0x1_8000_0000, radix: 16)
        }

        @Test("a command that is started without standard streams uses /dev/null for them", arguments: [true, false])
        func closedStreams(isThin: Bool) throws {
            try AgentHome.with(starting: true) { home in
                // The shell may redirect its own output for a command, so the name is read before.
                let list = "for number in 0 1 2; do name=$(readlink /proc/$$/fd/$number); echo $name >>streams; done"
                let program = try isThin ? Products.thinCommandLine : Products.commandLine
                let script = #""$0" exec --socket "$SOCKET" -- sh -c "$1" <&- >&- 2>&-"#
                let ended = try Command.run(
                    "sh", ["-c", script, program, list],
                    environment: home.environment.merging(["SOCKET": home.socket]) { $1 }, directory: home.directory)
                #expect(ended.end == .exit(0))
                #expect(
                    try String(contentsOfFile: home.directory + "/streams", encoding: .utf8)
                        == "/dev/null\n/dev/null\n/dev/null\n")
            }
        }

        @Test("larderd is the command line if it is started as larder, and the agent under other names")
        func names() throws {
            for arguments in [["--version"], ["--help"], ["help", "exec"], ["nonsense"], ["get", "--nonsense"]] {
                let installed = try Command.run(Products.commandLine, arguments)
                let thin = try Command.run(Products.thinCommandLine, arguments)
                #expect(installed.end == thin.end, "\(arguments)")
                #expect(installed.output == thin.output && installed.log == thin.log, "\(arguments)")
            }
            try AgentHome.with { home in
                for name in ["larderd", "larder.old", "larder-", "LARDER"] {
                    symlink(try Products.agent, home.directory + "/" + name)
                    let help = try Command.run(home.directory + "/" + name, ["--help"])
                    #expect(help.output.contains { $0.hasPrefix("USAGE: larderd ") }, "\(name)")
                }
                let bare = try Command.run(
                    "/bin/sh",
                    ["-c", "PATH='\((try Products.commandLine as NSString).deletingLastPathComponent)' larder --help"])
                #expect(bare.output.contains { $0.hasPrefix("USAGE: larder ") })
            }
        }

        @Test("variables and descriptors from a service manager are passed to the program of larder exec")
        func activation() throws {
            try AgentHome.with { home in
                _ = try home.start()
                try home.write("file", "passed on")
                let variables =
                    "LISTEN_FDS=1 LISTEN_FDNAMES=web NOTIFY_SOCKET=/nowhere WATCHDOG_USEC=7 LISTEN_PID=$$ WATCHDOG_PID=$$"
                let set = try shell(home, "\(variables) exec $LARDER --socket $SOCKET set a 1 3<file")
                #expect(set.end == .exit(0), "\(set.log)")
                let report = #"echo $((LISTEN_PID - $$)) $LISTEN_FDS $LISTEN_FDNAMES $NOTIFY_SOCKET $WATCHDOG_USEC"#
                let exec = try shell(
                    home,
                    "\(variables) exec $LARDER --socket $SOCKET exec -- /bin/sh -c '\(report) $((WATCHDOG_PID - $$)) $A; cat <&3' 3<file"
                )
                #expect(exec.output == ["0 1 web /nowhere 7 0 1", "passed on"], "\(exec.log)")
            }
        }

        @Test(
            "invalid socket activation variables do not affect the command line",
            arguments: [
                "LISTEN_FDS=many", "LISTEN_FDS=1", "LISTEN_FDS=7 LISTEN_FDNAMES=a:b", "LISTEN_FDS=1 LISTEN_FDNAMES=%%",
            ])
        func invalidActivation(variables: String) throws {
            try AgentHome.with { home in
                _ = try home.start()
                let ping = try shell(home, "LISTEN_PID=$$ \(variables) exec $LARDER --socket $SOCKET ping")
                #expect(ping.end == .exit(0), "\(ping.log)")
                #expect(ping.output.count == 1 && ping.log.isEmpty)
            }
        }

        @Test("larder exec starts programs with unchanged signals, limits and descriptors")
        func hygiene() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try shell(home, "$LARDER --socket $SOCKET set a 1")
                let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -Sn; ls /proc/self/fd | wc -l"
                let direct = try shell(home, "ulimit -Sn 100; exec /bin/sh -c \"\(script)\"")
                let through = try shell(
                    home, "ulimit -Sn 100; exec $LARDER --socket $SOCKET exec -- /bin/sh -c \"\(script)\"")
                #expect(direct.output.contains("100"))
                #expect(direct.output.map(withoutInternalSignals) == through.output.map(withoutInternalSignals))
            }
        }

        @Test("the programs contain neither Foundation nor ICU", arguments: ["larderd", "larder"])
        func foundation(name: String) throws {
            let path = try name == "larder" ? Products.thinCommandLine : Products.agent
            let program = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
            // A dynamically linked program would contain the names of the libraries, a statically linked one the name
            // of the ICU data (`icudt`).
            for trace in ["libFoundation.so", "lib_FoundationICU.so", "icudt"] {
                #expect(program.range(of: Data(trace.utf8)) == nil, "\(trace)")
            }
        }
    }
}
