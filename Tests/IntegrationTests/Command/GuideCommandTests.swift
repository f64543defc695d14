import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    /// Runs commands of the guides that need no systemd. The container test runs all of them.
    @Suite("Commands in the guides")
    struct GuideCommandTests {
        private func guide(_ name: String) throws -> String {
            try String(contentsOf: Checkout.root.appending(path: "contrib/guides/\(name)"), encoding: .utf8)
        }

        /// The shell blocks of a guide.
        private func blocks(_ name: String) throws -> [String] {
            try guide(name).components(separatedBy: "```sh\n").dropFirst().map { rest in
                try require(rest.components(separatedBy: "```").first, "end of a block")
            }
        }

        /// The commands of `larder` in the table of night.md, which has the columns symptom, command and cause.
        private func nightCommands() throws -> [String] {
            try guide("night.md").split(separator: "\n").compactMap { line in
                let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
                guard cells.count == 3, cells[1].hasPrefix("`"), cells[1].hasSuffix("`") else { return nil }
                return String(cells[1].dropFirst().dropLast())
            }
        }

        private func shell(_ script: String, in home: AgentHome, path: String) throws -> Command {
            let environment = home.clientEnvironment.merging(["PATH": "\(path):/usr/bin:/bin"]) { $1 }
            return try Command.run("/bin/sh", ["-euc", script], environment: environment)
        }

        @Test("the commands of the guide for the night work")
        func night() throws {
            try AgentHome.with { home in
                try home.write("shop.json", #"{"version": 1}"#)
                try home.write(
                    settings: "{ namespaces: { shop: { remote: { file: { path: '\(home.directory)/shop.json' } } } } }")
                let agent = try home.start()
                try agent.call("config.set", ["search.limit", 25])
                let programs = try URL(filePath: Products.commandLine).deletingLastPathComponent().path
                let commands = try nightCommands()
                #expect(commands.count == 10)
                for command in commands where command.hasPrefix("larder ") {
                    let end = try shell(command, in: home, path: programs)
                    // The host of the test may give doctor a reason to complain.
                    let permitted: Set<Int32> = command == "larder doctor" ? [0, 1, 12] : [0]
                    #expect(permitted.contains(end.status), "\(command): \(end)")
                }
                for block in try blocks("night.md") {
                    let end = try shell(block, in: home, path: programs)
                    #expect(end.status == 0, "\(block): \(end)")
                }
            }
        }

        @Test("the commands of the guide for feature flags work")
        func flags() throws {
            try AgentHome.with { home in
                let settings = try require(
                    guide("flags.md").components(separatedBy: "```json5\n").dropFirst().first?
                        .components(separatedBy: "```").first, "settings of the guide")
                try home.write(settings: settings)
                _ = try home.start()
                let programs = try URL(filePath: Products.commandLine).deletingLastPathComponent().path
                let blocks = try blocks("flags.md")
                #expect(blocks.count == 3)
                for block in blocks {
                    let end = try shell(block, in: home, path: programs)
                    #expect(end.status == 0, "\(block): \(end)")
                }
            }
        }
    }
}
