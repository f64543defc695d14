import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Interrupted system calls")
    struct InterruptedCallsTests {
        /// Compiles contrib/torture/faults.c, a library that makes system calls fail.
        private static func library(in home: AgentHome) throws -> String {
            let source = Checkout.root.appending(path: "contrib/torture/faults.c").path
            let library = home.directory + "/faults.so"
            let compilation = try Command.run("cc", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"])
            guard compilation.end == .exit(0) else { throw HarnessError(compilation.log) }
            return library
        }

        @Test("the agent repeats interrupted system calls on state and cache files, and reports no error")
        func repeated() throws {
            try AgentHome.withImages { home, origin in
                let image = TestImage(.png, seed: 1, size: 300_000)
                try origin.put(image, "a.png")
                let log = home.directory + "/calls"
                // Also preloads the libraries that are preloaded into the test process.
                let libraries = [ProcessInfo.processInfo.environment["LD_PRELOAD"], try Self.library(in: home)]
                // Calls on the files of the SQLite database do not fail, because SQLite does not repeat an interrupted
                // fsync(2).
                let wrapper = [
                    "env", "LD_PRELOAD=" + libraries.compactMap(\.self).joined(separator: ":"),
                    "LARDER_FAULT_PATHS=\(home.state):\(home.directory)/cache", "LARDER_FAULT_EXCEPT=.sqlite",
                    "LARDER_FAULT_NUMBER=odd", "LARDER_FAULT_ERROR=\(EINTR)", "LARDER_FAULT_LOG=" + log,
                ]
                for step in 0..<2 {
                    let agent = try home.start(wrapper: wrapper)
                    let client = try agent.connect()
                    #expect(try client.call("agent.info")["imageProblem"] == nil)
                    if step > 0 { #expect(try client.call("config.get", ["path": "n"])["value"] == 2) }
                    for value in 0..<3 { try client.call("config.set", ["path": "n", "value": .int(value)]) }
                    #expect(try ServedImage(try client.image(origin.url("fresh", "a.png"))).isWhole(image))
                    try client.call("image.remove", ["url": .string(origin.url("fresh", "a.png"))])
                    #expect(try ServedImage(try client.image(origin.url("fresh", "a.png"))).source == "miss")
                    client.close()
                    #expect(try agent.stop() == .exit(0))
                    #expect(!agent.log.contains("Interrupted"), "\(agent.log)")
                }
                let interrupted = try String(contentsOfFile: log, encoding: .utf8).split(separator: "\n")
                    .filter { $0.hasSuffix(" failed") }
                for kind in ["open", "read", "write", "fsync", "rename", "mkdir", "link", "unlink", "chmod"] {
                    #expect(interrupted.contains { $0.hasPrefix(kind + " ") }, "\(kind) was never interrupted")
                }
            }
        }
    }
}
