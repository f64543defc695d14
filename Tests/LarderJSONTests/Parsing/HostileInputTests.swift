import LarderJSON
import TestSupport
import Testing

@Suite("Broken input")
struct HostileInputTests {
    /// Checks that the parser and the reference parser agree on `bytes`.
    private func check(_ bytes: [UInt8], _ parser: inout JSONParser, _ comment: String) {
        let expected = ReferenceParser.parse(bytes, maximumDepth: 20)
        do {
            let value = try bytes.withUnsafeBytes { try parser.parse($0) }
            #expect(Model(value) == expected, "\(comment)")
        } catch let error as JSONError {
            #expect(expected == nil, "\(comment): \(error)")
            #expect((0...bytes.count).contains(error.offset))
        } catch {
            Issue.record(error)
        }
    }

    @Test("the parser agrees with the reference parser on every prefix of a document", arguments: 0..<10)
    func prefixes(seed: UInt64) {
        var generator = Generator(seed: seed)
        var parser = JSONParser(maximumDepth: 20)
        let bytes = generator.document(depth: 4)
        for count in 0...min(bytes.count, 1500) { check(Array(bytes[..<count]), &parser, "prefix of \(count) bytes") }
    }

    @Test(
        "the parser agrees with the reference parser on mutated documents",
        arguments: 0..<40)
    func mutations(seed: UInt64) {
        var generator = Generator(seed: 1000 + seed)
        generator.wide = 2
        var parser = JSONParser(maximumDepth: 20)
        for iteration in 0..<40 {
            let original = generator.document(depth: 3)
            for _ in 0..<40 {
                var bytes = Array(original.prefix(400))
                for _ in 0...Int.random(in: 0..<3, using: &generator.random) { Self.mutate(&bytes, &generator.random) }
                check(
                    bytes, &parser, "iteration \(iteration): \(String(decoding: bytes, as: UTF8.self).debugDescription)"
                )
            }
        }
    }

    @Test("the parser agrees with the reference parser on random tokens", arguments: 0..<10)
    func randomTokens(seed: UInt64) {
        let tokens = [
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"\\u0061\"", "1", "-0", "1e5", "true", "false", "null",
            " ",
            "\n", "\"", "\\", "{\"a\":", "[[", "]]", "\"é\"", "0", "{}", "[]",
        ]
        var random = SeededGenerator(seed: 2000 + seed)
        var parser = JSONParser(maximumDepth: 20)
        for _ in 0..<2000 {
            let text = (0..<Int.random(in: 1..<12, using: &random)).map { _ in random.pick(tokens) }.joined()
            check(Array(text.utf8), &parser, text)
        }
    }

    @Test("the parser agrees with the reference parser on random bytes")
    func noise() {
        var random = SeededGenerator(seed: 3000)
        var parser = JSONParser(maximumDepth: 20)
        for _ in 0..<5000 {
            let count = Int.random(in: 0..<40, using: &random)
            check((0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }, &parser, "noise")
        }
    }

    private static func mutate(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        let interesting =
            Array("{}[]\",:\\u0e.-tfn \n".utf8) + [0, 0x1F, 0x7F, 0x80, 0xC3, 0xE2, 0xED, 0xF0, 0xF4, 0xFF]
        let place = bytes.isEmpty ? 0 : Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<7, using: &random) {
        case 0 where !bytes.isEmpty: bytes[place] = UInt8.random(in: .min ... .max, using: &random)
        case 1 where !bytes.isEmpty: bytes[place] = random.pick(interesting)
        case 2 where !bytes.isEmpty: bytes.remove(at: place)
        case 3: bytes.insert(random.pick(interesting), at: place)
        case 4 where !bytes.isEmpty: bytes.removeSubrange(place..<min(bytes.count, place + 9))
        case 5 where !bytes.isEmpty: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 9)], at: place)
        case 6 where bytes.count > 1: bytes.swapAt(place, Int.random(in: 0..<bytes.count, using: &random))
        default: bytes.append(random.pick(interesting))
        }
    }
}
