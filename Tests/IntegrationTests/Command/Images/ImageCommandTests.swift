import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("larder image")
    struct ImageCommandTests {
        private func larder(_ home: AgentHome, _ arguments: [String], input: String = "") throws -> Command {
            try Command.run(
                Products.commandLine, ["image"] + arguments + ["--socket", home.socket], environment: home.environment,
                directory: home.directory, input: input)
        }

        private func bytes(_ path: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: URL(filePath: path))) }

        @Test("get prints the path or copies the image, and does not download a cached image again")
        func get() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let image = TestImage(seed: 1, size: 300_000)
                try origin.put(image, "a.png")
                let url = origin.url("fresh", "a.png")
                let first = try larder(home, ["get", url])
                #expect(first.end == .exit(0), "\(first.log)")
                #expect(try bytes(try require(first.output.first, "path")) == image.bytes)

                let copied = try larder(home, ["get", url, "-o", "copy.png"])
                #expect(copied.output == ["copy.png: image/png, 16×16, 300 kB, cached"])
                #expect(try bytes(home.directory + "/copy.png") == image.bytes)
                // If the destination is a symbolic link, the link and the mode of its target are kept.
                symlink("copy.png", home.directory + "/link.png")
                chmod(home.directory + "/copy.png", 0o640)
                let json = try larder(home, ["get", url, "-o", "link.png", "--json"])
                let result = try JSONValue(parsing: json.output.joined())
                #expect(result["digest"]?.string == "sha256:" + image.digest)
                var status = stat()
                #expect(lstat(home.directory + "/link.png", &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
                #expect(stat(home.directory + "/copy.png", &status) == 0 && status.st_mode & 0o7777 == 0o640)
                let piped = try Command.run(
                    "/bin/sh",
                    ["-c", "\(Products.commandLine) image get \(url) -o - --socket \(home.socket) | cmp - copy.png"],
                    environment: home.environment, directory: home.directory)
                #expect(piped.end == .exit(0), "\(piped.log)")
                #expect(try larder(home, ["get", url, "--digest", image.digest]).end == .exit(0))
                #expect(try origin.counts() == ["/fresh/a.png": 1])
                let names = try FileManager.default.contentsOfDirectory(atPath: home.directory)
                #expect(!names.contains { $0.hasPrefix(".") })
            }
        }

        @Test(
            "get -o downloads an image once, even for a user who cannot read the cache directory", .needsRoot)
        func otherUser() throws {
            try AgentHome.with(
                settings:
                    """
                    { socket: { mode: '0666' }, access: { others: ['images'] }, \
                    images: { allowNetworks: ['127.0.0.1/32'], minimumFreeBytes: 0 } }
                    """
            ) { home in
                // The other user needs access to the socket and to the program.
                chmod(home.directory, 0o755)
                let origin = try ImageOrigin(below: home.directory)
                defer { origin.stop() }
                let program = home.directory + "/larder"
                try FileManager.default.copyItem(atPath: Products.commandLine, toPath: program)
                chmod(program, 0o755)
                try home.makeDirectory("pictures")
                chmod(home.directory + "/pictures", 0o777)
                _ = try home.start()
                let image = TestImage(seed: 1, size: 300_000)
                try origin.put(image, "a.png")
                let command = ["--reuid=65534", "--regid=65534", "--clear-groups", program, "image", "get"]
                for (place, source) in [
                    ("no-store", "downloaded"), ("no-store", "downloaded"), ("fresh", "downloaded"),
                    ("fresh", "cached"),
                ] {
                    let copied = try Command.run(
                        "setpriv", command + [origin.url(place, "a.png"), "-o", "a.png", "--socket", home.socket],
                        environment: home.environment, directory: home.directory + "/pictures")
                    #expect(copied.output == ["a.png: image/png, 16×16, 300 kB, \(source)"], "\(copied.log)")
                    #expect(try bytes(home.directory + "/pictures/a.png") == image.bytes)
                }
                #expect(try origin.counts() == ["/no-store/a.png": 2, "/fresh/a.png": 1])
            }
        }

        @Test("SIGPIPE ends larder without a message if its output pipe has no reader")
        func brokenPipe() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                try origin.put(TestImage(seed: 1, size: 300_000), "a.png")
                let larder = try Products.commandLine
                for verb in ["ping", "image get \(origin.url("fresh", "a.png")) -o -"] {
                    // Runs larder with a pipe as its standard output, after closing the only reader of the pipe.
                    let script = """
                        rm -f pipe; mkfifo pipe; exec 3<>pipe 4>pipe 3<&-
                        exec \(larder) \(verb) --socket \(home.socket) >&4 4>&-
                        """
                    let end = try Command.run(
                        "/bin/sh", ["-c", script], environment: home.environment, directory: home.directory)
                    #expect(end.end == .signal(SIGPIPE), "\(verb): \(end)")
                    #expect(end.log.isEmpty)
                }
            }
        }

        @Test("every failure has one line on standard error and a documented exit status")
        func failures() throws {
            try AgentHome.withImages("maximumImageBytes: 100000, maximumBytes: 250000") { home, origin in
                _ = try home.start()
                try origin.put(TestImage(seed: 1, size: 90_000), "a.png")
                try origin.put(TestImage(seed: 2, size: 90_000), "b.png")
                try origin.put(TestImage(seed: 3, size: 90_000), "c.png")
                try origin.put(TestImage(seed: 4, size: 100_001), "large.png")
                let port = origin.port
                for (url, more, status) in [
                    (origin.url("fresh", "a.png"), ["--policy", "cacheOnly"], 3),
                    (origin.url("fresh", "none.png"), [], 3), ("http://127.0.0.2:\(port)/fresh/a.png", [], 4),
                    (origin.url("fresh", "large.png"), [], 10),
                    (origin.url("fresh", "a.png"), ["--digest", String(repeating: "0", count: 64)], 10),
                    ("http://127.0.0.1:1/a.png", [], 9), ("file:///etc/passwd", [], 2), ("logo.png", [], 2),
                ] as [(String, [String], CInt)] {
                    let end = try larder(home, ["get", url, "-o", "out.png"] + more)
                    #expect(end.end == .exit(status), "\(url): \(end)")
                    #expect(end.output.isEmpty)
                    #expect(end.log.hasPrefix("larder: ") && !end.log.contains("\n"), "\(end.log)")
                    #expect(!home.exists(home.directory + "/out.png"))
                }
                for name in ["a.png", "b.png"] {
                    let pinned = try larder(home, ["pin", origin.url("fresh", name)])
                    #expect(pinned.output == ["pinned: image/png, 16×16, 90 kB"], "\(pinned.log)")
                }
                #expect(try larder(home, ["get", origin.url("fresh", "c.png")]).end == .exit(11))
                #expect(try larder(home, ["peek", origin.url("fresh", "c.png")]).end == .exit(3))
            }
        }

        @Test("explain, pin, unpin, peek, ls, stats, rm and clear print what they find or change")
        func administration() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                for number in 1...3 { try origin.put(TestImage(seed: number, size: 1000 * number), "\(number).png") }
                let (fresh, brief) = (origin.url("fresh", "1.png"), origin.url("brief", "2.png"))
                for url in [fresh, brief, origin.url("fresh", "3.png")] {
                    #expect(try larder(home, ["get", url]).end == .exit(0))
                }
                let explained = try larder(home, ["explain", fresh])
                #expect(explained.output.first == "\(fresh)  hit: fresh")
                #expect(
                    explained.output.contains { $0.contains("86400 s by Cache-Control: max-age") },
                    "\(explained.output)")
                let stale = try larder(home, ["explain", brief])
                #expect(stale.output.first == "\(brief)  cached: revalidated with the origin before use")
                #expect(
                    try larder(home, ["explain", brief, "--policy", "cacheFirst"]).output[0].contains("  hit: stale"))
                #expect(
                    try larder(home, ["explain", origin.url("fresh", "4.png")]).output[0].hasSuffix(
                        "  miss: downloaded from the origin"))
                let gone = origin.url("fresh", "gone.png")
                #expect(try larder(home, ["get", gone]).end == .exit(3))
                #expect(
                    try larder(home, ["explain", gone]).output[0]
                        == "\(gone)  miss: the origin failed recently and is not contacted again yet")
                let rules = try JSONValue(parsing: try larder(home, ["explain", fresh, "--json"]).output.joined())
                #expect((rules["rules"]?.count ?? 0) > 0)

                #expect(try larder(home, ["pin", fresh]).output == ["pinned: image/png, 16×16, 1.0 kB"])
                let peek = try larder(home, ["peek", fresh]).output
                #expect(peek.first == "\(fresh)  fresh" && peek.contains("  pinned      yes"))
                let list = try larder(home, ["ls"]).output
                #expect(list.count == 4 && list[0].hasPrefix("TYPE ") && list[0].hasSuffix(" URL"))
                #expect(list.contains { $0.contains(" pin ") && $0.hasSuffix(" \(fresh)") })
                let lines = try larder(home, ["ls", "--json"]).output.map { try JSONValue(parsing: $0) }
                #expect(Set(lines.compactMap { $0["bytes"]?.int }) == [1000, 2000, 3000])

                let (prefix, count) = (origin.url("fresh", ""), ["rm", "--prefix", origin.url("fresh", "")])
                #expect(try larder(home, ["ls", "--prefix", prefix]).output.count == 3)
                #expect(try larder(home, count + ["--dry-run"]).output == ["would remove 2 images, 4.0 kB"])
                #expect(try larder(home, ["rm", fresh, "--dry-run"]).output == ["would remove 1.0 kB"])
                #expect(try larder(home, ["rm"]).end == .exit(2))
                #expect(try larder(home, count + [fresh]).end == .exit(2))

                #expect(try larder(home, ["stats"]).output[0].hasPrefix("cached       3 images of 100000"))
                #expect(try larder(home, ["clear"]).end == .exit(2))
                #expect(try larder(home, ["clear", "--yes"]).output == ["removed 2 images, 5.0 kB"])
                #expect(try larder(home, ["unpin", fresh]).output == ["unpinned"])
                #expect(try larder(home, ["unpin", fresh]).output == ["the image was not pinned"])
                #expect(try larder(home, ["rm", fresh]).output == ["removed 1.0 kB"])
                #expect(try larder(home, ["rm", fresh]).output == ["the image was not cached"])
                #expect(try larder(home, ["get", fresh]).end == .exit(0))
                #expect(try larder(home, count).output == ["removed 1 image, 1.0 kB"])
                #expect(try larder(home, count).output == ["removed 0 images, 0 B"])
                #expect(try larder(home, ["stats", "--json"]).output[0].contains("\"entries\":0"))
            }
        }

        @Test("if a list arrives in several pages, ls aligns all rows to the same columns")
        func pages() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let urls = (0..<1100).map { origin.url("svg", "\($0).svg") }
                let prefetch = try larder(home, ["prefetch", "-", "--json"], input: urls.joined(separator: "\n"))
                #expect(prefetch.end == .exit(0), "\(prefetch.log)")
                let list = try larder(home, ["ls"]).output
                #expect(list.count == 1101)
                #expect(
                    Set(list.dropFirst().compactMap { $0.split(separator: " ").last.map(String.init) }) == Set(urls))
                #expect(
                    Set(list.dropFirst().compactMap { $0.range(of: "http")?.lowerBound.utf16Offset(in: $0) }).count == 1
                )
            }
        }
    }
}
