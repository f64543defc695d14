import CLinuxShims
import Foundation
import Glibc
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("larder image put")
    struct ImagePutCommandTests {
        private let url = "https://app.internal/charts/today.png"

        private func larder(_ home: AgentHome, _ arguments: [String]) throws -> Command {
            try Command.run(
                Products.commandLine, ["image"] + arguments + ["--socket", home.socket], environment: home.environment,
                directory: home.directory)
        }

        @Test("a file or standard input is stored under its URL and replaces the cached image")
        func put() throws {
            try AgentHome.withImages { home, _ in
                _ = try home.start()
                // The second image is larger than the maximum length of a request line.
                for (seed, size) in [(1, 2000), (2, 3_000_000)] {
                    let image = TestImage(seed: seed, size: size)
                    try Data(image.bytes).write(to: URL(filePath: home.directory + "/today.png"))
                    let stored = try larder(home, ["put", "today.png", "--url", url, "--json"])
                    #expect(stored.end == .exit(0), "\(stored.log)")
                    let result = try JSONValue(parsing: stored.output.joined())
                    #expect(result["digest"]?.string == "sha256:" + image.digest && result["bytes"]?.int == size)
                    let got = try larder(home, ["get", url, "--policy", "cacheOnly", "--digest", image.digest])
                    #expect(got.end == .exit(0), "\(got.log)")
                }
                let piped = try Command.run(
                    "/bin/sh",
                    [
                        "-c",
                        "cat today.png | \(Products.commandLine) image put - --url \(url) --cache-key k "
                            + "--socket \(home.socket)",
                    ], environment: home.environment, directory: home.directory)
                #expect(piped.output == ["stored: image/png, 16×16, 3.0 MB"], "\(piped.log)")
            }
        }

        @Test("a failure is one line on standard error and a documented exit status")
        func failures() throws {
            try AgentHome.withImages("maximumImageBytes: 100000, maximumBytes: 250000") { home, _ in
                _ = try home.start()
                try Data("<html>".utf8).write(to: URL(filePath: home.directory + "/page.png"))
                try Data(TestImage(seed: 1, size: 100_001).bytes).write(
                    to: URL(filePath: home.directory + "/large.png"))
                for (arguments, status) in [
                    (["page.png", "--url", url], 10), (["large.png", "--url", url], 10),
                    (["page.png", "--url", "file:///a"], 2), (["none.png", "--url", url], 1), ([".", "--url", url], 1),
                ] as [([String], CInt)] {
                    let end = try larder(home, ["put"] + arguments)
                    #expect(end.end == .exit(status), "\(arguments): \(end)")
                    #expect(end.log.hasPrefix("larder: ") && !end.log.contains("\n"), "\(end.log)")
                }
            }
        }

        @Test("the agent closes descriptors that a client passes but that no request uses")
        func unused() throws {
            try AgentHome.withImages { home, _ in
                let agent = try home.start()
                let file = Descriptor(larder_memfd_create("unused"))
                let stream = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
                try #require(withUnixAddress(home.socket) { connect(stream.number, $0, $1) } == 0)
                for id in 1...100 {
                    for text in [#"{"id":\#(id),"method":"agent.ping"}"#, " ", "\n"] {
                        let bytes = Array(text.utf8)
                        let passed = [CInt](repeating: file.number, count: id % 3 + 1)
                        #expect(
                            larder_send_descriptors(stream.number, bytes, bytes.count, passed, passed.count)
                                == bytes.count)
                    }
                    var byte: UInt8 = 0
                    repeat { try #require(recv(stream.number, &byte, 1, 0) == 1) } while byte != UInt8(ascii: "\n")
                }
                let directory = "/proc/\(agent.pid)/fd"
                func open() throws -> Int {
                    try FileManager.default.contentsOfDirectory(atPath: directory).count { name in
                        (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\(name)"))?
                            .contains("memfd:unused") ?? false
                    }
                }
                // Waits, because the agent closes the descriptors on another thread than that of the connection.
                while try open() > 0 { sched_yield() }
            }
        }
    }
}
