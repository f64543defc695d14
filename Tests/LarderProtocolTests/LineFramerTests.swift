import LarderProtocol
import TestSupport
import Testing

@Suite("Line framing")
struct LineFramerTests {
    /// A line that the framer returns, or its report of a line that is too long.
    private enum Found: Equatable {
        case line([UInt8])
        case tooLong
    }

    private func frame(_ pieces: [[UInt8]], limit: Int = 64) -> [Found] {
        var framer = LineFramer(maximumLineBytes: limit)
        var found = pieces.flatMap { lines(in: $0, of: &framer) }
        if let last = framer.finish() { found.append(Self.found(last)) }
        return found
    }

    /// The lines that end in a piece of the input.
    private func lines(in piece: [UInt8], of framer: inout LineFramer) -> [Found] {
        piece.withUnsafeBytes { bytes in
            var (found, offset): ([Found], Int) = ([], 0)
            while let line = framer.next(in: bytes, at: &offset) {
                found.append(Self.found(line))
                if case .assembled(let memory) = line { framer.reuse(memory) }
            }
            #expect(offset == piece.count)
            return found
        }
    }

    private static func found(_ line: LineFramer.Line) -> Found {
        switch line {
        case .whole(let bytes): .line(Array(bytes))
        case .assembled(let bytes): .line(bytes)
        case .tooLong: .tooLong
        }
    }

    private func line(_ text: String) -> Found { .line(Array(text.utf8)) }

    @Test("dropping an incomplete line frees its buffer and skips the rest of that line")
    func dropped() {
        var framer = LineFramer(maximumLineBytes: 64)
        var found: [Found] = []
        func receive(_ text: String) { found += lines(in: Array(text.utf8), of: &framer) }
        receive("a\nbe")
        #expect(framer.pendingBytes == 2)
        framer.dropUnfinishedLine()
        #expect(framer.pendingBytes == 0)
        receive("gin\nc\n")
        framer.dropUnfinishedLine()
        receive("d\n")
        #expect(found == [line("a"), line("c"), line("d")])
    }

    @Test("a line ends with LF or CRLF, and the last line may end with the input")
    func lineEnds() {
        #expect(frame([Array("a\nb\r\nc".utf8)]) == [line("a"), line("b"), line("c")])
    }

    @Test("blank lines are ignored", arguments: ["\n", "\r\n", "  \n", "\t \r\n", "", " ", "\r"])
    func blankLines(text: String) {
        #expect(frame([Array(text.utf8)]) == [])
        #expect(frame([Array((text + "\nx").utf8)]) == [line("x")])
    }

    @Test("a line of the maximum length is accepted and a longer one is not, whatever the line ending")
    func limit() {
        let whole = String(repeating: "x", count: 64)
        for end in ["\n", "\r\n", ""] {
            #expect(frame([Array((whole + end).utf8)]) == [line(whole)])
            #expect(frame([Array((whole + "x" + end).utf8)]) == [.tooLong])
        }
    }

    @Test("a line over the limit is reported once and dropped, and the next line is returned")
    func recovery() {
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000)
        #expect(frame([long, long, Array("\nnext\n".utf8)]) == [.tooLong, line("next")])
    }

    @Test("a line over the limit is not buffered")
    func memory() {
        var framer = LineFramer(maximumLineBytes: 1000)
        let piece = [UInt8](repeating: 1, count: 300)
        for _ in 0..<100 {
            _ = lines(in: piece, of: &framer)
            #expect(framer.pendingBytes <= 1001)
        }
        #expect(framer.pendingBytes == 0)
    }

    @Test("each call of `next` returns one line, and the following call continues after that line")
    func oneAtATime() {
        var framer = LineFramer()
        let input = Array("one\ntwo\nthree\n".utf8)
        var (found, offset): ([Found], Int) = ([], 0)
        while offset < input.count {
            input.withUnsafeBytes { bytes in
                if let line = framer.next(in: bytes, at: &offset) { found.append(Self.found(line)) }
            }
        }
        #expect(found == [line("one"), line("two"), line("three")])
    }

    @Test("a line that arrives in one piece is not copied, and one that arrives in several is assembled")
    func copies() {
        var framer = LineFramer()
        Array("whole\nspl".utf8).withUnsafeBytes { bytes in
            var offset = 0
            guard case .whole(let line) = framer.next(in: bytes, at: &offset) else {
                Issue.record("the line is not whole")
                return
            }
            #expect(line.baseAddress == bytes.baseAddress)
            let next = framer.next(in: bytes, at: &offset).map(Self.found)
            #expect(next == nil && offset == bytes.count)
        }
        Array("it\n".utf8).withUnsafeBytes { bytes in
            var offset = 0
            guard case .assembled(let line) = framer.next(in: bytes, at: &offset) else {
                Issue.record("the line is not assembled")
                return
            }
            #expect(String(decoding: line, as: UTF8.self) == "split")
            #expect(framer.pendingBytes == 0)
        }
    }

    @Test("the lines do not depend on how the input is split")
    func anySplit() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            let input = randomInput(using: &generator)
            let expected = frame([input], limit: 12)
            #expect(frame(input.map { [$0] }, limit: 12) == expected)
            for cut in input.indices {
                #expect(frame([Array(input[..<cut]), Array(input[cut...])], limit: 12) == expected)
            }
            for _ in 0..<20 {
                #expect(frame(randomPieces(of: input, using: &generator), limit: 12) == expected)
            }
        }
    }

    private func randomInput(using generator: inout SeededGenerator) -> [UInt8] {
        let alphabet: [UInt8] = Array("ab\n\r \t{}\n".utf8) + [0xC3, 0xA9, 0]
        return (0..<Int.random(in: 0...60, using: &generator)).map { _ in alphabet.randomElement(using: &generator)! }
    }

    private func randomPieces(of input: [UInt8], using generator: inout SeededGenerator) -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        var rest = input[...]
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 0...9, using: &generator))
            pieces.append(Array(piece))
            rest = rest.dropFirst(piece.count)
        }
        return pieces
    }
}
