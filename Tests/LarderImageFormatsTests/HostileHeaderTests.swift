import LarderImageFormats
import TestSupport
import Testing

@Suite("Hostile and broken image headers")
struct HostileHeaderTests {
    static let samples: [[UInt8]] =
        EncodedImages.all.map(\.bytes) + [
            MadeImages.apng(10, 20, frames: 3),
            MadeImages.jpeg(30, 20, before: MadeImages.exif(orientation: 6, isBig: false)),
            MadeImages.gif(30, 20, before: [0x21, 0xF9, 4, 0, 0, 0, 0, 0]),
            MadeImages.extended(30, 20, isAnimated: true),
            MadeImages.avif(30, 20, turns: 1), MadeImages.bmp(30, -20, header: 124),
            MadeImages.ico([MadeImages.bitmapHeader(40, 16, 32), MadeImages.png(32, 32)]),
            MadeImages.svg(
                "width='5mm' height='7' viewBox='0 0 1 2'",
                prolog: "<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY a 'b'>]><!-- c -->"),
        ]

    @Test("the header that the reader finds does not depend on how the bytes are split", arguments: samples)
    func pieces(_ bytes: [UInt8]) {
        let whole = readHeader(bytes)
        guard case .found = whole else { return #expect(Bool(false), "\(whole)") }
        for size in [1, 2, 3, 7, 64, 511] { #expect(readHeader(bytes, pieces: size) == whole) }
    }

    @Test(
        "after white space of any length, the result of the reader does not depend on how the bytes are split",
        arguments: [" ", "\t", "\u{0C}", "\u{EF}\u{BB}\u{BF}  "], ["w<?xml", "<svg", "<\0", ""])
    func spaces(space: String, rest: String) {
        for count in [1, 16, 17, 18, 19, 64, 600] {
            let bytes = space.unicodeScalars.map { UInt8($0.value) }
            let start = Array(repeatElement(bytes, count: count).joined().prefix(count))
            let document = start + Array(rest.utf8) + Array(repeating: 0x20, count: 600)
            let whole = readHeader(document)
            for size in [1, 7, 18, 511] { #expect(readHeader(document, pieces: size) == whole) }
        }
    }

    @Test("a truncated header is never accepted as complete", arguments: samples)
    func truncations(_ bytes: [UInt8]) {
        let whole = readHeader(bytes)
        var wasFound = false
        for length in 0...bytes.count {
            let result = readHeader(Array(bytes.prefix(length)))
            switch result {
            case .needMore: #expect(Bool(false), "no result for \(length) bytes")
            case .found:
                #expect(result == whole)
                wasFound = true
            // Once a prefix of the file has been accepted, no longer prefix may be rejected.
            case .rejected(let error):
                #expect(!wasFound, "\(length)")
                #expect([.truncatedImage, .notAnImage].contains(error.reason), "\(length): \(error)")
            }
        }
        #expect(wasFound)
    }

    @Test("changed bytes do not make the reader trap, and no accepted header has a side of 0", arguments: samples)
    func flips(_ bytes: [UInt8]) {
        var generator = SeededGenerator(seed: UInt64(bytes.count))
        for _ in 0..<3_000 {
            var changed = bytes
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let place = Int.random(in: 0..<min(changed.count, 400), using: &generator)
                let extreme: UInt8 = [0x00, 0xFF, 0x7F, 0x80].randomElement(using: &generator) ?? 0
                changed[place] = Bool.random(using: &generator) ? extreme : UInt8.random(in: 0...255, using: &generator)
            }
            let result = readHeader(changed)
            if case .found(let header) = result {
                #expect(header.width > 0 && header.height > 0)
                try? ImageLimits().check(header)
            }
            #expect(result != .needMore)
            #expect(readHeader(changed, pieces: 5) == result)
        }
    }

    @Test("random bytes after each signature do not make the reader trap")
    func noise() {
        var generator = SeededGenerator(seed: 1)
        for sample in Self.samples {
            for kept in [4, 8, 12, 18, 30] {
                for _ in 0..<100 {
                    let noise = (0..<300).map { _ in UInt8.random(in: 0...255, using: &generator) }
                    #expect(readHeader(Array(sample.prefix(kept)) + noise) != .needMore)
                }
            }
        }
    }

    @Test("up to 16 MiB of metadata before the size are skipped")
    func lookAhead() {
        var reader = ImageHeaderReader()
        let segment = MadeImages.segment(0xE2, [UInt8](repeating: 1, count: 65_000))
        _ = reader.feed([0xFF, 0xD8])
        for _ in 0..<200 { #expect(reader.feed(segment) == .needMore) }
        guard case .found = reader.feed(MadeImages.frame(5, 6)) else { return #expect(Bool(false)) }

        var second = ImageHeaderReader()
        _ = second.feed([0xFF, 0xD8])
        var count = 0
        while second.feed(segment) == .needMore, count < 1000 { count += 1 }
        #expect((250...260).contains(count))
        guard case .rejected(let error) = second.progress else { return #expect(Bool(false)) }
        #expect(error.reason == .damagedImage)
    }

    @Test("bytes after a complete header do not change the result of the reader")
    func afterwards() {
        var reader = ImageHeaderReader()
        let first = reader.feed(MadeImages.png(3, 4))
        #expect(reader.feed(MadeImages.png(0, 4)) == first)
        #expect(reader.finish() == first)
    }
}
