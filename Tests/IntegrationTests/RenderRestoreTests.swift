import Foundation
import TestSupport
import Testing

@testable import LarderCommand

/// What `larder render` does about checks and commands that fail.
extension Integration.RenderTests {
    @Test("a failed --exec restores the previous file, and the next call tries again")
    func failedExec() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            let first = try larder(home, ["render", "t", "app.conf", "--exec", "cat {}; false"])
            #expect(first.end == .exit(1))
            #expect(
                first.log
                    == "1\nlarder: the command after the change ended with exit status 1; app.conf is removed, as it was not there before"
            )
            #expect(try names(home) == [])
            try home.write("app.conf", "old")
            chmod(home.directory + "/app.conf", 0o604)
            for _ in 0..<2 {
                let failed = try larder(
                    home, ["render", "t", "app.conf", "--mode", "600", "--exec", "cat {} >&2; exit 7"])
                #expect(failed.end == .exit(1))
                #expect(
                    failed.log
                        == "1\nlarder: the command after the change ended with exit status 7; the previous app.conf is restored"
                )
                #expect(try text(home, "app.conf") == "old")
                #expect(try status(home, "app.conf").st_mode & 0o7777 == 0o604)
                #expect(try names(home) == ["app.conf"])
            }
            #expect(try larder(home, ["render", "t", "app.conf", "--exec", "true"]).end == .exit(0))
            #expect(try text(home, "app.conf") == "1\n")
            #expect(try names(home) == ["app.conf"])
        }
    }

    @Test("a file that another process puts in place during --exec is not overwritten by the previous one")
    func supersededExec() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            let failed = try larder(
                home, ["render", "t", "app.conf", "--exec", "echo other >n; mv n {}; false"])
            #expect(failed.end == .exit(1))
            #expect(failed.log.hasSuffix("another process has replaced app.conf meanwhile"), "\(failed.log)")
            #expect(try text(home, "app.conf") == "other\n")
            #expect(try names(home) == ["app.conf"])
        }
    }

    @Test("a --check that names no file is refused, because it would judge the old one")
    func blindCheck() throws {
        try AgentHome.with { home in
            try home.write("t", "{{a}}\n")
            for check in ["nginx -t", "awk '{} {print}' x", "test --file={}", "echo \"in {} quotes\""] {
                let refused = try larder(home, ["render", "t", "app.conf", "--check", check])
                #expect(refused.end == .exit(2), "\(check)")
                #expect(refused.log.contains("would judge the file that is in place"), "\(refused.log)")
                #expect(refused.log.contains("--check-in-place"))
            }
            let alone = try larder(home, ["render", "t", "app.conf", "--check-in-place"])
            #expect(alone.end == .exit(2))
            #expect(alone.log.contains("add --check"))
        }
    }

    @Test("{} is replaced as a word of its own only, quoted or not")
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

    @Test("--check-in-place checks the file where it belongs, and restores the previous one")
    func checkInPlace() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            let arguments = ["render", "t", "app.conf", "--check-in-place", "--check", "! grep -q bad app.conf"]
            #expect(try larder(home, arguments + ["--exec", "touch done"]).end == .exit(0))
            _ = try larder(home, ["set", "a", "bad"])
            unlink(home.directory + "/done")
            let refused = try larder(home, arguments + ["--exec", "touch done"])
            #expect(refused.end == .exit(7))
            #expect(
                refused.log == "larder: the check ended with exit status 1; the previous app.conf is restored")
            #expect(try text(home, "app.conf") == "1\n")
            #expect(!home.exists(home.directory + "/done"))
            #expect(try names(home) == ["app.conf"])
            // What was installed before it could be checked does not stand in the way.
            try home.write("app.conf", "bad")
            _ = try larder(home, ["set", "a", "2"])
            #expect(try larder(home, arguments).end == .exit(0))
            #expect(try text(home, "app.conf") == "2\n")
        }
    }

    @Test("readers find the old or the new file, whole, while bad ones are installed and taken back")
    func atomicForReaders() throws {
        try AgentHome.with { home in
            _ = try home.start()
            try home.write("t", "{{a}}")
            let (old, new) = (String(repeating: "o", count: 50_000), String(repeating: "n", count: 70_000))
            try home.write("app.conf", old)
            _ = try larder(home, ["set", "a", new])
            mkfifo(home.directory + "/seen", 0o600)
            // Lets each check end when it has seen the new file in place.
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
                ], directory: home.directory)
            #expect(try reader.line() == "reads")
            for _ in 0..<10 {
                let refused = try larder(
                    home, ["render", "t", "app.conf", "--check", "cat seen; false", "--check-in-place"])
                #expect(refused.end == .exit(7))
            }
            try home.write("enough", "")
            #expect(try reader.line() == "[('n', 70000), ('o', 50000)]")
        }
    }

    @Test("a signal before the command has succeeded restores the previous file", arguments: ["exec", "check"])
    func signalledInPlace(step: String) throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            let command = "exec python3 -c 'import signal; print(\"waits\", flush=True); signal.pause()'"
            let larder = try ChildProcess(
                Products.commandLine,
                ["render", "t", "app.conf", "--\(step)", command, "--socket", home.socket]
                    + (step == "check" ? ["--check-in-place"] : []),
                environment: home.environment, directory: home.directory)
            try larder.waitForLog("waits")
            #expect(try text(home, "app.conf") == "1\n")
            larder.signal(SIGTERM)
            #expect(try larder.waitForEnd() == .signal(SIGTERM))
            #expect(try text(home, "app.conf") == "old")
            #expect(try names(home) == ["app.conf"])
        }
    }

    @Test(
        "a file that was not checked because larder was killed is checked by the next call",
        arguments: ["check", "exec"], [true, false])
    func killedInPlace(step: String, hasPrevious: Bool) throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            if hasPrevious { try home.write("app.conf", "old") }
            mkfifo(home.directory + "/wait", 0o600)
            let options = ["render", "t", "app.conf"] + (step == "check" ? ["--check-in-place"] : [])
            let larder = try ChildProcess(
                Products.commandLine,
                options + ["--\(step)", "echo waits; exec cat wait", "--socket", home.socket],
                environment: home.environment, directory: home.directory)
            try larder.waitForLog("waits")
            // Another call does not take the file of one that still checks it for abandoned.
            #expect(try self.larder(home, ["render", "t", "app.conf"]).end == .exit(0))
            #expect(try text(home, "app.conf") == "1\n")
            larder.kill()
            close(open(home.directory + "/wait", O_RDWR | O_CLOEXEC))
            unlink(home.directory + "/wait")
            #expect(try text(home, "app.conf") == "1\n")

            let refused = try self.larder(home, options + ["--\(step)", "touch ran; false"])
            #expect(refused.end == .exit(step == "check" ? 7 : 1))
            #expect(refused.log.contains("was killed before it had checked app.conf"), "\(refused.log)")
            #expect(home.exists(home.directory + "/ran"))
            #expect(try names(home) == (hasPrevious ? ["app.conf"] : []))
            if hasPrevious { #expect(try text(home, "app.conf") == "old") }
            #expect(try self.larder(home, options + ["--\(step)", "true"]).end == .exit(0))
            #expect(try text(home, "app.conf") == "1\n")
            #expect(try names(home) == ["app.conf"])
        }
    }

    @Test("a file that was replaced after larder was killed is not overwritten by the one before")
    func replacedAfterKill() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            mkfifo(home.directory + "/wait", 0o600)
            let larder = try ChildProcess(
                Products.commandLine,
                ["render", "t", "app.conf", "--exec", "echo waits; exec cat wait", "--socket", home.socket],
                environment: home.environment, directory: home.directory)
            try larder.waitForLog("waits")
            larder.kill()
            close(open(home.directory + "/wait", O_RDWR | O_CLOEXEC))
            unlink(home.directory + "/wait")
            try home.write("app.conf", "mine")
            let refused = try self.larder(home, ["render", "t", "app.conf", "--exec", "false"])
            #expect(refused.log.hasSuffix("the previous app.conf is restored"), "\(refused.log)")
            #expect(try text(home, "app.conf") == "mine")
            #expect(try names(home) == ["app.conf"])
        }
    }

    /// Lets the commands of a call of larder kill it while the new file is in place, unchecked.
    private func killInPlace(_ home: AgentHome) throws {
        let killed = try larder(
            home, ["render", "t", "app.conf", "--check", "kill -9 $PPID", "--check-in-place"])
        #expect(killed.end == .signal(SIGKILL))
        #expect(try text(home, "app.conf") == "1\n")
    }

    @Test("an unchecked file is checked in place until a check succeeds if the copy of the previous file is missing")
    func missingCopy() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            try killInPlace(home)
            for name in try names(home) where name.hasPrefix(".app.larder-") { unlink(home.directory + "/" + name) }
            let options = ["render", "t", "app.conf", "--check-in-place", "--check"]
            for _ in 0..<2 {
                let refused = try larder(home, options + ["false"])
                #expect(refused.end == .exit(7))
                #expect(refused.log.contains("the previous file is missing"), "\(refused.log)")
                #expect(refused.log.hasSuffix("the check ended with exit status 1; app.conf stays as it was"))
                #expect(try names(home) == [".app.conf.larder-unconfirmed", "app.conf"])
            }
            // A new file that fails, too, brings the unchecked one back, and it is still unchecked.
            _ = try larder(home, ["set", "a", "2"])
            #expect(try larder(home, options + ["false"]).end == .exit(7))
            #expect(try text(home, "app.conf") == "1\n")
            _ = try larder(home, ["set", "a", "1"])
            #expect(try larder(home, options + ["false"]).end == .exit(7))
            let accepted = try larder(home, options + ["true"])
            #expect(accepted.end == .exit(0))
            #expect(accepted.log.contains("the previous file is missing"), "\(accepted.log)")
            #expect(try names(home) == ["app.conf"])
            #expect(try larder(home, options + ["false"]).log == "")
        }
    }

    @Test("a new value replaces an unchecked file whose previous file is missing")
    func missingCopyAndNewValue() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            try killInPlace(home)
            for name in try names(home) where name.hasPrefix(".app.larder-") { unlink(home.directory + "/" + name) }
            _ = try larder(home, ["set", "a", "2"])
            let accepted = try larder(
                home, ["render", "t", "app.conf", "--check-in-place", "--check", "grep -q 2 app.conf"])
            #expect(accepted.end == .exit(0), "\(accepted.log)")
            #expect(try text(home, "app.conf") == "2\n")
            #expect(try names(home) == ["app.conf"])
        }
    }

    @Test("a correction that is written into an unchecked file is not overwritten by the previous file")
    func correctedAfterKill() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            try killInPlace(home)
            let inode = try status(home, "app.conf").st_ino
            // The same inode and the same length.
            try home.write("fix", "3\n")
            #expect(try Command.run("cp", [home.directory + "/fix", home.directory + "/app.conf"]).end == .exit(0))
            #expect(try status(home, "app.conf").st_ino == inode)
            let refused = try larder(
                home, ["render", "t", "app.conf", "--check-in-place", "--check", "false"])
            #expect(refused.log == "larder: the check ended with exit status 1; the previous app.conf is restored")
            #expect(try text(home, "app.conf") == "3\n")
            #expect(try names(home) == ["app.conf"])
        }
    }

    @Test("hidden files of a call that was killed are removed by the next one, those of a running call are not")
    func abandonedFiles() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try home.write("app.conf", "old")
            mkfifo(home.directory + "/wait", 0o600)
            let running = try ChildProcess(
                Products.commandLine,
                [
                    "render", "t", "app.conf", "--check", "echo waits; cat {} wait", "--exec", "true", "--socket",
                    home.socket,
                ],
                environment: home.environment, directory: home.directory)
            try running.waitForLog("waits")
            let hidden = try names(home).filter { $0.hasPrefix(".") }
            #expect(hidden.count == 2, "\(hidden)")
            let killed = try larder(
                home, ["render", "t", "app.conf", "--check", "kill -9 $PPID; : {}", "--exec", "true"])
            #expect(killed.end == .signal(SIGKILL))
            #expect(try names(home).count == 5)
            try home.write(".app.larder-notes.conf", "")
            try home.write(".app.larder-abcdefg.conf", "")
            let refused = try larder(home, ["render", "t", "app.conf", "--check", "false {}"])
            #expect(refused.end == .exit(7))
            #expect(
                try names(home)
                    == (hidden + ["app.conf", ".app.larder-notes.conf", ".app.larder-abcdefg.conf"]).sorted())
            close(open(home.directory + "/wait", O_RDWR | O_CLOEXEC))
            running.kill()
            _ = try running.waitForEnd()
        }
    }

    @Test("with --watch a command that failed runs again even if the value is taken back")
    func retryAfterReversal() throws {
        try AgentHome.with { home in
            _ = try home.start()
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            let larder = try ChildProcess(
                Products.commandLine,
                [
                    "render", "t", "app.conf", "--watch", "--exec",
                    "echo ran for $(cat \"$LARDER_FILE\"); grep -q 1 {}",
                    "--socket", home.socket,
                ],
                environment: home.environment, directory: home.directory)
            try larder.waitForLog("ran for 1")
            _ = try self.larder(home, ["set", "a", "2"])
            try larder.waitForLog("ended with exit status 1; the previous app.conf is restored")
            let runs = larder.log.count { $0 == "ran for 1" }
            _ = try self.larder(home, ["set", "a", "1"])
            while larder.log.count(where: { $0 == "ran for 1" }) == runs { _ = try larder.logLine() }
            larder.signal(SIGTERM)
            #expect(try larder.waitForEnd() == .signal(SIGTERM))
        }
    }
}
