import Foundation
import LarderEncoding
import LarderJSON
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Text for a terminal")
struct TerminalTextTests {
    @Test("control characters and changes of the text direction are escaped as in JSON, except line ends and tabs")
    func escapes() {
        #expect("a\tb\nc".terminalText == "a\tb\nc")
        #expect("\u{9B}2J\u{7F}\u{85}\u{202E}x\u{2066}".terminalText == #"\u009b2J\u007f\u0085\u202ex\u2066"#)
        #expect("\u{1B}]0;t\u{07}\r\n".terminalText == "\\u001b]0;t\\u0007\\u000d\n")
        for value: UInt32 in [0x61C, 0x200E, 0x200F, 0x2028, 0x2029] + Array(0x202A...0x202E) + Array(0x2066...0x2069) {
            let scalar = Unicode.Scalar(value)!
            #expect("a\(scalar)b".terminalText == "a\(String(format: "\\u%04x", value))b")
        }
        #expect("schön 😀".terminalText == "schön 😀")
    }

    @Test("the colors of larder are kept, and other control sequences are escaped")
    func colors() {
        let style = Style(isTerminal: true, noColor: "", terminal: "xterm")
        let text = style.strong("a") + style.problem("b") + style.warning("c") + style.good("d")
        #expect(text.terminalText == text)
        #expect("\u{1B}[8mhidden".terminalText == #"\u001b[8mhidden"#)
    }
}

extension Integration {
    @Suite("Output on a terminal")
    struct TerminalOutputTests {
        private static let hostile = "\u{9B}2J\u{9B}31m\u{7F}X\u{202E}Y\u{2066}"

        /// Runs `larder` on a terminal. Returns what it writes there.
        private func onTerminal(_ home: AgentHome, _ arguments: [String]) throws -> String {
            let words = try [Products.commandLine] + arguments
            let command = words.map(\.shellWord).joined(separator: " ")
            let environment = home.clientEnvironment.merging(["TERM": "xterm"]) { $1 }
            return try Command.run("script", ["-qc", "exec " + command, "/dev/null"], environment: environment).text
        }

        @Test("no verb writes control characters of names and values to a terminal")
        func verbs() throws {
            try AgentHome.with(starting: true) { home in
                let value = JSONValue.object([
                    ("v", .string(Self.hostile)), ("n" + Self.hostile, 1), ("l", [.string(Self.hostile)]),
                ])
                try home.larder("set", "o", value.compactText, "--reason", Self.hostile)
                try home.larder("set", "s", "--string", Self.hostile)
                for arguments in [
                    ["get"], ["get", "s"], ["get", "s", "--raw"], ["get", "o", "--raw"], ["get", "--json"],
                    ["watch", "--count", "1"], ["watch", "s", "--count", "1"], ["watch", "--count", "1", "--json"],
                    ["call", "config.get"], ["call", "config.get", "--raw"], ["call", "config.get", "--json"],
                    ["explain"], ["explain", "o", "--json"], ["diff", "1"], ["diff", "1", "--json"],
                    ["history"], ["history", "--json"], ["wait", "s"], ["render", "--json"],
                    ["set", "s", "1", "--if-value", "x"], ["set", "s", "1", "--if-value", "x", "--json"],
                    ["get", Self.hostile], ["get", "-n", Self.hostile, "--json"],
                ] {
                    let text = try onTerminal(home, arguments)
                    #expect(!text.isEmpty)
                    for character in Self.hostile.unicodeScalars where !character.isASCII || character.value == 0x7F {
                        #expect(!text.unicodeScalars.contains(character), "\(arguments): \(text.debugDescription)")
                    }
                }
                let json = try onTerminal(home, ["get", "s", "--json"])
                #expect(try JSONValue(parsing: json)["value"]?.string == Self.hostile)
                #expect(try home.larder("get", "s").text == Self.hostile + "\n", "a pipe gets the text unchanged")
            }
        }
    }
}
