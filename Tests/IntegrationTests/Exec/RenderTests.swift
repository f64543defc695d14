import Foundation
import TestSupport
import Testing

extension Integration {
    @Suite("larder render")
    struct RenderTests {
        func larder(_ home: AgentHome, _ arguments: [String]) throws -> Command {
            try Command.run(
                Products.commandLine, arguments + ["--socket", home.socket], environment: home.environment,
                directory: home.directory)
        }

        func text(_ home: AgentHome, _ name: String) throws -> String {
            try String(contentsOfFile: home.directory + "/" + name, encoding: .utf8)
        }

        func status(_ home: AgentHome, _ name: String) throws -> stat {
            var status = stat()
            guard lstat(home.directory + "/" + name, &status) == 0 else { throw HarnessError.system("lstat") }
            return status
        }

        func names(_ home: AgentHome) throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: home.directory).filter { $0.contains("app") }.sorted()
        }

        @Test(
            "a new file has mode 0640; an existing file is replaced atomically, and its mode and a link to it are kept")
        func replacing() throws {
            try AgentHome.with { home in
                _ = try home.start()
                try home.write("t", "limit = {{search.limit}}\n")
                _ = try larder(home, ["set", "search.limit", "20"])
                #expect(try larder(home, ["render", "t", "app.conf"]).end == .exit(0))
                #expect(try text(home, "app.conf") == "limit = 20\n")
                #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o640)
                chmod(home.directory + "/app.conf", 0o604)
                symlink("app.conf", home.directory + "/app.link")
                let inode = try status(home, "app.conf").st_ino
                _ = try larder(home, ["set", "search.limit", "21"])
                #expect(try larder(home, ["render", "t", "app.link"]).end == .exit(0))
                #expect(try text(home, "app.conf") == "limit = 21\n")
                #expect(try status(home, "app.link").st_mode & S_IFMT == S_IFLNK)
                #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o604)
                #expect(try status(home, "app.conf").st_ino != inode)
                #expect(try names(home) == ["app.conf", "app.link"])
                let before = try status(home, "app.conf").st_ino
                #expect(try larder(home, ["render", "t", "app.conf"]).end == .exit(0))
                #expect(try status(home, "app.conf").st_ino == before, "an unchanged file was replaced")
            }
        }

        @Test("the new file has its final mode and owner when it is checked, before it is installed")
        func check() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "{{a}}\n")
                let script = "stat -c '%a %u %g' {} >seen; cat \"$LARDER_FILE\" >>seen; test ! -e \"it's app.conf\""
                let owner = geteuid() == 0 ? ["--owner", "12345:54321"] : []
                let rendered = try larder(
                    home, ["render", "t", "it's app.conf", "--mode", "0604", "--check", script] + owner)
                #expect(rendered.end == .exit(0), "\(rendered.log)")
                let ids = geteuid() == 0 ? "12345 54321" : "\(geteuid()) \(getegid())"
                #expect(try text(home, "seen") == "604 \(ids)\n1\n")
                #expect(try names(home) == ["it's app.conf"])
            }
        }

        @Test("a check and a command can execute the new file")
        func executable() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "#!/bin/sh\necho {{a}} >>ran\n")
                let rendered = try larder(
                    home, ["render", "t", "app.sh", "--mode", "755", "--check", "{}", "--exec", "./app.sh"])
                #expect(rendered.end == .exit(0), "\(rendered.log)")
                #expect(try text(home, "ran") == "1\n1\n")
                #expect(try names(home) == ["app.sh"])
            }
        }

        @Test("a failed check is reported, keeps the old file, and leaves no other file")
        func failedCheck() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "{{a}}\n")
                try home.write("app.conf", "old")
                let refused = try larder(
                    home,
                    ["render", "t", "app.conf", "--check", "echo line 7 of {} is bad; exit 9", "--exec", "touch done"])
                #expect(refused.end == .exit(7))
                #expect(refused.output.isEmpty)
                #expect(refused.log.contains("is bad"))
                #expect(refused.log.contains("larder: the check failed with exit status 9; app.conf is unchanged"))
                #expect(try text(home, "app.conf") == "old")
                #expect(!home.exists(home.directory + "/done"))
                #expect(try names(home) == ["app.conf"])
            }
        }

        @Test("--exec runs only if the content of the file has changed")
        func exec() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "{{a}}\n")
                let arguments = ["render", "t", "app.conf", "--exec", "echo {} >>done"]
                for (value, count) in [("1", 1), ("1", 1), ("2", 2)] {
                    _ = try larder(home, ["set", "a", value])
                    #expect(try larder(home, arguments).end == .exit(0))
                    #expect(try text(home, "done").split(separator: "\n").count == count)
                }
                #expect(try larder(home, arguments + ["--mode", "600"]).end == .exit(0))
                #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o600)
                #expect(try text(home, "done").split(separator: "\n").count == 2, "a change of the mode ran --exec")
            }
        }

        @Test(
            "if two calls write one file, the content from the newer snapshot stays, even if the older call ends last")
        func concurrent() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "{{a}}\n")
                // While the first call runs its check, the configuration changes and a second call writes the file.
                let program = "'\(try Products.commandLine)' --socket '\(home.socket)'"
                let (set, render) = (
                    program.replacing(" --socket", with: " set a 2 --socket"),
                    program.replacing(" --socket", with: " render t app.conf --socket")
                )
                let rendered = try larder(
                    home,
                    [
                        "render", "t", "app.conf", "--check",
                        "test -e once || { touch once; \(set) && \(render); } # {}",
                    ])
                #expect(rendered.end == .exit(0), "\(rendered.log)")
                #expect(try text(home, "app.conf") == "2\n")
                #expect(try names(home) == ["app.conf"])
            }
        }

        @Test(
            "a signal during the check ends the check and larder, and leaves no new file",
            arguments: [SIGTERM, SIGINT, SIGHUP])
        func signaled(number: CInt) throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "{{a}}\n")
                let check = "exec python3 -c 'import signal; print(\"waits\", flush=True); signal.pause()' {}"
                let larder = try ChildProcess(
                    Products.commandLine, ["render", "t", "app.conf", "--check", check, "--socket", home.socket],
                    environment: home.environment, directory: home.directory)
                try larder.waitForLog("waits")
                #expect(try names(home).count == 1)
                larder.signal(number)
                #expect(try larder.waitForEnd() == .signal(number))
                #expect(try names(home) == [])
            }
        }

        @Test("with --watch, a failed command is repeated until it succeeds")
        func retry() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("t", "{{a}}\n")
                try home.write("ready", "")
                let larder = try ChildProcess(
                    Products.commandLine,
                    [
                        "render", "t", "app.conf", "--watch", "--exec", "test -e ready && cat {}", "--socket",
                        home.socket,
                    ],
                    environment: home.environment, directory: home.directory)
                try larder.waitForLog("1")
                unlink(home.directory + "/ready")
                _ = try self.larder(home, ["set", "a", "22"])
                try larder.waitForLog(
                    "the command after the change failed with exit status 1; the previous app.conf has been restored")
                try home.write("ready", "")
                try larder.waitForLog("the command that runs when app.conf changes has succeeded")
                #expect(larder.log.contains("22"))
                #expect(try text(home, "app.conf") == "22\n")
                larder.signal(SIGTERM)
                #expect(try larder.waitForEnd() == .signal(SIGTERM))
            }
        }

        @Test("--json and --env print the configuration without a template, or write it to a file")
        func whole() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "search", #"{"limit": 20, "name": "a b"}"#])
                #expect(
                    try larder(home, ["render", "--json", "--path", "search"]).output == [
                        "{", "  \"limit\": 20,", "  \"name\": \"a b\"", "}",
                    ])
                #expect(
                    try larder(home, ["render", "--env", "--prefix", "APP_"]).output == [
                        "APP_SEARCH_LIMIT=20", "APP_SEARCH_NAME=\"a b\"",
                    ])
                #expect(try larder(home, ["render", "--env", "app.env"]).end == .exit(0))
                #expect(try text(home, "app.env") == "SEARCH_LIMIT=20\nSEARCH_NAME=\"a b\"\n")
            }
        }

        @Test("a failure to render is reported in one line and changes nothing")
        func failures() throws {
            try AgentHome.with { home in
                _ = try home.start()
                _ = try larder(home, ["set", "a", "1"])
                try home.write("app.conf", "old")
                try home.write("missing", "{{b.c}}")
                try home.write("slip", "\n{{#a}}")
                try home.write("good", "{{a}}")
                try home.makeDirectory("directory")
                symlink("no-such-file", home.directory + "/link")
                for (arguments, status, text): ([String], CInt, String) in [
                    (["missing", "app.conf"], 3, "no value at b.c"), (["slip", "app.conf"], 2, "slip:2:7: "),
                    (["none", "app.conf"], 1, "cannot read none"), (["good", "directory"], 2, "not a regular file"),
                    (["good", "link"], 2, "link is a symbolic link to a file that does not exist"),
                    (["good", "none/app.conf"], 1, "none/app.conf"), (["good"], 2, "name the template"),
                    (["good", "app.conf", "--owner", "no-such-user"], 2, "no user"),
                    (["good", "app.conf", "--path", "b"], 3, #"no value at "b""#),
                    (["good", "-", "--mode", "0600"], 2, "name the output"),
                    (["--json", "--env"], 2, "exclude"), (["good", "app.conf", "--prefix", "A"], 2, "--env"),
                ] {
                    let end = try larder(home, ["render"] + arguments)
                    #expect(end.end == .exit(status), "\(arguments): \(end.log)")
                    #expect(end.log.contains(text) && end.log.split(separator: "\n").count == 1, "\(end.log)")
                }
                #expect(try self.text(home, "app.conf") == "old")
                #expect(try names(home) == ["app.conf"])
            }
        }

        @Test("with --watch, every change is rendered, even after a change that could not be rendered")
        func watch() throws {
            try AgentHome.with { home in
                let agent = try home.start()
                // The values are words, because a number could also match another line of the log.
                _ = try larder(home, ["set", "a", "one"])
                try home.write("t", "{{a}}\n")
                let larder = try ChildProcess(
                    Products.commandLine,
                    [
                        "render", "t", "app.conf", "--watch", "--check", "! grep -q 3 {}", "--exec",
                        "echo done; cat {}",
                        "--socket", home.socket,
                    ],
                    environment: home.environment, directory: home.directory)
                try larder.waitForLog("one")
                _ = try self.larder(home, ["set", "a", "two"])
                try larder.waitForLog("two")
                _ = try self.larder(home, ["set", "a", "3"])
                try larder.waitForLog("the check failed with exit status 1; app.conf is unchanged")
                _ = try self.larder(home, ["unset", "a"])
                try larder.waitForLog("no value at a;")
                #expect(try text(home, "app.conf") == "two\n")
                #expect(try agent.stop() == .exit(0))
                try larder.waitForLog("reconnecting")
                _ = try home.start()
                _ = try self.larder(home, ["set", "a", "forty-four"])
                try larder.waitForLog("forty-four")
                #expect(try text(home, "app.conf") == "forty-four\n")
                larder.signal(SIGTERM)
                #expect(try larder.waitForEnd() == .signal(SIGTERM))
                #expect(larder.log.count { $0 == "done" } == 3)
            }
        }
    }
}
