import Testing

@testable import LarderImageFormats

@Suite("Work on images")
struct WorkTests {
    @Test("the steps of the parsers are limited for each byte, however the image is split", arguments: [1, 7, .max])
    func steps(pieces: Int) {
        for (name, bytes) in WorstImages.all(size: 30_000) {
            var reader = ImageHeaderReader()
            var detector = TruncationDetector()
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = Array(rest.prefix(pieces))
                rest = rest.dropFirst(pieces)
                _ = reader.feed(piece)
                detector.feed(piece)
            }
            #expect(reader.budget.taken <= 2 * bytes.count, "\(name)")
            #expect(detector.budget.taken <= 2 * bytes.count, "\(name)")
        }
    }

    @Test("a loop over a count in the bytes ends when its steps are used up")
    func declaredCount() {
        var taken = 0
        let result = ByteReader.parse([0xFF, 0xFF, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 96)) {
            (reader) throws(ByteReader.Damage) in
            defer { taken = reader.budget.taken }
            for _ in 0..<(try reader.number(4)) { _ = try reader.number(0) }
            return true
        }
        #expect(result == nil)
        #expect(taken == 2 * 100)
    }

    @Test("a parser that makes no progress ends with its budget")
    func noProgress() {
        var budget = StepBudget()
        budget.receive(3)
        var steps = 0
        while budget.take() { steps += 1 }
        #expect(steps == 6)
        budget.receive(1)
        let mayContinue = budget.take()
        #expect(mayContinue)
    }

    @Test("a number of 2^63 or more, a number beyond the end and a negative length are damage", arguments: [8, 9, -1])
    func numbers(length: Int) {
        let number = ByteReader.parse([UInt8](repeating: 0xFF, count: 8)) { (reader) throws(ByteReader.Damage) in
            try reader.number(length)
        }
        #expect(number == nil)
    }

    @Test("boxes are read up to the end, and a box that exceeds its container is damage")
    func boxes() {
        func types(_ bytes: [UInt8]) -> [BoxType]? {
            ByteReader.parse(bytes) { (reader) throws(ByteReader.Damage) in
                var types: [BoxType] = []
                try reader.boxes { (type, box) throws(ByteReader.Damage) in
                    types.append(type)
                    if type == "outr" { try box.boxes { (type, _) throws(ByteReader.Damage) in types.append(type) } }
                }
                return types
            }
        }
        let inner: [UInt8] = [0, 0, 0, 9] + Array("abcd".utf8) + [7]
        #expect(
            types([0, 0, 0, 17] + Array("outr".utf8) + inner + [0, 0, 0, 8] + Array("last".utf8))
                == ["outr", "abcd", "last"])
        #expect(types([0, 0, 0, 16] + Array("outr".utf8) + inner) == nil)
    }
}
