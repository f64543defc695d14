import ArgumentParser
import Foundation
import LarderJSON

/// `larder-bench json`: how fast documents are parsed, beside Foundation's parser in the same run.
struct JSONBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "json",
        abstract: "Parse, write and merge a configuration document, and compare with JSONSerialization.")

    @Option(help: "Size of the generated document in megabytes (10^6 bytes).")
    var megabytes = 1.0

    @Option(help: "Measure this document instead of a generated one.")
    var file: String?

    @Option(help: "Also write the measured document to this file, for other parsers.")
    var save: String?

    @Option(help: "Seconds spent on each measurement; the pass with the least processor time counts.")
    var seconds = 1.0

    @Flag(help: "Print one JSON object instead of a table.")
    var json = false

    func validate() throws {
        guard megabytes > 0, megabytes <= 1000 else { throw ValidationError("--megabytes is between 0 and 1000.") }
        guard seconds > 0 else { throw ValidationError("--seconds is above 0.") }
    }

    func run() throws {
        let bytes: [UInt8]
        if let file {
            bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: file)))
        } else {
            bytes = SampleDocument.bytes(count: Int(megabytes * 1e6))
        }
        if let save { try Data(bytes).write(to: URL(fileURLWithPath: save)) }
        let results = try measure(bytes)
        if json { print(report(bytes.count, results)) } else { table(bytes.count, results) }
    }

    /// One line of the result: seconds for one pass.
    private struct Result {
        let name: StaticString
        let label: String
        let seconds: Double
    }

    private func measure(_ bytes: [UInt8]) throws -> [Result] {
        let data = Data(bytes)
        let value = try JSONValue(parsing: bytes)
        let patch: JSONValue = ["larderBench": ["enabled": true]]
        var parser = JSONParser()
        let request = Array(#"{"id":1,"method":"config.get","params":{"path":"search.limit"}}"#.utf8)
        let requests = 10_000
        return [
            Result(
                name: "parse", label: "parse, memory used again",
                seconds: try best { try bytes.withUnsafeBytes { try parser.parse($0).count } }),
            Result(
                name: "parseOwned", label: "parse into a new document",
                seconds: try best { try JSONValue(parsing: bytes).count }),
            Result(
                name: "foundation", label: "JSONSerialization",
                seconds: try best {
                    try JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed) is String ? 1 : 2
                }),
            Result(name: "write", label: "compact text", seconds: try best { value.compactBytes.count }),
            Result(
                name: "patch", label: "apply a small merge patch",
                seconds: try best { MergePatch.apply(patch, to: value).count }),
            Result(
                name: "request", label: "parse one request of \(request.count) bytes",
                seconds: try best {
                    try request.withUnsafeBytes { bytes in
                        var sum = 0
                        for _ in 0..<requests { sum &+= try parser.parse(bytes).count }
                        return sum
                    }
                } / Double(requests)),
        ]
    }

    /// The least processor time of one pass, in seconds; what else the machine does hardly counts then. The body returns
    /// something of its work, so that none of it is optimised away.
    private func best(_ body: () throws -> Int) throws -> Double {
        let clock = ContinuousClock()
        let end = clock.now + .seconds(seconds)
        var shortest = Double.infinity
        var sum = 0
        repeat {
            let start = processorTime()
            sum &+= try body()
            shortest = min(shortest, processorTime() - start)
        } while clock.now < end
        if sum == .min { print(sum) }
        return shortest
    }

    private func processorTime() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    private func ratio(_ results: [Result]) -> Double {
        let seconds = Dictionary(uniqueKeysWithValues: results.map { ($0.name.description, $0.seconds) })
        return (seconds["foundation"] ?? 0) / (seconds["parse"] ?? 1)
    }

    private func table(_ count: Int, _ results: [Result]) {
        print("document of \(count) bytes, best of \(seconds) s each")
        for result in results {
            let label = result.label.padding(toLength: 34, withPad: " ", startingAt: 0)
            if result.label.hasPrefix("parse one") {
                print(label, String(format: "%8.0f ns", result.seconds * 1e9))
            } else {
                print(label, String(format: "%8.0f MB/s", Double(count) / result.seconds / 1e6))
            }
        }
        print(
            "parse / JSONSerialization".padding(toLength: 34, withPad: " ", startingAt: 0),
            String(format: "%8.1f", ratio(results)))
    }

    private func report(_ count: Int, _ results: [Result]) -> String {
        JSONValue.building { writer in
            writer.beginObject()
            writer.member("bytes", count)
            for result in results {
                writer.name(result.name)
                writer.beginObject()
                writer.name("seconds")
                writer.double(result.seconds)
                if result.name.description != "request" {
                    writer.name("megabytesPerSecond")
                    writer.double(Double(count) / result.seconds / 1e6)
                }
                writer.endObject()
            }
            writer.name("ratioToFoundation")
            writer.double(ratio(results))
            writer.endObject()
        }.compactText
    }
}
