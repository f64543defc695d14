import Foundation
import TestSupport
import Testing

extension Integration {
    @Suite("One program, two names")
    struct ProgramTests {
        /// Runs a shell script in which `$LARDER` is the command line and `$SOCKET` the agent's.
        private func shell(_ home: AgentHome, _ script: String) throws -> Command {
            let own = ["LARDER": try Products.commandLine, "SOCKET": home.socket]
            return try Command.run(
                "/bin/sh", ["-c", script], environment: home.environment.merging(own) { $1 },
                directory: home.directory)
        }

        /// A line of proc(5) without signals 32 and 33, which are glibc's own: it ignores both in what posix_spawn(3)
        /// starts, and catches the second as soon as there are threads.
        private func withoutInternalSignals(_ line: String) -> String {
            guard line.hasPrefix("SigIgn:\t"), let set = UInt64(line.dropFirst(8), radix: 16) else { return line }
            return "SigIgn:\t" + String(set & ~0x1_8000_0000, radix: 16)
        }

        @Test("as larder, larderd is the command line; under any other name it is the agent")
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

        @Test("what a service manager hands over is not the command line's, but that of the program it becomes")
        func activation() throws {
            try AgentHome.with { home in
                _ = try home.start()
                try home.write("file", "handed over")
                let variables =
                    "LISTEN_FDS=1 LISTEN_FDNAMES=web NOTIFY_SOCKET=/nowhere WATCHDOG_USEC=7 LISTEN_PID=$$ WATCHDOG_PID=$$"
                let set = try shell(home, "\(variables) exec $LARDER --socket $SOCKET set a 1 3<file")
                #expect(set.end == .exit(0), "\(set.log)")
                let said = #"echo $((LISTEN_PID - $$)) $LISTEN_FDS $LISTEN_FDNAMES $NOTIFY_SOCKET $WATCHDOG_USEC"#
                let become = try shell(
                    home,
                    "\(variables) exec $LARDER --socket $SOCKET exec -- /bin/sh -c '\(said) $((WATCHDOG_PID - $$)) $A; cat <&3' 3<file"
                )
                #expect(become.output == ["0 1 web /nowhere 7 0 1", "handed over"], "\(become.log)")
            }
        }

        @Test(
            "variables of socket activation that would stop the agent are no matter for the command line",
            arguments: [
                "LISTEN_FDS=many", "LISTEN_FDS=1", "LISTEN_FDS=7 LISTEN_FDNAMES=a:b", "LISTEN_FDS=1 LISTEN_FDNAMES=%%",
            ])
        func broken(variables: String) throws {
            try AgentHome.with { home in
                _ = try home.start()
                let ping = try shell(home, "LISTEN_PID=$$ \(variables) exec $LARDER --socket $SOCKET ping")
                #expect(ping.end == .exit(0), "\(ping.log)")
                #expect(ping.output.count == 1 && ping.log.isEmpty)
            }
        }

        @Test("the agent's way with signals and limits is not handed on")
        func hygiene() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try shell(home, "$LARDER --socket $SOCKET set a 1")
                let look = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ulimit -Sn; ls /proc/self/fd | wc -l"
                let direct = try shell(home, "ulimit -Sn 100; exec /bin/sh -c \"\(look)\"")
                let through = try shell(
                    home, "ulimit -Sn 100; exec $LARDER --socket $SOCKET exec -- /bin/sh -c \"\(look)\"")
                #expect(direct.output.contains("100"))
                #expect(direct.output.map(withoutInternalSignals) == through.output.map(withoutInternalSignals))
            }
        }

        @Test("neither program brings ICU", arguments: ["larderd", "larder"])
        func foundation(name: String) throws {
            let path = try name == "larder" ? Products.thinCommandLine : Products.agent
            let program = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
            // Its libraries, for a program that is linked to them, and its data, for one that has it within.
            for trace in ["libFoundation.so", "lib_FoundationICU.so", "icudt"] {
                #expect(program.range(of: Data(trace.utf8)) == nil, "\(trace)")
            }
        }
    }
}
