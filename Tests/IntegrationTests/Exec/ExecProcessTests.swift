import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Processes of larder exec --watch")
    struct ExecProcessTests {
        private func start(
            _ home: AgentHome, _ program: [String], options: [String] = [], wrapper: [String] = [], input: Bool = false
        ) throws -> ChildProcess {
            let larder = [try Products.commandLine, "exec", "--socket", home.socket, "--watch", "--interval", "10ms"]
            let command = wrapper + larder + options + ["--"] + program
            return try ChildProcess(
                command[0], Array(command[1...]), environment: home.environment, directory: home.directory, input: input
            )
        }

        private func line(_ process: ChildProcess) throws -> String {
            let line = try process.output.line(until: .usual, "a line from the program; the log:\n\(process.logText)")
            return String(decoding: try require(line, "line; the log:\n\(process.logText)"), as: UTF8.self)
        }

        /// Reads lines until one contains a text.
        private func line(_ process: ChildProcess, with text: String) throws -> String {
            while true {
                let line = try line(process)
                if line.contains(text) { return line }
            }
        }

        private func end(_ process: ChildProcess) throws {
            process.signal(SIGTERM)
            _ = try process.waitForEnd()
        }

        @Test("a change with variables beyond the limit of execve(2) is refused, and the program keeps running")
        func tooLong() throws {
            try AgentHome.with(starting: true) { home in
                try home.larder("set", "port", "1")
                let larder = try start(home, ["/bin/sh", "-c", "echo port $PORT; exec sleep 1000"])
                #expect(try line(larder) == "port 1")
                try home.larder("set", "big", "--value-from", "-", input: String(repeating: "x", count: 140_000))
                try larder.waitForLog("exceed the limit of execve(2)")
                func refusal() throws -> JSONValue? {
                    let clients = try JSONValue(parsing: home.larder("clients", "--json").text)["clients"]
                    return clients?.elements.compactMap { $0["acknowledged"]?[0] }.first { $0["accepted"] == false }
                }
                while try refusal() == nil {}
                #expect(try refusal()?["reason"]?.string?.contains("execve(2)") == true)
                try home.larder("unset", "big")
                try home.larder("set", "port", "2")
                #expect(try line(larder) == "port 2")
                try end(larder)
            }
        }

        @Test("a change while the program does not exist is refused, and applied when the program exists again")
        func missing() throws {
            try AgentHome.with(starting: true) { home in
                let program = home.directory + "/program"
                func write() throws {
                    try home.write("program", "#!/bin/sh\necho port $PORT; exec sleep 1000\n")
                    chmod(program, 0o700)
                }
                try write()
                try home.larder("set", "port", "1")
                let larder = try start(home, [program])
                #expect(try line(larder) == "port 1")
                unlink(program)
                try home.larder("set", "port", "2")
                try larder.waitForLog("program not found")
                try write()
                #expect(try line(larder) == "port 2")
                try end(larder)
            }
        }

        @Test("processes that a shell leaves behind end before the program is started again")
        func leftovers() throws {
            try AgentHome.with(starting: true) { home in
                try home.write(
                    "server.py",
                    """
                    import os, socket, sys, time
                    server = socket.socket(socket.AF_UNIX)
                    try: server.bind(b"\\0" + os.environb[b"NAME"])
                    except OSError as error: print("failed", error, flush=True); sys.exit(1)
                    print("listening", os.environ["V"], flush=True)
                    time.sleep(1000)
                    """)
                try home.larder("set", "v", "1")
                try home.larder("set", "name", home.directory)
                let larder = try start(home, ["/bin/sh", "-c", "python3 server.py; echo not reached"])
                #expect(try line(larder) == "listening 1")
                try home.larder("set", "v", "2")
                #expect(try line(larder) == "listening 2")
                try end(larder)
                #expect(try larder.output.line(until: .usual, "the end of the output") == nil)
            }
        }

        @Test("the workers of a server get TERM only after the server has ended")
        func workers() throws {
            try AgentHome.with(starting: true) { home in
                let program = """
                    import os, signal, sys
                    def say(text): os.write(1, text.encode() + b"\\n")
                    if os.environ["V"] == "2": say("second"); signal.pause()
                    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
                    if os.fork() == 0:
                        say("worker")
                        signal.sigwait([signal.SIGTERM])
                        say("worker ends")
                        os._exit(0)
                    signal.sigwait([signal.SIGTERM])
                    say("stopping")
                    sys.stdin.readline()
                    say("server ends")
                    """
                try home.larder("set", "v", "1")
                let larder = try start(home, ["/usr/bin/python3", "-c", program], input: true)
                #expect(try line(larder) == "worker")
                try home.larder("set", "v", "2")
                #expect(try line(larder) == "stopping")
                try larder.write(Array("\n".utf8))
                #expect(try line(larder) == "server ends")
                #expect(try line(larder) == "worker ends")
                #expect(try line(larder) == "second")
                try end(larder)
            }
        }

        @Test("LISTEN_PID and WATCHDOG_PID name the program if they named larder, also after a restart")
        func processIDs() throws {
            try AgentHome.with(starting: true) { home in
                try home.larder("set", "v", "1")
                let wrapper = [
                    "/bin/sh", "-c",
                    "export LISTEN_FDS=1 LISTEN_PIDFDID=1; LISTEN_PID=$$ WATCHDOG_PID=$$ exec \"$@\"", "sh",
                ]
                let program =
                    "echo $((LISTEN_PID - $$)) $((WATCHDOG_PID - $$)) ${LISTEN_PIDFDID-unset} $V; exec sleep 1000"
                let larder = try start(home, ["/bin/sh", "-c", program], wrapper: wrapper)
                #expect(try line(larder) == "0 0 unset 1")
                try home.larder("set", "v", "2")
                #expect(try line(larder) == "0 0 unset 2")
                try end(larder)
                let other = ["/bin/sh", "-c", "LISTEN_PID=1 WATCHDOG_PID=$$ exec \"$@\"", "sh"]
                let unrelated = try start(home, ["/bin/sh", "-c", "echo $LISTEN_PID"], wrapper: other)
                #expect(try line(unrelated) == "1")
                #expect(try unrelated.waitForEnd() == .exit(0))
            }
        }

        /// Starts a shell command on a terminal. Lines that are written to the process are typed there.
        private func onTerminal(_ home: AgentHome, _ command: String) throws -> ChildProcess {
            try ChildProcess(
                "script", ["-qec", command, "/dev/null"],
                environment: home.environment.merging(["PS1": "", "TERM": "dumb"]) { $1 }, directory: home.directory,
                input: true)
        }

        @Test("on a terminal, the program has the foreground, reads what is typed, and gets SIGINT once after Ctrl-C")
        func terminal() throws {
            try AgentHome.with(starting: true) { home in
                let program = """
                    import os, signal, sys
                    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
                    leads = os.getpgrp() == os.getpid() == os.tcgetpgrp(0)
                    print("leads", leads, os.getppid(), flush=True)
                    print("read", sys.stdin.readline().strip(), flush=True)
                    while signal.sigwait([signal.SIGINT, signal.SIGTERM]) == signal.SIGINT:
                        print("signal", int(signal.SIGINT), flush=True)
                    sys.exit(5)
                    """
                try home.write("program.py", program)
                let larder = "exec '\(try Products.commandLine)' exec --socket sock --watch --"
                let terminal = try onTerminal(home, larder + " /usr/bin/python3 program.py")
                let first = try line(terminal, with: "leads").replacing("\r", with: "").split(separator: " ")
                #expect(first[1] == "True")
                try terminal.write(Array("hello\n".utf8))
                _ = try line(terminal, with: "read hello")
                for _ in 0..<2 {
                    try terminal.write([0x03])
                    #expect(try line(terminal, with: "signal").contains("signal \(SIGINT)"))
                }
                kill(try require(pid_t(first[2]), "larder's process id"), SIGTERM)
                #expect(try terminal.waitForEnd() == .exit(5))
            }
        }

        @Test("Ctrl-Z stops larder and its program as one job, fg continues both, and the shell gets the terminal back")
        func jobControl() throws {
            try AgentHome.with(starting: true) { home in
                let terminal = try onTerminal(home, "bash --norc --noprofile -i")
                func type(_ text: String) throws { try terminal.write(Array(text.utf8)) }
                let larder = "'\(try Products.commandLine)' exec --socket sock --watch --"
                try type("\(larder) sh -c 'echo u\"\"p; read x; echo got $x; exit 7'\n")
                _ = try line(terminal, with: "up")
                try type("\u{1A}")
                _ = try line(terminal, with: "Stopped")
                try type("echo sh\"\"ell\n")
                _ = try line(terminal, with: "shell")
                try type("fg\n")
                _ = try line(terminal, with: "exec --socket")
                try type("hello\n")
                _ = try line(terminal, with: "got hello")
                try type("echo status $?\n")
                _ = try line(terminal, with: "status 7")
                try type("exit\n")
                _ = try terminal.waitForEnd()
            }
        }
    }
}
