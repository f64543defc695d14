import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("larder exec")
    struct ExecTests {
        /// Prints the variable LIMIT and each signal. Exits with status 3 after TERM. A handler would be called too late for
        /// a signal that arrives just before `signal.pause()`.
        private static let program = """
            import os, signal, sys
            def say(*words): print(*words, flush=True)
            numbers = [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]
            signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
            say("limit", os.environ.get("LIMIT"))
            while (number := signal.sigwait(numbers)) != signal.SIGTERM: say("signal", int(number))
            say("term")
            sys.exit(3)
            """

        private func start(
            _ home: AgentHome, _ options: [String], program: [String] = ["/usr/bin/python3", "-c", Self.program]
        ) throws -> ChildProcess {
            try ChildProcess(
                Products.commandLine, ["exec", "--socket", home.socket] + options + ["--"] + program,
                environment: home.environment, directory: home.directory)
        }

        private func larder(_ home: AgentHome, _ arguments: String...) throws -> Command {
            try Command.run(
                Products.commandLine, arguments + ["--socket", home.socket], environment: home.environment,
                directory: home.directory)
        }

        private func run(_ home: AgentHome, _ options: [String], _ program: [String]) throws -> Command {
            try Command.run(
                Products.commandLine, ["exec", "--socket", home.socket] + options + ["--"] + program,
                environment: home.environment.merging(["KEPT": "kept", "APP_LIMIT": "own"]) { $1 },
                directory: home.directory)
        }

        private func line(_ process: ChildProcess) throws -> String {
            let line = try process.output.line(until: .usual, "a line from the program; the log:\n\(process.logText)")
            return String(decoding: try require(line, "line; the log:\n\(process.logText)"), as: UTF8.self)
        }

        @Test("exec --watch and render --watch say that they wait for the first snapshot")
        func waiting() throws {
            // No server listens at port 1.
            let source = "{ http: { url: 'http://127.0.0.1:1/a.json' } }"
            try AgentHome.with(settings: "{ namespaces: { shop: { remote: \(source) } } }") { home in
                _ = try home.start()
                for arguments in [
                    ["exec", "--watch", "-n", "shop", "--", "true"], ["render", "--watch", "--json", "-n", "shop"],
                ] {
                    let larder = try ChildProcess(
                        Products.commandLine, arguments, environment: home.clientEnvironment)
                    try larder.waitForLog("larder: waiting for the first snapshot of namespace \"shop\"")
                    larder.signal(SIGTERM)
                    _ = try larder.finish()
                }
            }
        }

        @Test("without --watch, larder becomes the program and adds the configuration to its environment")
        func environment() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, "set", "search", #"{"limit": 20, "hosts": ["a", "b"]}"#)
                let program = try start(
                    home, ["--path", "search", "--prefix", "APP_"],
                    program: ["/bin/sh", "-c", "echo $$ $APP_LIMIT $APP_HOSTS"])
                #expect(try line(program) == #"\#(program.pid) 20 ["a","b"]"#)
                #expect(try program.waitForEnd() == .exit(0))
                let kept = try run(home, ["--path", "search", "--prefix", "APP_"], ["/usr/bin/env"])
                #expect(kept.output.filter { $0.hasPrefix("APP_LIMIT=") } == ["APP_LIMIT=20"])
                #expect(kept.output.contains("KEPT=kept"))
                #expect(kept.output.allSatisfy { !$0.hasPrefix("LIMIT=") })
            }
        }

        @Test(
            "the program inherits the descriptors that larder was started with, and no others",
            arguments: [[], ["--watch"]])
        func descriptors(options: [String]) throws {
            try AgentHome.with { home in
                _ = try home.start()
                // `test -e` omits the descriptor that the shell opens to expand `*`, because that descriptor is closed
                // by then.
                let listDescriptors = ["/bin/sh", "-c", "cd /proc/$$/fd; for n in *; do test -e $n && echo $n; done"]
                let found = try Command.run(
                    "/bin/sh",
                    [
                        "-c", "exec 7</dev/null; exec \"$@\"", "sh", Products.commandLine, "exec", "--socket",
                        home.socket,
                    ] + options + ["--"] + listDescriptors)
                #expect(found.output == ["0", "1", "2", "7"])
            }
        }

        @Test(
            "the program blocks and ignores only the signals that larder was started with",
            arguments: [[], ["--watch"]])
        func signalState(options: [String]) throws {
            try AgentHome.with { home in
                _ = try home.start()
                let printStatus = ["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]
                #expect(try Self.signals(run(home, options, printStatus)) == [0, 0])
                // SIGHUP stays ignored if larder runs under nohup(1).
                let ignoring = try Command.run(
                    "/bin/sh",
                    ["-c", "trap '' HUP; exec \"$@\"", "sh", Products.commandLine, "exec", "--socket", home.socket]
                        + options + ["--"] + printStatus)
                #expect(Self.signals(ignoring) == [0, 1])
            }
        }

        /// The sets of blocked and ignored signals as in proc(5), without the internal signals of the C library, which
        /// posix_spawn(3) leaves ignored.
        private static func signals(_ command: Command) -> [UInt64?] {
            command.output.map { line in
                line.split(separator: "\t").last.flatMap { UInt64($0, radix: 16) }.map { $0 & 0x7FFF_FFFF }
            }
        }

        @Test("the exit status is that of the program, 128 plus its signal, or 126 or 127 if it did not run")
        func statuses() throws {
            try AgentHome.with { home in
                _ = try home.start()
                for options in [[], ["--watch"]] {
                    #expect(try run(home, options, ["/bin/sh", "-c", "exit 7"]).end == .exit(7))
                    #expect(try run(home, options, ["no-such-program"]).end == .exit(127))
                    #expect(try run(home, options, ["/etc/passwd"]).end == .exit(126))
                }
                #expect(try run(home, ["--watch"], ["/bin/sh", "-c", "kill -TERM $$"]).end == .exit(143))
                #expect(try run(home, ["--watch"], ["/bin/sh", "-c", "kill -INT $$"]).end == .signal(SIGINT))
                #expect(try run(home, [], ["/bin/sh", "-c", "kill -TERM $$"]).end == .signal(SIGTERM))
                #expect(try run(home, ["--path", "nope"], ["/bin/true"]).end == .exit(3))
                #expect(try run(home, ["--watch", "--path", "nope"], ["/bin/true"]).end == .exit(3))
                _ = try larder(home, "set", "a", #"{"b-c": 1, "b_c": 2}"#)
                let collision = try run(home, ["--watch"], ["/bin/true"])
                #expect(collision.end == .exit(1))
                #expect(collision.log.contains("A_B_C"))
            }
        }

        @Test("with --watch, a change restarts the program only if the variables of the program change")
        func restart() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, "set", "search.limit", "1")
                let larder = try start(home, ["--watch", "--path", "search", "--interval", "10ms"])
                #expect(try line(larder) == "limit 1")
                for limit in 2...3 {
                    _ = try self.larder(home, "set", "elsewhere", "\(limit)")
                    _ = try self.larder(home, "set", "search.none", "{}")
                    _ = try self.larder(home, "set", "search.limit", "\(limit)")
                    #expect(try line(larder) == "term")
                    #expect(try line(larder) == "limit \(limit)")
                }
                larder.signal(SIGTERM)
                #expect(try line(larder) == "term")
                #expect(try larder.waitForEnd() == .exit(3))
            }
        }

        @Test("with --signal, a change sends the signal and the program keeps running")
        func signal() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, "set", "limit", "1")
                let larder = try start(home, ["--watch", "--signal", "HUP", "--interval", "10ms"])
                #expect(try line(larder) == "limit 1")
                for limit in 2...3 {
                    _ = try self.larder(home, "set", "limit", "\(limit)")
                    #expect(try line(larder) == "signal \(SIGHUP)")
                }
                larder.signal(SIGUSR1)
                #expect(try line(larder) == "signal \(SIGUSR1)")
                larder.signal(SIGHUP)
                #expect(try line(larder) == "signal \(SIGHUP)")
                larder.signal(SIGTERM)
                #expect(try line(larder) == "term")
                #expect(try larder.waitForEnd() == .exit(3))
            }
        }

        @Test("a restart of the agent does not restart the program, and the next change restarts it")
        func agentRestart() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                _ = try larder(home, "set", "limit", "1")
                let larder = try start(home, ["--watch", "--interval", "10ms"])
                #expect(try line(larder) == "limit 1")
                #expect(try agent.stop() == .exit(0))
                try larder.waitForLog("reconnecting")
                _ = try home.start()
                _ = try self.larder(home, "set", "limit", "2")
                #expect(try line(larder) == "term")
                #expect(try line(larder) == "limit 2")
                larder.signal(SIGTERM)
                #expect(try line(larder) == "term")
                #expect(try larder.waitForEnd() == .exit(3))
            }
        }

        @Test("exec and render with --watch continue when a namespace that was removed from the settings returns")
        func namespaceRemoved() throws {
            try AgentHome.with(settings: "{namespaces: {default: {}, x: {}}}") { home in
                let agent = try home.start()
                func set(_ limit: String) throws { _ = try self.larder(home, "set", "limit", limit, "-n", "x") }
                try set("1")
                let larder = try start(home, ["--watch", "-n", "x", "--interval", "10ms"])
                #expect(try line(larder) == "limit 1")
                let renderer = try ChildProcess(
                    Products.commandLine,
                    ["render", "--json", "x.json", "--exec", "cat {}", "--watch", "-n", "x", "--socket", home.socket],
                    environment: home.environment, directory: home.directory)
                try renderer.waitForLog(": 1")
                try home.write(settings: "{namespaces: {default: {}}}")
                try agent.reload()
                for process in [larder, renderer] {
                    try process.waitForLog("was removed from the settings; retrying until it is back")
                }
                try home.write(settings: "{namespaces: {default: {}, x: {}}}")
                try agent.reload()
                try set("2")
                #expect(try line(larder) == "term")
                // The program may first start with the value that the returned namespace had before this `set`.
                while try line(larder) != "limit 2" {}
                try renderer.waitForLog(": 2")
                renderer.signal(SIGTERM)
                #expect(try renderer.waitForEnd() == .signal(SIGTERM))
                larder.signal(SIGTERM)
                #expect(try line(larder) == "term")
                #expect(try larder.waitForEnd() == .exit(3))
                #expect(try run(home, ["--watch", "-n", "none"], ["/bin/true"]).end == .exit(3))
            }
        }

        @Test("a snapshot is acknowledged only once the program runs with it")
        func acknowledged() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, "set", "limit", "1")
                // This program prints a line when it gets TERM from larder, and exits only after it has read a line
                // from standard input.
                let program = Self.program.replacing(
                    "say(\"term\")", with: "say(\"asked\")\nsys.stdin.readline()\nsay(\"term\")")
                let larder = try ChildProcess(
                    Products.commandLine,
                    ["exec", "--socket", home.socket, "--watch", "--interval", "10ms", "--"]
                        + ["/usr/bin/python3", "-c", program],
                    environment: home.environment, directory: home.directory, input: true)
                #expect(try line(larder) == "limit 1")
                func revision() throws -> Int {
                    let text = try self.larder(home, "get", "--json").output.joined()
                    return try require(JSONValue(parsing: text)["revision"]?.int, "revision")
                }
                func acknowledgedRevision() throws -> Int? {
                    let text = try self.larder(home, "clients", "--json").output.joined()
                    let clients = try require(JSONValue(parsing: text)["clients"], "clients")
                    return clients.elements.compactMap { $0["acknowledged"]?[0]?["revision"]?.int }.first
                }
                let first = try revision()
                while try acknowledgedRevision() != first {}
                _ = try self.larder(home, "set", "limit", "2")
                #expect(try line(larder) == "asked")
                #expect(try acknowledgedRevision() == first)
                try larder.write(Array("\n".utf8))
                #expect(try line(larder) == "term")
                #expect(try line(larder) == "limit 2")
                let second = try revision()
                #expect(second > first)
                while try acknowledgedRevision() != second {}
                larder.signal(SIGTERM)
                #expect(try line(larder) == "asked")
                try larder.write(Array("\n".utf8))
                #expect(try line(larder) == "term")
                #expect(try larder.waitForEnd() == .exit(3))
            }
        }

        @Test("a document that cannot be mapped to environment variables is reported, and the program keeps running")
        func unusable() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, "set", "limit", "1")
                let larder = try start(home, ["--watch", "--interval", "10ms"])
                #expect(try line(larder) == "limit 1")
                _ = try self.larder(home, "set", "Limit", "2")
                try larder.waitForLog("would both become the variable LIMIT")
                _ = try self.larder(home, "unset", "Limit")
                _ = try self.larder(home, "set", "limit", "3")
                #expect(try line(larder) == "term")
                #expect(try line(larder) == "limit 3")
                larder.signal(SIGTERM)
                #expect(try line(larder) == "term")
                #expect(try larder.waitForEnd() == .exit(3))
            }
        }

        @Test("a program that does not exit in time is killed with its process group and started again")
        func stubborn() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, "set", "limit", "1")
                // The child inherits standard output. If the child survived, the wait for the end of the output would
                // time out.
                let program = """
                    import os, signal
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    leads = os.getpgrp() == os.getpid()
                    if os.environ["LIMIT"] == "2": os._exit(9)
                    child = os.fork()
                    if child > 0: print("leads", leads, flush=True)
                    while True: signal.pause()
                    """
                let larder = try start(
                    home, ["--watch", "--interval", "10ms", "--kill-after", "100ms"],
                    program: ["/usr/bin/python3", "-c", program])
                #expect(try line(larder) == "leads True")
                _ = try self.larder(home, "set", "limit", "2")
                #expect(try larder.waitForEnd() == .exit(9))
                #expect(try larder.output.line(until: .usual, "the end of the output") == nil)
            }
        }

        @Test(
            "libdispatch changes neither the environment variables nor the priority of the program",
            arguments: [[], ["--watch"]])
        func dispatchTraces(options: [String]) throws {
            try AgentHome.with(starting: true) { home in
                try home.larder("set", "a", "1")
                let program = ["sh", "-c", "echo \"${LIBDISPATCH_LOG-unset} $(nice)\""]
                for (variable, expected): (String?, String) in [(nil, "unset"), ("stderr", "stderr")] {
                    var environment = home.clientEnvironment
                    environment["LIBDISPATCH_LOG"] = variable
                    let end = try Command.run(
                        Products.commandLine, ["exec"] + options + ["--"] + program, environment: environment)
                    let priority = try Command.run("nice", []).text
                    #expect(end.text == "\(expected) \(priority)", "\(end)")
                }
            }
        }

        @Test("if threads cannot change their priority, libdispatch does not log", .needsMount)
        func silentDispatch() throws {
            let end: Command = try AgentHome.with(starting: true) { home in
                try home.larder("set", "a", "1")
                // Mounts a private /dev with a log socket that this program reads, and installs a seccomp filter that
                // forbids setpriority(2).
                let program = """
                    import ctypes, os, socket, struct, subprocess, sys
                    libc = ctypes.CDLL(None, use_errno=True)
                    def call(result):
                        if result != 0: sys.exit("not possible here: " + os.strerror(ctypes.get_errno()))
                    call(libc.unshare(0x20000))
                    call(libc.mount(b"none", b"/", None, 0x44000, None))
                    null = os.open("/dev/null", os.O_RDWR)
                    call(libc.mount(b"tmpfs", b"/dev", b"tmpfs", 0, None))
                    os.symlink("/proc/self/fd/%d" % null, "/dev/null")
                    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    log.bind("/dev/log")
                    log.setblocking(False)
                    number = {"x86_64": 141, "aarch64": 140}[os.uname().machine]
                    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
                    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
                    filter = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
                    call(libc.prctl(38, 1, 0, 0, 0))
                    call(libc.prctl(22, 2, ctypes.c_char_p(filter), 0, 0))
                    subprocess.run(sys.argv[1:], check=True)
                    try: print(log.recv(4096))
                    except BlockingIOError: print("silent")
                    """
                return try Command.run(
                    "python3", ["-c", program, try Products.commandLine, "exec", "--", "/bin/true"],
                    environment: home.clientEnvironment)
            }
            #expect(end.text == "silent\n", "\(end)")
        }
    }
}
