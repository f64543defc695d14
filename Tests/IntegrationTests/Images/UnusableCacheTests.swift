import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Unusable image caches")
    struct UnusableCacheTests {
        @Test("without a usable image cache, configuration is served and image requests get the reason")
        func unusable() throws {
            try AgentHome.with(settings: AgentHome.imageSettings("")) { home in
                // A file in place of the directory makes its creation fail, as on a read-only or full disk.
                try home.write("cache", "a file")
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.set", ["path": "n", "value": 1])
                #expect(try client.call("config.get", ["path": "n"])["value"] == 1)
                let refusal = try client.imageRefusal("http://127.0.0.1/a.png")
                #expect(refusal.name == "unavailable")
                #expect(refusal.detail.contains("the image cache is unavailable: "))
                #expect(refusal.detail.contains("restart the agent"))
                let info = try client.call("agent.info")
                #expect(info["imageDirectory"]?.isNull == true)
                #expect(info["imageProblem"]?.string?.contains("Not a directory") == true)
                #expect(try client.call("agent.stats")["images"]?.isNull == true)
                #expect(agent.log.contains("the image cache cannot be used"))
            }
        }

        @Test("a cache that a newer agent wrote is left unchanged, and configuration is served without it")
        func newer() throws {
            try AgentHome.with(settings: AgentHome.imageSettings("")) { home in
                #expect(try home.start().stop() == .exit(0))
                let index = URL(filePath: home.directory + "/cache/images/index.sqlite")
                var bytes = try Data(contentsOf: index)
                // The header of an SQLite database contains `user_version`, which is the format of the cache. This is
                // its last byte.
                bytes[63] = 200
                try bytes.write(to: index)
                let names = try FileManager.default.contentsOfDirectory(atPath: home.directory + "/cache/images")
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.set", ["path": "n", "value": 1])
                let refusal = try client.imageRefusal("http://127.0.0.1/a.png")
                #expect(refusal.name == "unavailable")
                #expect(refusal.detail.contains("has format 200, and this agent reads format 4"), "\(refusal.detail)")
                #expect(try client.call("agent.info")["imageProblem"]?.string?.contains("format 200") == true)
                #expect(agent.log.contains("has format 200"))
                let status = try Command.run(
                    Products.commandLine, ["status", "--socket", home.socket], environment: home.environment)
                #expect(status.output.last?.contains("images  none: ") == true, "\(status.output)")
                let stats = try Command.run(
                    Products.commandLine, ["image", "stats", "--socket", home.socket], environment: home.environment)
                #expect(stats.end != .exit(0))
                #expect(stats.log.contains("has format 200"), "\(stats.log)")
                #expect(try agent.stop() == .exit(0))
                #expect(try Data(contentsOf: index) == bytes)
                let after = try FileManager.default.contentsOfDirectory(atPath: home.directory + "/cache/images")
                #expect(Set(names) == Set(after))
            }
        }

        @Test("an agent whose cache directory is in use by another agent serves configuration without images")
        func inUse() throws {
            try AgentHome.with(settings: AgentHome.imageSettings("")) { home in
                _ = try home.start()
                let second = try home.start(
                    socket: home.directory + "/sock2", state: home.directory + "/state2",
                    cache: home.directory + "/cache")
                let client = try second.connect()
                try client.call("config.set", ["path": "n", "value": 1])
                let refusal = try client.imageRefusal("http://127.0.0.1/a.png")
                #expect(refusal.name == "unavailable")
                #expect(refusal.detail.contains("uses the cache directory"), "\(refusal.detail)")
            }
        }
    }
}
