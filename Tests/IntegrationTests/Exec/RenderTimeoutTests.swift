import ArgumentParser
import Foundation
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Timeout of the commands of larder render", .timeLimit(.minutes(5)))
struct ShellCommandTimeoutTests {
    @Test("a command that ends in time is not disturbed")
    func inTime() async throws {
        let command = ShellCommand(text: "exit 3", timeout: .seconds(600))
        #expect(try await command.run(on: "f") == .exited(3))
    }

    @Test("the commands of larder render have a timeout of 30 s by default")
    func defaults() async throws {
        let command = try await RenderCommand.asyncParse(["t", "app.conf", "--check", "test {}", "--exec", "true"])
        #expect(command.rendered.check?.timeout == .seconds(30))
        #expect(command.rendered.exec?.timeout == .seconds(30))
    }

    @Test("a command that ignores SIGTERM is killed")
    func killed() async throws {
        let command = ShellCommand(
            text: "trap '' TERM; while :; do sleep 1000; done", timeout: .milliseconds(500),
            killDelay: .milliseconds(1))
        #expect(try await command.run(on: "f") == nil)
    }
}

/// Tests of `larder render` with failures that do not depend on the configuration.
extension Integration.RenderTests {
    /// Runs `body` in a home with an agent whose value `a` is 1, and a template that contains only this value.
    private func withTemplate(_ body: (AgentHome) throws -> Void) throws {
        try AgentHome.with(starting: true) { home in
            _ = try larder(home, ["set", "a", "1"])
            try home.write("t", "{{a}}\n")
            try body(home)
        }
    }

    /// Starts `larder render --watch`, and waits until it has run the command that prints the first value.
    private func watch(_ home: AgentHome, _ output: String, _ options: String...) throws -> ChildProcess {
        let larder = try ChildProcess(
            Products.commandLine,
            ["render", "t", output, "--watch", "--exec", "echo wrote $(cat {})", "--socket", home.socket] + options,
            environment: home.environment, directory: home.directory)
        try larder.waitForLog("wrote 1")
        return larder
    }

    private func end(_ larder: ChildProcess) throws {
        larder.signal(SIGTERM)
        #expect(try larder.waitForEnd() == .signal(SIGTERM))
    }

    @Test("without a terminal, a command that does not end in time is ended with its children, and has failed")
    func timeout() throws {
        try withTemplate { home in
            try home.write("app.conf", "old")
            mkfifo(home.directory + "/held", 0o600)
            let reader = open(home.directory + "/held", O_RDONLY | O_NONBLOCK | O_CLOEXEC)
            defer { close(reader) }
            for (options, status, name) in [
                (["--check", "exec 3>held; sleep 1000 & wait; : {}", "--check-timeout", "1s"], 7, "the check"),
                (
                    ["--exec", "exec 3>held; sleep 1000 & wait", "--exec-timeout", "1s"], 1,
                    "the command after the change"
                ),
            ] as [([String], CInt, String)] {
                let ended = try Command.run(
                    "setsid",
                    ["--wait", Products.commandLine, "render", "t", "app.conf", "--socket", home.socket] + options,
                    environment: home.environment, directory: home.directory)
                #expect(ended.end == .exit(status))
                #expect(
                    ended.log.contains(
                        "larder: \(name) did not end within 1s and was ended; correct it, or increase --"),
                    "\(ended.log)")
                #expect(try text(home, "app.conf") == "old")
                #expect(try names(home) == ["app.conf"])
                // The read returns when no process has the FIFO open for writing any more.
                _ = fcntl(reader, F_SETFL, 0)
                var byte: UInt8 = 0
                #expect(read(reader, &byte, 1) == 0)
            }
        }
    }

    @Test("with --watch, the first rendering is tried again, too")
    func firstFailure() throws {
        try withTemplate { home in
            let larder = try ChildProcess(
                Products.commandLine,
                [
                    "render", "t", "app.conf", "--watch", "--check", "test -e ready && test -e {}", "--exec",
                    "echo wrote $(cat {})", "--socket", home.socket,
                ],
                environment: home.environment, directory: home.directory)
            try larder.waitForLog("the check")
            try home.write("ready", "")
            try larder.waitForLog("wrote 1")
            try end(larder)
        }
    }

    @Test("with --watch, a timeout is reported to the agent, and the check is tried again")
    func retriedTimeout() throws {
        try withTemplate { home in
            try home.write("ready", "")
            let larder = try watch(
                home, "app.conf", "--check", "test -e ready || exec sleep 1000; : {}", "--check-timeout", "1s")
            unlink(home.directory + "/ready")
            _ = try self.larder(home, ["set", "a", "2"])
            try larder.waitForLog("the check did not end within 1s")
            func refusal() throws -> String? {
                let clients = try JSONValue(parsing: self.larder(home, ["clients", "--json"]).text)["clients"]
                let acknowledged = clients?.elements.compactMap { $0["acknowledged"]?[0] } ?? []
                return acknowledged.first { $0["accepted"] == false }?["reason"]?.string
            }
            while try refusal()?.contains("the check did not end within 1s") != true {}
            try home.write("ready", "")
            try larder.waitForLog("app.conf has been written")
            #expect(try text(home, "app.conf") == "2\n")
            try end(larder)
        }
    }

    @Test("with --watch, a failed check is tried again without a change of the configuration")
    func retriedCheck() throws {
        try withTemplate { home in
            try home.write("ready", "")
            let larder = try watch(home, "app.conf", "--check", "test -e ready # {}")
            unlink(home.directory + "/ready")
            _ = try self.larder(home, ["set", "a", "2"])
            try larder.waitForLog("the check failed with exit status 1; app.conf is unchanged")
            try home.write("ready", "")
            try larder.waitForLog("app.conf has been written")
            #expect(try text(home, "app.conf") == "2\n")
            try end(larder)
        }
    }

    @Test("with --watch, a file that could not be written is written when its directory exists again")
    func retriedDirectory() throws {
        try withTemplate { home in
            try home.makeDirectory("d")
            let larder = try watch(home, "d/app.conf")
            #expect(rename(home.directory + "/d", home.directory + "/moved") == 0)
            _ = try self.larder(home, ["set", "a", "2"])
            try larder.waitForLog("cannot create a file next to d/app.conf: No such file or directory")
            try home.makeDirectory("d")
            try larder.waitForLog("d/app.conf has been written")
            #expect(try text(home, "d/app.conf") == "2\n")
            try end(larder)
        }
    }

    @Test("with --watch, a file that did not fit on the disk is written when there is space again")
    func retriedFullDisk() throws {
        try withTemplate { home in
            let larder = try ChildProcess(
                "env",
                [
                    "--ignore-signal=XFSZ", Products.commandLine, "render", "t", "app.conf", "--watch", "--exec",
                    "echo wrote $(cat {})", "--socket", home.socket,
                ],
                environment: home.environment, directory: home.directory)
            try larder.waitForLog("wrote 1")
            // Writes beyond the limit fail (setrlimit(2)).
            func limit(_ size: String) throws {
                let limited = try Command.run("prlimit", ["--pid", "\(larder.pid)", "--fsize=\(size)"])
                #expect(limited.end == .exit(0), "\(limited.log)")
            }
            try limit("2:")
            _ = try self.larder(home, ["set", "a", "22"])
            try larder.waitForLog("File too large")
            #expect(try text(home, "app.conf") == "1\n")
            try limit("unlimited:")
            try larder.waitForLog("app.conf has been written")
            #expect(try text(home, "app.conf") == "22\n")
            try end(larder)
        }
    }

    @Test("with --watch, a template that could not be read is read again")
    func retriedTemplate() throws {
        try withTemplate { home in
            let larder = try watch(home, "app.conf")
            unlink(home.directory + "/t")
            _ = try self.larder(home, ["set", "a", "2"])
            try larder.waitForLog("cannot read t")
            try home.write("t", "new {{a}}\n")
            try larder.waitForLog("app.conf has been written")
            #expect(try text(home, "app.conf") == "new 2\n")
            try end(larder)
        }
    }

    @Test("a single call does not try again, and the timeouts require their commands")
    func single() throws {
        try withTemplate { home in
            let failed = try larder(home, ["render", "t", "app.conf", "--check", "echo ran; false # {}"])
            #expect(failed.end == .exit(7))
            #expect(failed.log.split(separator: "\n").count { $0 == "ran" } == 1)
            for name in ["check", "exec"] {
                let refused = try larder(home, ["render", "t", "app.conf", "--\(name)-timeout", "1s"])
                #expect(refused.end == .exit(2))
                #expect(refused.log.contains("--\(name)-timeout requires --\(name)"), "\(refused.log)")
            }
        }
    }
}
