import Foundation
import TestSupport
import Testing

@testable import LarderCommand

/// A home with an agent whose value `a` is 1, and a template that contains only this value.
private struct RenderFixture {
    private let home: AgentHome
    private let tests = Integration.RenderTests()

    /// - Parameter previous: the content of `app.conf` before the test; nil for no file
    static func with(previous: String? = nil, _ body: (RenderFixture) throws -> Void) throws {
        try AgentHome.with(starting: true) { home in
            let fixture = RenderFixture(home: home)
            try fixture.set("1")
            try fixture.write("t", "{{a}}\n")
            if let previous { try fixture.write("app.conf", previous) }
            try body(fixture)
        }
    }

    private init(home: AgentHome) { self.home = home }

    func set(_ value: String) throws { _ = try tests.larder(home, ["set", "a", value]) }

    /// Renders the template to `app.conf`, and waits until larder exits.
    func render(_ options: String...) throws -> Command { try render(options) }

    func render(_ options: [String]) throws -> Command {
        try tests.larder(home, ["render", "t", "app.conf"] + options)
    }

    /// Starts to render the template to `app.conf`, and waits until larder has logged `line`.
    func startRender(_ options: [String], waitingFor line: String) throws -> ChildProcess {
        let larder = try ChildProcess(
            Products.commandLine, ["render", "t", "app.conf"] + options + ["--socket", home.socket],
            environment: home.environment, directory: home.directory)
        try larder.waitForLog(line)
        return larder
    }

    /// Runs larder with a check that kills larder, so that the new file stays installed and unchecked.
    func killInPlace() throws {
        let killed = try render("--check", "kill -9 $PPID", "--check-in-place")
        #expect(killed.end == .signal(SIGKILL))
        #expect(try file() == "1\n")
    }

    // MARK: Files

    var directory: String { home.directory }
    func path(_ name: String) -> String { home.directory + "/" + name }
    func write(_ name: String, _ text: String) throws { try home.write(name, text) }
    func exists(_ name: String) -> Bool { home.exists(path(name)) }

    /// The content of `app.conf`.
    func file() throws -> String { try tests.text(home, "app.conf") }
    /// The status of `app.conf`.
    func status() throws -> stat { try tests.status(home, "app.conf") }
    /// The names of the rendered file and of hidden files beside it.
    func names() throws -> [String] { try tests.names(home) }

    /// Removes the copies of the previous `app.conf` that larder keeps in the same directory.
    func removeCopies() throws {
        for name in try names() where name.hasPrefix(".app.larder-") { unlink(path(name)) }
    }

    func makeFIFO(_ name: String) { mkfifo(path(name), 0o600) }

    /// Makes the readers of a FIFO reach the end of the file, and removes the FIFO.
    func removeFIFO(_ name: String) {
        close(open(path(name), O_RDWR | O_CLOEXEC))
        unlink(path(name))
    }
}

/// Tests of `larder render` with a check or a command that fails.
extension Integration.RenderTests {
    @Test("if the command of --exec fails, larder restores the previous file, and the next call runs the command again")
    func failedExec() throws {
        try RenderFixture.with { fixture in
            let first = try fixture.render("--exec", "cat {}; false")
            #expect(first.end == .exit(1))
            #expect(
                first.log
                    == "1\nlarder: the command after the change failed with exit status 1; app.conf has been removed, because it did not exist before"
            )
            #expect(try fixture.names() == [])
            try fixture.write("app.conf", "old")
            chmod(fixture.path("app.conf"), 0o604)
            for _ in 0..<2 {
                let failed = try fixture.render("--mode", "600", "--exec", "cat {} >&2; exit 7")
                #expect(failed.end == .exit(1))
                #expect(
                    failed.log
                        == "1\nlarder: the command after the change failed with exit status 7; the previous app.conf has been restored"
                )
                #expect(try fixture.file() == "old")
                #expect(try fixture.status().st_mode & 0o7777 == 0o604)
                #expect(try fixture.names() == ["app.conf"])
            }
            #expect(try fixture.render("--exec", "true").end == .exit(0))
            #expect(try fixture.file() == "1\n")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test(
        "if --exec fails after another process installed a file, that file is kept; the previous file is not restored"
    )
    func supersededExec() throws {
        try RenderFixture.with(previous: "old") { fixture in
            let failed = try fixture.render("--exec", "echo other >n; mv n {}; false")
            #expect(failed.end == .exit(1))
            #expect(failed.log.hasSuffix("another process has replaced app.conf"), "\(failed.log)")
            #expect(try fixture.file() == "other\n")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test("a --check command that does not name the new file is rejected, because it would check the old file")
    func blindCheck() throws {
        try AgentHome.with { home in
            try home.write("t", "{{a}}\n")
            for check in ["nginx -t", "awk '{} {print}' x", "test --file={}", "echo \"in {} quotes\""] {
                let refused = try larder(home, ["render", "t", "app.conf", "--check", check])
                #expect(refused.end == .exit(2), "\(check)")
                #expect(refused.log.contains("does not name the new file"), "\(refused.log)")
                #expect(refused.log.contains("--check-in-place"))
            }
            let alone = try larder(home, ["render", "t", "app.conf", "--check-in-place"])
            #expect(alone.end == .exit(2))
            #expect(alone.log.contains("add --check"))
        }
    }

    @Test("{} in a command is replaced only if it is a separate word, quoted or not")
    func placeholders() {
        for (text, script): (String, String) in [
            ("cat {}", "cat 'a b'"), ("cat {}; cat '{}' \"{}\"|cat", "cat 'a b'; cat 'a b' 'a b'|cat"),
            ("(cat<{}>{})", "(cat<'a b'>'a b')"), ("awk '{} {print}' {}", "awk '{} {print}' 'a b'"),
            ("x={} y{} {}z \\{} {\\} \"{} \"", "x={} y{} {}z \\{} {\\} \"{} \""),
            ("{}", "'a b'"), ("", ""), ("\\", "\\"), ("'{}", "'{}"),
        ] {
            #expect(ShellCommand(text: text).script(for: "a b") == script)
        }
        #expect(ShellCommand(text: "cat {}").script(for: "it's") == "cat 'it'\\''s'")
        #expect(ShellCommand(text: "sh -c 'cat \"$LARDER_FILE\"'").namesFile)
    }

    @Test("--check-in-place checks the installed file, and restores the previous one after a failure")
    func checkInPlace() throws {
        try RenderFixture.with { fixture in
            let check = ["--check-in-place", "--check", "! grep -q bad app.conf"]
            #expect(try fixture.render(check + ["--exec", "touch done"]).end == .exit(0))
            try fixture.set("bad")
            unlink(fixture.path("done"))
            let refused = try fixture.render(check + ["--exec", "touch done"])
            #expect(refused.end == .exit(7))
            #expect(
                refused.log == "larder: the check failed with exit status 1; the previous app.conf has been restored")
            #expect(try fixture.file() == "1\n")
            #expect(!fixture.exists("done"))
            #expect(try fixture.names() == ["app.conf"])
            // A file that the user has installed without a check is replaced.
            try fixture.write("app.conf", "bad")
            try fixture.set("2")
            #expect(try fixture.render(check).end == .exit(0))
            #expect(try fixture.file() == "2\n")
        }
    }

    @Test("readers see either the whole old or the whole new file while rejected files are installed and removed")
    func atomicForReaders() throws {
        try RenderFixture.with { fixture in
            try fixture.write("t", "{{a}}")
            let (old, new) = (String(repeating: "o", count: 50_000), String(repeating: "n", count: 70_000))
            try fixture.write("app.conf", old)
            try fixture.set(new)
            fixture.makeFIFO("seen")
            // Each check ends when this reader has seen the new file.
            let reader = try ChildProcess(
                "python3",
                [
                    "-c",
                    """
                    import os
                    contents = set()
                    print("reads", flush=True)
                    while not os.path.exists("enough"):
                        with open("app.conf") as file: text = file.read()
                        contents.add((text[:1], len(text)))
                        if text[:1] == "n":
                            try: os.close(os.open("seen", os.O_WRONLY | os.O_NONBLOCK))
                            except OSError: pass
                    print(sorted(contents), flush=True)
                    """,
                ], directory: fixture.directory)
            #expect(try reader.line() == "reads")
            for _ in 0..<10 {
                let refused = try fixture.render("--check", "cat seen; false", "--check-in-place")
                #expect(refused.end == .exit(7))
            }
            try fixture.write("enough", "")
            #expect(try reader.line() == "[('n', 70000), ('o', 50000)]")
        }
    }

    @Test(
        "if a signal ends larder before the check or command has succeeded, larder restores the previous file",
        arguments: ["exec", "check"])
    func signaledInPlace(step: String) throws {
        try RenderFixture.with(previous: "old") { fixture in
            let command = "exec python3 -c 'import signal; print(\"waits\", flush=True); signal.pause()'"
            let larder = try fixture.startRender(
                ["--\(step)", command] + (step == "check" ? ["--check-in-place"] : []), waitingFor: "waits")
            #expect(try fixture.file() == "1\n")
            larder.signal(SIGTERM)
            #expect(try larder.waitForEnd() == .signal(SIGTERM))
            #expect(try fixture.file() == "old")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test(
        "an installed file that was not checked because larder was killed is checked by the next call",
        arguments: ["check", "exec"], [true, false])
    func killedInPlace(step: String, hasPrevious: Bool) throws {
        try RenderFixture.with(previous: hasPrevious ? "old" : nil) { fixture in
            fixture.makeFIFO("wait")
            let options = step == "check" ? ["--check-in-place"] : []
            let larder = try fixture.startRender(
                options + ["--\(step)", "echo waits; exec cat wait"], waitingFor: "waits")
            // Another call does not check the file while the first call is still checking it.
            #expect(try fixture.render().end == .exit(0))
            #expect(try fixture.file() == "1\n")
            larder.kill()
            fixture.removeFIFO("wait")
            #expect(try fixture.file() == "1\n")

            let refused = try fixture.render(options + ["--\(step)", "touch ran; false"])
            #expect(refused.end == .exit(step == "check" ? 7 : 1))
            #expect(refused.log.contains("was killed before it had checked app.conf"), "\(refused.log)")
            #expect(fixture.exists("ran"))
            #expect(try fixture.names() == (hasPrevious ? ["app.conf"] : []))
            if hasPrevious { #expect(try fixture.file() == "old") }
            #expect(try fixture.render(options + ["--\(step)", "true"]).end == .exit(0))
            #expect(try fixture.file() == "1\n")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test(
        "after larder was killed, a file that the user has replaced is kept; the copy from before the kill is not restored"
    )
    func replacedAfterKill() throws {
        try RenderFixture.with(previous: "old") { fixture in
            fixture.makeFIFO("wait")
            let larder = try fixture.startRender(["--exec", "echo waits; exec cat wait"], waitingFor: "waits")
            larder.kill()
            fixture.removeFIFO("wait")
            try fixture.write("app.conf", "mine")
            let refused = try fixture.render("--exec", "false")
            #expect(refused.log.hasSuffix("the previous app.conf has been restored"), "\(refused.log)")
            #expect(try fixture.file() == "mine")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test("if the copy of the previous file is missing, each call checks the unchecked file until a check succeeds")
    func missingCopy() throws {
        try RenderFixture.with(previous: "old") { fixture in
            try fixture.killInPlace()
            try fixture.removeCopies()
            let options = ["--check-in-place", "--check"]
            for _ in 0..<2 {
                let refused = try fixture.render(options + ["false"])
                #expect(refused.end == .exit(7))
                #expect(refused.log.contains("the previous file is missing"), "\(refused.log)")
                #expect(refused.log.hasSuffix("the check failed with exit status 1; app.conf is unchanged"))
                #expect(try fixture.names() == [".app.conf.larder-unconfirmed", "app.conf"])
            }
            // If a new file also fails its check, the unchecked file is restored and stays unchecked.
            try fixture.set("2")
            #expect(try fixture.render(options + ["false"]).end == .exit(7))
            #expect(try fixture.file() == "1\n")
            try fixture.set("1")
            #expect(try fixture.render(options + ["false"]).end == .exit(7))
            let accepted = try fixture.render(options + ["true"])
            #expect(accepted.end == .exit(0))
            #expect(accepted.log.contains("the previous file is missing"), "\(accepted.log)")
            #expect(try fixture.names() == ["app.conf"])
            #expect(try fixture.render(options + ["false"]).log == "")
        }
    }

    @Test("if the copy of the previous file is missing, a file with a new value replaces the unchecked file")
    func missingCopyAndNewValue() throws {
        try RenderFixture.with(previous: "old") { fixture in
            try fixture.killInPlace()
            try fixture.removeCopies()
            try fixture.set("2")
            let accepted = try fixture.render("--check-in-place", "--check", "grep -q 2 app.conf")
            #expect(accepted.end == .exit(0), "\(accepted.log)")
            #expect(try fixture.file() == "2\n")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test("a correction that the user writes into an unchecked file is kept; the previous file is not restored")
    func correctedAfterKill() throws {
        try RenderFixture.with(previous: "old") { fixture in
            try fixture.killInPlace()
            let inode = try fixture.status().st_ino
            // The corrected file has the same inode and the same length as the unchecked file.
            try fixture.write("fix", "3\n")
            #expect(try Command.run("cp", [fixture.path("fix"), fixture.path("app.conf")]).end == .exit(0))
            #expect(try fixture.status().st_ino == inode)
            let refused = try fixture.render("--check-in-place", "--check", "false")
            #expect(
                refused.log == "larder: the check failed with exit status 1; the previous app.conf has been restored")
            #expect(try fixture.file() == "3\n")
            #expect(try fixture.names() == ["app.conf"])
        }
    }

    @Test("larder render removes the hidden files that killed calls left, but not those of running calls")
    func abandonedFiles() throws {
        try RenderFixture.with(previous: "old") { fixture in
            fixture.makeFIFO("wait")
            let running = try fixture.startRender(
                ["--check", "echo waits; cat {} wait", "--exec", "true"], waitingFor: "waits")
            let hidden = try fixture.names().filter { $0.hasPrefix(".") }
            #expect(hidden.count == 2, "\(hidden)")
            let killed = try fixture.render("--check", "kill -9 $PPID; : {}", "--exec", "true")
            #expect(killed.end == .signal(SIGKILL))
            #expect(try fixture.names().count == 5)
            try fixture.write(".app.larder-notes.conf", "")
            try fixture.write(".app.larder-abcdefg.conf", "")
            let refused = try fixture.render("--check", "false {}")
            #expect(refused.end == .exit(7))
            #expect(
                try fixture.names()
                    == (hidden + ["app.conf", ".app.larder-notes.conf", ".app.larder-abcdefg.conf"]).sorted())
            fixture.removeFIFO("wait")
            running.kill()
            _ = try running.waitForEnd()
        }
    }

    @Test("with --watch, a failed command runs again even if the value changes back")
    func retryAfterReversal() throws {
        try RenderFixture.with { fixture in
            let larder = try fixture.startRender(
                ["--watch", "--exec", "echo ran for $(cat \"$LARDER_FILE\"); grep -q 1 {}"], waitingFor: "ran for 1")
            try fixture.set("2")
            try larder.waitForLog("failed with exit status 1; the previous app.conf has been restored")
            let runs = larder.log.count { $0 == "ran for 1" }
            try fixture.set("1")
            while larder.log.count(where: { $0 == "ran for 1" }) == runs { _ = try larder.logLine() }
            larder.signal(SIGTERM)
            #expect(try larder.waitForEnd() == .signal(SIGTERM))
        }
    }
}
