import Foundation
import Glibc
import Logging
import Testing

@testable import LarderSystemd

@Suite("Text log lines")
struct TextLogHandlerTests {
    static let time = 1_740_830_400_250

    static func line(
        _ message: Logger.Message, _ metadata: Logger.Metadata = [:], _ level: Logger.Level = .info,
        isColored: Bool = false
    ) -> String {
        let event = LogEvent(
            level: level, message: message, metadata: metadata, source: nil, file: "A/B.swift", function: "f()",
            line: 1)
        return TextOutput(isColored: isColored).line(for: event, LogMetadata.merged([:], nil, event), at: time)
    }

    @Test("a line has time, level, message, and metadata sorted by key")
    func shape() {
        #expect(
            Self.line("upstream failed", ["revision": "\(7)", "namespace": "default"], .warning)
                == "2025-03-01T12:00:00.250Z warning upstream failed namespace=default revision=7\n")
    }

    @Test("line breaks, terminal escapes and text direction overrides in message, key or value are escaped")
    func injection() {
        let line = Self.line(
            "a\r\nb\u{1b}[2J\u{85}\u{2028}\u{202e}\u{61c}\u{200f}",
            ["k\ney": "v\n2025-01-01T00:00:00.000Z error forged"])
        #expect(
            line == "2025-03-01T12:00:00.250Z info a\\r\\nb\\u{1b}[2J\\u{85}\\u{2028}\\u{202e}\\u{61c}\\u{200f} "
                + "\"k\\ney\"=\"v\\n2025-01-01T00:00:00.000Z error forged\"\n")
    }

    @Test(
        "a value is quoted only if necessary",
        arguments: [
            ("plain", "plain"), ("/run/x.sock", "/run/x.sock"), ("größe", "größe"), ("", "\"\""), ("a b", "\"a b\""),
            ("a=b", "\"a=b\""), ("say \"x\"", "\"say \\\"x\\\"\""), ("c:\\d", "\"c:\\\\d\""), ("\t", "\"\\t\""),
        ])
    func quoting(value: String, text: String) {
        #expect(Self.line("m", ["k": .string(value)]) == "2025-03-01T12:00:00.250Z info m k=\(text)\n")
    }

    @Test("nested metadata is sorted by key")
    func nested() {
        #expect(
            Self.line("m", ["k": ["b": "2", "a": ["x", "y"]]])
                == "2025-03-01T12:00:00.250Z info m k=\"{a: [x, y], b: 2}\"\n")
    }

    @Test("only the level is colored, and only if requested")
    func color() {
        #expect(Self.line("m", [:], .error, isColored: true).contains(" \u{1b}[31merror\u{1b}[0m m"))
        #expect(!Self.line("m", [:], .error).contains("\u{1b}"))
    }

    @Test("a change of the level of the process applies to existing loggers, except those with a level of their own")
    func processLevel() {
        let level = ProcessLogLevel(.info)
        let logger = Logger(label: "x") { _ in ServiceLogHandler(.text(TextOutput(descriptor: -1)), level: level) }
        var own = logger
        own.logLevel = .error
        #expect(logger.logLevel == .info)
        for changed in Logger.Level.allCases {
            level.value = changed
            #expect(logger.logLevel == changed)
            #expect(own.logLevel == .error)
        }
    }

    @Test("each log event is written to the descriptor as one line, unless its level is disabled")
    func descriptor() throws {
        var ends: [CInt] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let writing = ends[1]
        var logger = Logger(label: "x") { _ in ServiceLogHandler(.text(TextOutput(descriptor: writing))) }
        logger[metadataKey: "namespace"] = "default"
        var quiet = logger
        quiet.logLevel = .error
        quiet[metadataKey: "namespace"] = "other"
        logger.info("kept")
        quiet.info("dropped")
        logger.debug("dropped")
        quiet.error("kept")
        close(writing)
        let lines = FileHandle(fileDescriptor: ends[0]).readDataToEndOfFile()
        let texts = String(decoding: lines, as: UTF8.self).split(separator: "\n").map { $0.dropFirst(25) }
        #expect(texts == ["info kept namespace=default", "error kept namespace=other"])
    }
}
