import TestSupport
import Testing

@testable import LarderImageFormats

@Suite("Truncation of images")
struct TruncationTests {
    private static let wholePNG =
        MadeImages.pngStart(3, 4) + MadeImages.chunk("IDAT", [9, 8]) + MadeImages.chunk("IEND", [])

    /// Complete files. Without its last byte, each of them counts as truncated.
    static let whole: [[UInt8]] =
        EncodedImages.all.filter { $0.type != "gif" }.map(\.bytes) + [
            wholePNG,
            // An animation: frames follow the first image, and contain bytes that look like an end.
            MadeImages.pngStart(3, 4) + MadeImages.chunk("acTL", [0, 0, 0, 2, 0, 0, 0, 0])
                + MadeImages.chunk("IDAT", [9])
                + MadeImages.chunk("fdAT", Array("\0\0\0\0IEND".utf8)) + MadeImages.chunk("IEND", []),
            // A thumbnail with an end marker, stuffed bytes, restart markers and fill bytes in two scans.
            [0xFF, 0xD8] + MadeImages.exif(orientation: 1, isBig: true, thumbnail: [0xFF, 0xD8, 1, 0xFF, 0xD9])
                + MadeImages.frame(5, 6, marker: 0xC2) + MadeImages.segment(0xDA, [1, 1, 0, 0, 63, 0])
                + [1, 2, 0xFF, 0x00, 3, 0xFF, 0xD0, 4, 0xFF, 0xFF, 0xD7, 5] + MadeImages.segment(0xC4, [0xFF, 0xD9])
                + MadeImages.segment(0xDA, [1, 1, 0, 0, 63, 0]) + [0xFF, 0x00, 0xD9, 0xFF, 0xD9],
            MadeImages.lossy(5, 6),
            MadeImages.brands("avif") + MadeImages.meta(MadeImages.pitm(1), MadeImages.box("idat", [1, 2, 3])),
            MadeImages.brands("avif") + MadeImages.box("mdat", [1, 2]) + MadeImages.box("free", [])
                + MadeImages.meta(MadeImages.pitm(1)),
            MadeImages.brands("avis", "avif") + MadeImages.meta(MadeImages.pitm(1)) + MadeImages.box("mdat", [1, 2])
                + MadeImages.box("moov", [1, 2, 3, 4]),
            bitmap(header: 12), bitmap(header: 40), bitmap(header: 124),
            // Huffman compression in OS/2 bitmaps, and an embedded JPEG.
            MadeImages.bmp(MadeImages.bitmapHeader(64, 30, 2, bits: 1, compression: 3, dataLength: 5), gap: 8)
                + [1, 2, 3, 4, 5],
            MadeImages.bmp(MadeImages.bitmapHeader(40, 3, 2, bits: 0, compression: 4, dataLength: 3)) + [1, 2, 3],
            // Run-length encoded bitmaps: with runs up to the end marker, with a move of the position, and with padded
            // literal pixels in the last row.
            MadeImages.runs([3, 9, 0, 0, 2, 8, 0, 1]), MadeImages.runs([0, 2, 1, 1, 1, 7, 0, 1]),
            MadeImages.runs([3, 9, 0, 0, 0, 3, 1, 2, 3, 0]),
            MadeImages.runs([3, 0x12, 0, 0, 0, 3, 0x12, 0x30], bits: 4),
            MadeImages.runs([3, 1, 0, 1, 0, 0, 2, 0, 0, 1, 0, 1], bits: 24),
            MadeImages.runs([3, 1, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0], bits: 24),
            MadeImages.ico([MadeImages.iconBitmap(3, 2), wholePNG]),
            MadeImages.ico([wholePNG, MadeImages.iconBitmap(3, 2, header: 12)], type: 2),
            MadeImages.ico([wholePNG, wholePNG], length: 8), MadeImages.ico([wholePNG], length: 0x7FFF_FFFF),
            MadeImages.ico([MadeImages.iconBitmap(5, 3, header: 124, bits: 1)], length: 8),
            MadeImages.ico([MadeImages.iconBitmap(5, 3, header: 108, bits: 32)], length: 0x7FFF_FFFF),
            MadeImages.ico([MadeImages.iconBitmap(5, 3, bits: 16, compression: 3)]),
            openMeta(), openData(),
            Array("<svg xmlns='http://www.w3.org/2000/svg'/>".utf8),
            MadeImages.svg("width='1' height='2'"),
            Array(
                """
                \u{feff}<?xml version="1.0" a="?'>"?><!-- -- <svg/> --><!DOCTYPE svg PUBLIC "-//>" '"' [
                <!ENTITY a "<b>]>"> <!-- ' ]> --> <?x ]> ?> <!ATTLIST svg b CDATA #IMPLIED> ] >
                <svg width='1' height='2'><!-- </svg> --><g title="</svg>" t='"/>'><![CDATA[</svg>]]]></g>
                <svg></svg><path d='>'/><a b='/'></a>&a;<!----></svg
                >
                """.utf8),
        ]

    /// An AVIF image whose `meta` box and the `idat` box in it extend to the end of the file.
    private static func openMeta() -> [UInt8] {
        MadeImages.brands("avif")
            + MadeImages.open(
                MadeImages.meta(
                    MadeImages.pitm(1), MadeImages.iprp([MadeImages.ispe(5, 6)], [(1, [1])]),
                    MadeImages.iloc([(1, 2, 5)], isInMeta: true),
                    MadeImages.open(MadeImages.box("idat", [0, 0, 1, 2, 3, 4, 5]))))
    }

    /// An AVIF image whose `mdat` box extends to the end of the file. The last extent of the image data ends there,
    /// too.
    private static func openData() -> [UInt8] {
        func image(at offset: Int) -> [UInt8] {
            MadeImages.brands("avif")
                + MadeImages.meta(
                    MadeImages.pitm(1), MadeImages.iloc([(2, offset + 10, 20), (1, offset, 10)]),
                    MadeImages.iprp([MadeImages.ispe(5, 6)], [(1, [1])]))
        }
        let start = image(at: 0).count + 8
        return image(at: start) + MadeImages.open(MadeImages.box("mdat", [UInt8](repeating: 3, count: 30)))
    }

    /// A bitmap of two rows with three pixels of three bytes each.
    private static func bitmap(header: Int) -> [UInt8] {
        MadeImages.bmp(MadeImages.bitmapHeader(header, 3, header == 12 ? 2 : -2)) + [UInt8](repeating: 5, count: 24)
    }

    private func isComplete(_ bytes: some Collection<UInt8>, pieces: () -> Int) -> Bool {
        var reader = TruncationDetector()
        var rest = Array(bytes)[...]
        while !rest.isEmpty {
            let piece = Array(rest.prefix(pieces()))
            rest = rest.dropFirst(piece.count)
            reader.feed(piece)
        }
        return reader.isComplete
    }

    @Test("an image is complete with its last byte and not before", arguments: whole)
    func bytes(_ image: [UInt8]) throws {
        var reader = TruncationDetector()
        for (index, byte) in image.enumerated() {
            #expect(!reader.isComplete, "\(index) of \(image.count)")
            reader.feed([byte])
        }
        #expect(reader.isComplete)
    }

    @Test("a truncated image is not complete, however it is split into pieces", arguments: whole)
    func truncations(_ image: [UInt8]) {
        var generator = SeededGenerator(seed: UInt64(image.count))
        for length in 0..<image.count {
            #expect(!isComplete(image.prefix(length)) { .max }, "\(length) of \(image.count)")
            #expect(!isComplete(image.prefix(length)) { Int.random(in: 1...40, using: &generator) }, "\(length)")
        }
        #expect(isComplete(image) { .max })
        for _ in 0..<50 { #expect(isComplete(image) { Int.random(in: 1...40, using: &generator) }) }
    }

    @Test("bytes after the end are ignored", arguments: whole)
    func trailing(_ image: [UInt8]) {
        var generator = SeededGenerator(seed: UInt64(image.count))
        let garbage = (0..<200).map { _ in UInt8.random(in: 0...255, using: &generator) }
        for size in [1, 3, 64, 1000] {
            #expect(isComplete(image + garbage) { size })
            #expect(isComplete(image + image) { size })
            #expect(isComplete(image + [UInt8](repeating: 0, count: 100)) { size })
        }
    }

    @Test(
        "changed bytes cause no trap, no endless loop and no result that depends on how the input is split",
        arguments: whole)
    func flips(_ image: [UInt8]) {
        var generator = SeededGenerator(seed: UInt64(image.count) + 1)
        for _ in 0..<400 {
            var changed = image
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let place = Int.random(in: 0..<changed.count, using: &generator)
                changed[place] = [0x00, 0xFF, 0x7F, 0x80, 0x3C, 0x3E].randomElement(using: &generator) ?? 0
            }
            let whole = isComplete(changed) { .max }
            #expect(isComplete(changed) { 1 } == whole)
            #expect(isComplete(changed) { Int.random(in: 1...40, using: &generator) } == whole)
        }
    }

    @Test("random bytes after each signature do not make the detector trap")
    func noise() {
        var generator = SeededGenerator(seed: 3)
        for image in Self.whole {
            for kept in [2, 4, 8, 12, 18, 34] {
                for _ in 0..<10 {
                    let noise = (0..<300).map { _ in UInt8.random(in: 0...255, using: &generator) }
                    let whole = isComplete(Array(image.prefix(kept)) + noise) { .max }
                    #expect(isComplete(Array(image.prefix(kept)) + noise) { 7 } == whole)
                }
            }
        }
    }

    @Test("a GIF may end without a trailer after each of its blocks, once it has a complete picture")
    func gifWithoutTrailer() {
        // Two pictures, the second with a color table, an empty block, an extension, and trailer bytes in the data.
        let blocks: [[UInt8]] = [
            MadeImages.gif(3, 4).dropLast(2) + [3, 0x3B, 0x3B, 0x3B, 1, 0x3B, 0], [0], [0x21, 0xFE, 1, 0x3B, 0],
            [0x2C, 0, 0, 0, 0, 1, 0, 1, 0, 0x80, 1, 2, 3, 4, 5, 6, 2, 1, 0x3B, 0], [0x3B],
        ]
        let image = Array(blocks.joined())
        var ends: [Int] = []
        for block in blocks { ends.append((ends.last ?? 0) + block.count) }
        for length in 0...image.count {
            for size in [1, 3, .max] {
                #expect(isComplete(image.prefix(length)) { size } == ends.contains(length), "\(length) in \(size)")
            }
        }
        for garbage in [[0], [UInt8](repeating: 0, count: 500), [1, 2, 3]] {
            for size in [1, 3, .max] {
                #expect(isComplete(image + garbage) { size })
                #expect(isComplete(image.dropLast() + garbage) { size })
            }
        }
        for gif in EncodedImages.all where gif.type == "gif" {
            #expect(isComplete(gif.bytes) { 3 })
            #expect(isComplete(gif.bytes.dropLast()) { 3 })
            #expect(!isComplete(gif.bytes.dropLast(2)) { 3 })
        }
    }

    @Test("bytes that are not an image never count as complete")
    func noImage() {
        for text in [
            "", "x", "%PDF-1.7 and so on and so on", "\u{1f}\u{8b}0000000000000000000000",
        ] {
            #expect(!isComplete(Array(text.utf8)) { .max })
        }
    }

    @Test("an image whose data box extends to the end of the file counts as complete wherever the file ends")
    func openBox() {
        let start = MadeImages.brands("avif") + MadeImages.meta(MadeImages.pitm(1))
        #expect(isComplete(start + [0, 0, 0, 0] + Array("mdat".utf8)) { 1 })
        #expect(!isComplete(start + [0, 0, 0, 0] + Array("uuid".utf8) + [1, 2, 3, 4, 5, 6, 7, 8, 9]) { 1 })
    }

    @Test("a run-length encoded bitmap without an end marker is complete with its last row")
    func runsWithoutEnd() {
        for (end, isWhole) in [(0, true), (1, true), (2, true), (3, false)] {
            #expect(isComplete(MadeImages.runs([3, 9, 0, 0, 3, 8, 0, 0].dropLast(end))) { 1 } == isWhole, "\(end)")
        }
    }
}
