import TestSupport
import Testing

@testable import LarderImageFormats

@Suite("Image sequences and minimized images")
struct HEIFSequenceTests {
    typealias Made = MadeImages

    static let description = Made.meta(Made.box("hdlr", [0, 0, 0, 0]), Made.iprp([Made.ispe(5, 6)], [(1, [1])]))
    static let data = Made.box("mdat", [1, 2, 3])
    static let movie = Made.movie(Made.track("pict", 30, 20))

    @Test(
        "a sequence without a primary item has the size of its first picture track",
        arguments: [
            (Made.brands("avis", "msf1", "avif") + description + movie + data, "avif"),
            (Made.brands("avis", "avif") + data + movie, "avif"), (Made.brands("msf1", "hevc") + movie + data, "heic"),
            (Made.brands("avis") + Made.movie(Made.track("auxv", 9, 9), Made.track("pict", 30, 20)) + data, "avif"),
            (Made.brands("avis") + Made.movie(Made.track("pict", 30, 20), Made.track("pict", 9, 9)) + data, "avif"),
        ])
    func sequences(_ image: [UInt8], type: String) {
        #expect(summary(image) == "\(type) 30×20")
        #expect(header(image)?.isAnimated == true)
        for size in [1, 7, 100] { #expect(readHeader(image, pieces: size) == readHeader(image)) }
        for length in 0..<image.count { #expect(!isComplete(image.prefix(length)), "\(length) of \(image.count)") }
        #expect(isComplete(image))
        #expect(isComplete(image + [1, 2, 3]))
    }

    @Test("a sequence with a track of alpha values has alpha")
    func alpha() {
        let tracks = [Made.track("pict", 30, 20), Made.track("auxv", 30, 20)]
        #expect(header(Made.brands("avis") + Made.movie(tracks[0], tracks[1]))?.hasAlpha == true)
        #expect(header(Made.brands("avis") + Made.movie(tracks[0]))?.hasAlpha == false)
    }

    @Test("the primary item takes precedence over the tracks")
    func primaryItem() {
        let meta = Made.meta(Made.pitm(1), Made.iprp([Made.ispe(5, 6)], [(1, [1])]))
        #expect(summary(Made.brands("avis") + meta + Self.movie) == "avif 5×6")
    }

    @Test("boxes that are parsed in one step have at most 512 KiB, and longer ones are rejected before they arrive")
    func longBoxes() {
        let limit = 512 << 10
        /// A box of `size` bytes: the contents of a box, and a free box.
        func extended(_ box: [UInt8], _ type: String, _ size: Int) -> [UInt8] {
            let contents = box.dropFirst(8)
            return Made.box(type, contents + Made.box("free", [UInt8](repeating: 0, count: size - contents.count - 16)))
        }
        let properties = Made.iprp([Made.ispe(5, 6)], [(1, [1])])
        func image(_ size: Int) -> [UInt8] {
            Made.brands("avif") + Made.meta(Made.pitm(1), extended(properties, "iprp", size))
        }
        func sequence(_ size: Int) -> [UInt8] { Made.brands("avis") + extended(Self.movie, "moov", size) }
        #expect(summary(image(limit)) == "avif 5×6 frames 1")
        #expect(summary(sequence(limit)) == "avif 30×20")
        for size in [limit + 1, 1 << 20] {
            #expect(summary(image(size).prefix(200) + []) == "damagedImage")
            #expect(summary(sequence(size).prefix(200) + []) == "damagedImage")
        }
    }

    @Test("a sequence without a valid picture track is rejected")
    func badSequences() {
        let start = Made.brands("avis")
        for movie in [
            Made.movie(), Made.movie(Made.track("soun", 30, 20)), Made.movie(Made.track("pict", 0, 20)),
            Made.movie(Made.box("trak", [0])), Made.movie(Made.big(900, 4) + Array("trak".utf8)),
            Made.big(2 << 20, 4) + Array("moov".utf8),
        ] {
            #expect(summary(start + movie + Self.data) == "damagedImage", "\(movie)")
        }
        #expect(summary(Made.brands("avif") + Self.description + Self.movie) == "damagedImage")
        #expect(summary(start + Self.data) == "truncatedImage")
        // Boxes inside each other are read to the depth of a track only.
        var nested: [UInt8] = []
        for _ in 0..<10_000 { nested = Made.big(nested.count + 8, 4) + Array("mdia".utf8) + nested }
        #expect(summary(start + Made.movie(Made.box("trak", nested)) + Self.data) == "damagedImage")
    }

    @Test("a minimized image is read")
    func minimized() {
        #expect(summary(Made.minimized(128, 1)) == "avif 128×1 frames 1")
        #expect(summary(Made.minimized(129, 32_768)) == "avif 129×32768 frames 1")
        #expect(summary(Made.minimized(30, 20, orientation: 4)) == "avif 30×20 frames 1")
        #expect(summary(Made.minimized(30, 20, orientation: 5)) == "avif 20×30 frames 1")
        #expect(summary(Made.minimized(30, 20, codec: "heic")) == "heic 30×20 frames 1")
        #expect(summary(Made.minimized(30, 20, codec: "vvic")) == "unsupportedType")
        #expect(header(Made.minimized(30, 20, hasAlpha: true))?.hasAlpha == true)
        #expect(header(Made.minimized(30, 20))?.hasAlpha == false)
        #expect(header(Made.minimized(30, 20))?.isAnimated == false)
        var image = Made.minimized(30, 20)
        for length in 0..<image.count { #expect(!isComplete(image.prefix(length)), "\(length) of \(image.count)") }
        #expect(isComplete(image))
        // Version 1 is not defined yet.
        image[24] |= 0x40
        #expect(summary(image) == "damagedImage")
    }

    @Test("a minimized image that is too short for its size is rejected")
    func shortMinimized() {
        let image = Made.minimized(30, 20)
        #expect(summary(image.prefix(16) + Made.box("mini", [0, 0, 0, 0, 0]) + Self.data) == "damagedImage")
    }

    private func header(_ image: [UInt8]) -> ImageHeader? {
        guard case .found(let header) = readHeader(image) else { return nil }
        return header
    }

    private func isComplete(_ image: some Sequence<UInt8>) -> Bool {
        var detector = TruncationDetector()
        detector.feed(Array(image))
        return detector.isComplete
    }
}
