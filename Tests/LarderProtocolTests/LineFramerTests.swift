import LarderProtocol
import TestSupport
import Testing

@Suite("Line framing")
struct LineFramerTests {
    /// What came out of a framer, in order.
    private enum Found: Equatable {
        case line([UInt8])
        case tooLong
    }

    private func frame(_ pieces: [[UInt8]], limit: Int = 64) -> [Found] {
        var framer = LineFramer(maximumLineBytes: limit)
        var found: [Found] = []
        func note(_ output: LineFramer.Output) -> Bool {
            switch output {
            case .line(let bytes): found.append(.line(Array(bytes)))
            case .tooLong: found.append(.tooLong)
            }
            return true
        }
        for piece in pieces {
            let taken = piece.withUnsafeBytes { framer.receive($0, note) }
            #expect(taken == piece.count)
        }
        framer.finish(note)
        return found
    }

    private func line(_ text: String) -> Found { .line(Array(text.utf8)) }

    @Test("an unfinished line that is dropped is not held any more, and the next one is whole")
    func dropped() {
        var framer = LineFramer(maximumLineBytes: 64)
        var lines: [String] = []
        func receive(_ text: String) {
            _ = Array(text.utf8).withUnsafeBytes { bytes in
                framer.receive(bytes) { output in
                    if case .line(let line) = output { lines.append(String(decoding: line, as: UTF8.self)) }
                    return true
                }
            }
        }
        receive("a\nbe")
        #expect(framer.pendingBytes == 2)
        framer.dropUnfinishedLine()
        #expect(framer.pendingBytes == 0)
        receive("gin\nc\n")
        framer.dropUnfinishedLine()
        receive("d\n")
        #expect(lines == ["a", "c", "d"])
    }

    @Test("lines end at LF, with or without a CR, and the last one at the end of the input")
    func lineEnds() {
        #expect(frame([Array("a\nb\r\nc".utf8)]) == [line("a"), line("b"), line("c")])
    }

    @Test("blank lines are ignored", arguments: ["\n", "\r\n", "  \n", "\t \r\n", "", " ", "\r"])
    func blankLines(text: String) {
        #expect(frame([Array(text.utf8)]) == [])
        #expect(frame([Array((text + "\nx").utf8)]) == [line("x")])
    }

    @Test("a line of exactly the limit passes and one byte more does not, whatever its line end")
    func limit() {
        let whole = String(repeating: "x", count: 64)
        for end in ["\n", "\r\n", ""] {
            #expect(frame([Array((whole + end).utf8)]) == [line(whole)])
            #expect(frame([Array((whole + "x" + end).utf8)]) == [.tooLong])
        }
    }

    @Test("a line over the limit is reported once and dropped up to its end, and the next line is served")
    func recovery() {
        let long = [UInt8](repeating: UInt8(ascii: "x"), count: 10_000)
        #expect(frame([long, long, Array("\nnext\n".utf8)]) == [.tooLong, line("next")])
    }

    @Test("a line over the limit holds no memory")
    func memory() {
        var framer = LineFramer(maximumLineBytes: 1000)
        let piece = [UInt8](repeating: 1, count: 300)
        for _ in 0..<100 {
            _ = piece.withUnsafeBytes { framer.receive($0) { _ in true } }
            #expect(framer.pendingBytes <= 1001)
        }
        #expect(framer.pendingBytes == 0)
    }

    @Test("the framer stops where its caller says and goes on there")
    func stopping() {
        var framer = LineFramer()
        var input = Array("one\ntwo\nthree\n".utf8)[...]
        var lines: [String] = []
        while !input.isEmpty {
            let taken = input.withUnsafeBytes { bytes in
                framer.receive(bytes) { output in
                    if case .line(let bytes) = output { lines.append(String(decoding: bytes, as: UTF8.self)) }
                    return false
                }
            }
            input = input.dropFirst(taken)
        }
        #expect(lines == ["one", "two", "three"])
    }

    @Test("the same lines come out when the input arrives byte by byte, in every split in two, and in random pieces")
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
