import Foundation
import TestSupport
import Testing

@testable import LarderCommand

extension Integration {
    @Suite("larder image get --exec")
    struct ImageGetExecTests {
        private func arguments(_ home: AgentHome, _ url: String, _ program: String...) -> [String] {
            ["image", "get", "--socket", home.socket, url, "--exec"] + program
        }

        private func larder(_ home: AgentHome, _ arguments: [String]) throws -> Command {
            try Command.run(
                Products.commandLine, arguments, environment: home.environment, directory: home.directory)
        }

        /// Runs `body` with an agent and the URL of an image, whose bytes are in the file `expected`.
        private func withImage(_ body: (AgentHome, _ url: String) throws -> Void) throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let image = TestImage(seed: 1, size: 300_000)
                try origin.put(image, "a.png")
                try Data(image.bytes).write(to: URL(filePath: home.directory + "/expected"))
                try body(home, origin.url("fresh", "a.png"))
            }
        }

        @Test("the file of the image is kept until the program ends, even if the image is removed from the cache")
        func lease() throws {
            try withImage { home, url in
                mkfifo(home.directory + "/wait", 0o600)
                let script = #"echo ready; read line <wait; cmp "$1" expected && exit 7"#
                let running = try ChildProcess(
                    Products.commandLine, arguments(home, url, "sh", "-c", script, "sh", "{}"),
                    environment: home.environment, directory: home.directory)
                #expect(try running.line() == "ready")
                #expect(try home.larder("image", "rm", url).end == .exit(0))
                let writer = open(home.directory + "/wait", O_WRONLY | O_CLOEXEC)
                #expect(write(writer, "\n", 1) == 1)
                close(writer)
                #expect(try running.waitForEnd() == .exit(7), "\(running.log)")
            }
        }

        @Test("all words after --exec belong to the program, and its exit status is that of larder")
        func words() throws {
            try withImage { home, url in
                let echoed = try larder(
                    home,
                    arguments(home, url, "printf", "%s.", "-o", "-", "--json", "--", "a{}", "--reason", "-x", "{}"))
                #expect(echoed.end == .exit(0), "\(echoed.log)")
                #expect(echoed.text.hasPrefix("-o.-.--json.--.a{}.--reason.-x./"), "\(echoed.text)")
                for (program, end) in [
                    (["sh", "-c", "exit 3", "{}"], .exit(3)), (["sh", "-c", "kill -KILL $$", "{}"], .exit(137)),
                    (["no-such-program", "{}"], .exit(127)), (["/", "{}"], .exit(126)),
                ] as [([String], ChildProcess.End)] {
                    let command = ["image", "get", "--socket", home.socket, url, "--exec"] + program
                    #expect(try larder(home, command).end == end, "\(program)")
                }
            }
        }

        @Test("-- may precede the URL, and follow --exec")
        func terminator() {
            let url = "https://a.example/b"
            #expect(Arguments.normalized(["image", "get", "--", url]) == ["image", "get", url])
            for program in [["feh", "-o", "-", "--", "{}"], ["--", "feh", "-o", "-", "--", "{}"]] {
                #expect(
                    Arguments.normalized(["--json", "image", "get", url, "--exec"] + program)
                        == ["image", "get", "--json", url, "--exec", "--", "feh", "-o", "-", "--", "{}"])
            }
        }

        @Test("the program does not run without the image")
        func withoutImage() throws {
            try withImage { home, url in
                let command = ["image", "get", "--socket", home.socket, url, "--policy", "cacheOnly", "--exec"]
                let refused = try larder(home, command + ["touch", "ran", "{}"])
                #expect(refused.end == .exit(3))
                #expect(!home.exists(home.directory + "/ran"))
            }
        }

        @Test("signals are forwarded to the program, and larder waits for its end", arguments: [SIGTERM, SIGHUP])
        func signals(number: CInt) throws {
            try withImage { home, url in
                let script = """
                    import signal, sys
                    numbers = [signal.SIGTERM, signal.SIGHUP]
                    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
                    print("ready", flush=True)
                    sys.exit(40 + signal.sigwait(numbers))
                    """
                let running = try ChildProcess(
                    Products.commandLine, arguments(home, url, "python3", "-c", script, "{}"),
                    environment: home.environment, directory: home.directory)
                #expect(try running.line() == "ready")
                running.signal(number)
                #expect(try running.waitForEnd() == .exit(40 + number))
            }
        }

        @Test("a program that does not get the path, and --exec with -o or --json, are usage errors")
        func usage() throws {
            try AgentHome.with { home in
                for (options, text) in [
                    (["--exec", "feh"], "add {} as an argument"), (["--exec", "{}"], "add {} as an argument"),
                    (["--exec", "sh", "-c", "cat {}"], "add {} as an argument"),
                    (["--exec", "", "{}"], "there is no program"),
                    (["--exec"], "there is no program"),
                    (["-o", "f", "--exec", "feh", "{}"], "--exec excludes -o and --json"),
                ] {
                    let refused = try larder(home, ["image", "get", "https://a.example/b"] + options)
                    #expect(refused.end == .exit(2), "\(options)")
                    #expect(refused.log.contains(text), "\(refused.log)")
                }
            }
        }
    }
}
