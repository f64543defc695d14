import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("larder image prefetch")
    struct ImagePrefetchCommandTests {
        private func larder(_ home: AgentHome, _ arguments: [String], input: String = "") throws -> Command {
            try Command.run(
                Products.commandLine, ["image"] + arguments + ["--socket", home.socket], environment: home.environment,
                directory: home.directory, input: input)
        }

        @Test("prefetch lists each failure and exits with status 1; a second run skips cached images")
        func prefetch() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let good = try (1...20).map { number in
                    try origin.put(TestImage(seed: number, size: 5000), "\(number).png")
                    return origin.url("fresh", "\(number).png")
                }
                try Data("<!doctype html>".utf8).write(to: URL(filePath: home.directory + "/origin/www/page.png"))
                let (page, none) = (origin.url("fresh", "page.png"), origin.url("fresh", "none.png"))
                try home.write("list", "# pictures\n" + ([page] + good + [none]).joined(separator: "\r\n"))
                let first = try larder(home, ["prefetch", "list"])
                #expect(first.end == .exit(1), "\(first)")
                #expect(first.output.count == 3)
                #expect(first.output[0].hasPrefix("22 images in "))
                #expect(
                    first.output[0].hasSuffix(": 20 downloaded (100 kB), 0 already cached, 2 failed"), "\(first.output)"
                )
                #expect(first.output[1].hasPrefix("  \(page)  Image rejected: "))
                #expect(first.output[2].hasPrefix("  \(none)  Not found: "))
                #expect(first.log.hasSuffix("larder: 2 of 22 images failed"))
                #expect(!first.log.contains("\u{1B}"))
                let second = try larder(home, ["prefetch", "-", "--json"], input: good.joined(separator: "\n"))
                #expect(second.end == .exit(0) && second.log.isEmpty)
                let result = try JSONValue(parsing: second.output.joined())
                #expect(result["cached"] == 20 && result["fetched"] == 0 && result["total"] == 20)
            }
        }

        @Test(
            "a list that is larger than the cache ends with status 11 and the number of images that were evicted again")
        func evicted() throws {
            try AgentHome.withImages("maximumImages: 5") { home, origin in
                let agent = try home.start()
                let urls = try (1...12).map { number in
                    try origin.put(TestImage(seed: number, size: 5000), "\(number).png")
                    return origin.url("fresh", "\(number).png")
                }
                let run = try larder(home, ["prefetch", "-"], input: urls.joined(separator: "\n"))
                #expect(run.end == .exit(11), "\(run)")
                let evicted = try 12 - agent.connect().images().count
                #expect(evicted >= 7)
                #expect(
                    run.output.count == 1
                        && run.output[0].hasSuffix(
                            ": 12 downloaded (60 kB), 0 already cached, 0 failed, \(evicted) evicted again"),
                    "\(run.output)")
                #expect(run.log.contains("larder: \(evicted) of 12 images were evicted again, "), "\(run.log)")
            }
        }

        @Test("an image that its origin forbids to cache ends with status 1, and without advice about space")
        func notKept() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                try origin.put(TestImage(seed: 1, size: 5000), "1.png")
                let run = try larder(home, ["prefetch", "-"], input: origin.url("no-store", "1.png"))
                #expect(run.end == .exit(1), "\(run)")
                #expect(run.output.first?.hasSuffix(" 0 failed, 1 not kept") == true, "\(run.output)")
                #expect(run.log.contains(" were not kept, because their origins forbid caching"), "\(run.log)")
                #expect(!run.log.contains("images.maximumBytes"))
            }
        }

        @Test("an invalid line of the list is reported with its number and reason, and the other images are fetched")
        func invalidLines() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let (good, long) = (origin.url("svg", "1.svg"), "https://a/" + String(repeating: "x", count: 8183))
                let lines = [Array(long.utf8), Array(good.utf8), [], Array("secret".utf8), [0xFF, 0xFE]]
                try Data(lines.joined(separator: [0x0A])).write(to: URL(filePath: home.directory + "/list"))
                let run = try larder(home, ["prefetch", "list"])
                #expect(run.end == .exit(1), "\(run.log)")
                #expect(run.output.count == 1, "\(run.output)")
                #expect(
                    run.output[0].hasPrefix("4 images in ") && run.output[0].contains(": 1 downloaded"), "\(run.output)"
                )
                #expect(run.output[0].hasSuffix(", 0 already cached, 3 failed (3 lines rejected)"), "\(run.output)")
                let notes = run.log.split(separator: "\n").map(String.init).filter { $0.hasPrefix("larder: ") }
                #expect(
                    notes == [
                        "larder: line 1 of list: the URL has 8193 bytes; at most 8192 are allowed",
                        "larder: line 4 of list: not an http or https URL", "larder: line 5 of list: not UTF-8",
                        "larder: 3 of 4 images failed",
                    ])
            }
        }

        @Test("with --json the result contains each rejected line or element")
        func invalidElements() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let good = origin.url("svg", "1.svg")
                func result(_ input: String) throws -> (JSONValue, String) {
                    let run = try larder(home, ["prefetch", "-", "--json"], input: input)
                    #expect(run.end == .exit(1), "\(run.log)")
                    return (try JSONValue(parsing: run.output.joined()), run.log)
                }
                let (lines, notes) = try result("\(good)\nno\n")
                #expect(lines["rejected"] == [["line": 2, "detail": "not an http or https URL"]], "\(lines)")
                #expect(lines["total"] == 2 && lines["fetched"] == 1 && lines["failed"] == 1, "\(lines)")
                #expect(lines["failures"] == [])
                let note = #"{"note":"line 2 of standard input: not an http or https URL"}"#
                #expect(notes.hasPrefix("\(note)\n"), "\(notes)")
                let (elements, _) = try result(#"["\#(good)", {"url": "\#(good)", "expectedDigest": "1"}]"#)
                #expect(elements["rejected"]?[0]?["element"] == 2, "\(elements)")
                #expect(elements["total"] == 2 && elements["cached"] == 1 && elements["failed"] == 1, "\(elements)")
            }
        }

        @Test("a list with more images than a request can have is sent in several requests")
        func manyImages() throws {
            let settings = "{ limits: { lineBytes: 4194304 }, images: { minimumFreeBytes: 0 } }"
            try AgentHome.with(settings: settings) { home in
                _ = try home.start()
                // The agent does not download from these addresses, so every image fails immediately.
                let urls = (0...10_000).map { "http://127.0.0.1/\($0).png" }
                let run = try larder(home, ["prefetch", "-", "--json"], input: urls.joined(separator: "\n"))
                #expect(run.end == .exit(1), "\(run.log)")
                let result = try JSONValue(parsing: run.output.joined())
                #expect(result["total"] == 10_001 && result["failed"] == 10_001, "\(result["total"] ?? .null)")
                #expect(result["failures"]?[0]?["name"] == "forbiddenAddress")
                let last = result["failures"]?.elements.reversed().first
                #expect(last?["url"]?.string == urls.last)
            }
        }

        @Test("the results of a list that is sent in several requests are combined into one")
        func chunks() throws {
            let settings =
                "{ limits: { lineBytes: 4096 }, images: { allowNetworks: ['127.0.0.1/32'], minimumFreeBytes: 0 } }"
            try AgentHome.with(settings: settings) { home in
                let origin = try ImageOrigin(below: home.directory)
                defer { origin.stop() }
                _ = try home.start()
                // A request has room for about 15 URLs. One URL is too long for any request.
                var urls = (1...200).map { origin.url($0 % 50 == 0 ? "fresh" : "svg", "\($0).svg") }
                let long = origin.url("svg", String(repeating: "x", count: 4096))
                urls.insert(long, at: 100)
                let run = try larder(home, ["prefetch", "-", "--json"], input: urls.joined(separator: "\n"))
                #expect(run.end == .exit(1), "\(run.log)")
                let result = try JSONValue(parsing: run.output.joined())
                #expect(result["total"] == 201 && result["fetched"] == 196 && result["failed"] == 5, "\(result)")
                let failures = Array(try require(result["failures"], "failures").elements)
                #expect(failures.map { $0["url"]?.string } == [urls[49], urls[99], long, urls[150], urls[200]])
                #expect(failures[2]["name"] == "lineTooLong")
                #expect(try origin.counts().values.allSatisfy { $0 == 1 })
            }
        }

        @Test("Ctrl-C stops a prefetch and reports the number of complete images, which stay cached")
        func interrupted() throws {
            try AgentHome.withImages { home, origin in
                let agent = try home.start()
                try origin.put(TestImage(seed: 1, size: 5000), "small.png")
                try origin.put(TestImage(seed: 2, size: 8_000_000), "large.png")
                let prefetch = try ChildProcess(
                    Products.commandLine, ["image", "prefetch", "-", "--socket", home.socket],
                    environment: home.environment, directory: home.directory, input: true)
                try prefetch.write(
                    Array("\(origin.url("fresh", "small.png"))\n\(origin.url("slow", "large.png"))\n".utf8))
                prefetch.closeInput()
                let client = try agent.connect()
                try client.waitForImages("entries", atLeast: 1)
                try client.waitForImages("activeDownloads", atLeast: 1)
                // larder installs its signal handler before it sends the list. The agent is downloading images of the
                // list, so the handler is installed now.
                prefetch.signal(SIGINT)
                #expect(try prefetch.waitForEnd() == .signal(SIGINT))
                #expect(prefetch.logText.contains("larder: stopped: "), "\(prefetch.logText)")
                #expect(prefetch.logText.contains(" of 2 images cached"))
                try client.waitForImages("activeDownloads", toBe: 0)
                #expect(try client.images().count == 1)
            }
        }

        @Test("on a terminal, a progress bar is drawn that ends at 100%")
        func terminal() throws {
            try AgentHome.withImages { home, origin in
                _ = try home.start()
                let urls = (0..<30).map { origin.url("svg", "\($0).svg") }
                try home.write("list", urls.joined(separator: "\n"))
                // script(1) runs the command on a terminal.
                let larder = try Products.commandLine
                let command = "stty columns 60; \(larder) image prefetch list --socket \(home.socket)"
                let run = try Command.run(
                    "script", ["-q", "-e", "-c", command, "/dev/null"],
                    environment: home.environment.merging(["TERM": "xterm"]) { $1 }, directory: home.directory)
                #expect(run.end == .exit(0), "\(run)")
                let text = run.output.joined(separator: "\n")
                #expect(text.contains("\r"))
                let frames = text.split { $0 == "\r" || $0 == "\n" || $0 == "\r\n" }
                #expect(frames.contains { $0.hasPrefix("30/30  [") && $0.contains("=]  100%") }, "\(frames)")
                #expect(frames.contains { $0.hasPrefix("30 images in ") })
            }
        }
    }
}
