import LarderImageFormats
import TestSupport
import Testing

@Suite("Image headers")
struct ImageHeaderTests {
    typealias Made = MadeImages

    @Test("the headers of files from real encoders are read", arguments: EncodedImages.all)
    func encoded(_ file: (name: String, type: String, width: Int, height: Int, bytes: [UInt8])) {
        let frames = file.type == "gif" ? "" : " frames 1"
        #expect(summary(file.bytes) == "\(file.type) \(file.width)×\(file.height)\(frames)", "\(file.name)")
    }

    @Test("PNG: the size and the number of frames are read")
    func png() {
        #expect(summary(Made.png(640, 480)) == "png 640×480 frames 1")
        #expect(
            summary(Made.png(1, 1, between: Made.chunk("iCCP", [UInt8](repeating: 7, count: 100_000))))
                == "png 1×1 frames 1")
        #expect(summary(Made.apng(10, 20, frames: 12)) == "png 10×20 frames 12")
        #expect(summary(Made.png(0x7FFF_FFFF, 1)) == "png 2147483647×1 frames 1")
    }

    @Test("PNG: an invalid header is rejected")
    func badPNG() {
        #expect(summary(Made.png(0, 5)) == "damagedImage")
        #expect(summary(Made.png(0x8000_0000, 5)) == "damagedImage")
        #expect(summary(Made.pngStart(5, 5, depth: 3)) == "damagedImage")
        #expect(summary(Made.pngStart(5, 5, color: 5)) == "damagedImage")
        #expect(summary(Made.pngStart(5, 5) + Made.chunk("IEND", [])) == "damagedImage")
        #expect(summary(Made.png(5, 5, between: Made.chunk("a\u{1}bc", []))) == "damagedImage")
        #expect(summary(Made.pngStart(5, 5) + [0xFF, 0xFF, 0xFF, 0xFF] + Array("tEXt".utf8)) == "damagedImage")
        // A chunk of 2 GiB before the image data is rejected, not skipped.
        #expect(summary(Made.pngStart(5, 5) + [0x7F, 0xFF, 0xFF, 0xFF] + Array("tEXt".utf8)) == "damagedImage")
        #expect(summary(Made.pngStart(5, 5)) == "truncatedImage")
    }

    @Test("PNG: a header with a wrong checksum is rejected", arguments: 29...32)
    func wrongChecksum(place: Int) {
        var image = Made.png(640, 480)
        image[place] ^= 1
        #expect(summary(image) == "damagedImage")
    }

    @Test("a header with fewer frames has at least one frame")
    func fewerFrames() {
        func header(_ frames: Int?) -> ImageHeader { ImageHeader(.png, width: 1, height: 2, frameCount: frames) }
        #expect(header(3).limited(toFrames: 2) == header(2))
        #expect(header(2).limited(toFrames: 3) == header(2))
        #expect(header(3).limited(toFrames: 1).isAnimated == false)
        #expect(header(3).limited(toFrames: 0) == header(1))
    }

    @Test(
        "PNG: an animation with an invalid frame count is read as a still image, as decoders do",
        arguments: [0, 0x8000_0000])
    func invalidAnimation(_ frames: Int) {
        #expect(summary(Made.apng(4, 3, frames: frames)) == "png 4×3 frames 1")
    }

    @Test("PNG: an animation control chunk with the wrong length is ignored")
    func shortAnimationControl() {
        #expect(summary(Made.png(4, 3, between: Made.chunk("acTL", [0, 0, 0, 2]))) == "png 4×3 frames 1")
    }

    @Test(
        "JPEG: every kind of frame header is read",
        arguments: [0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC9, 0xCA, 0xCF] as [UInt8])
    func jpegFrames(_ marker: UInt8) {
        #expect(summary(Made.jpeg(300, 200, marker: marker)) == "jpeg 300×200 frames 1")
    }

    @Test("JPEG: tables that look like frame headers, fill bytes, stray bytes and comments are skipped")
    func jpegSegments() {
        let before =
            Made.segment(0xC4, [UInt8](repeating: 9, count: 20)) + Made.segment(0xCC, [1, 2]) + [0xFF, 0xFF, 0xFF]
            + Made.segment(0xFE, Array("hello".utf8)) + [1, 2, 3] + Made.segment(0xE0, Array("JFIF\0".utf8))
        #expect(summary(Made.jpeg(3, 2, before: before)) == "jpeg 3×2 frames 1")
    }

    @Test(
        "JPEG: comments and application data with a length below 2 are read as empty, as decoders do",
        arguments: [0xFE, 0xE0, 0xE1, 0xEF] as [UInt8], [0, 1] as [UInt8])
    func emptyComments(marker: UInt8, length: UInt8) {
        let image = Made.jpeg(3, 2, before: [0xFF, marker, 0, length]) + [0xFF, 0xD9]
        #expect(summary(image) == "jpeg 3×2 frames 1")
        var detector = TruncationDetector()
        detector.feed(Array(image.dropLast()))
        #expect(!detector.isComplete)
        detector.feed([0xD9])
        #expect(detector.isComplete)
    }

    @Test("JPEG: the EXIF orientation swaps width and height, in either byte order", arguments: 1...8, [true, false])
    func orientation(_ orientation: Int, isBig: Bool) {
        let bytes = Made.jpeg(300, 200, before: Made.exif(orientation: orientation, isBig: isBig))
        let size = orientation >= 5 ? "200×300" : "300×200"
        #expect(summary(bytes) == "jpeg \(size) frames 1" + (orientation > 1 ? " turned \(orientation)" : ""))
    }

    @Test("JPEG: the size of a thumbnail is ignored")
    func thumbnail() {
        let exif = Made.exif(orientation: 6, isBig: true, thumbnail: Made.jpeg(160, 120))
        #expect(summary(Made.jpeg(3000, 2000, before: exif)) == "jpeg 2000×3000 frames 1 turned 6")
        let photoshop = Made.segment(0xED, Made.jpeg(160, 120))
        #expect(summary(Made.jpeg(3000, 2000, before: photoshop)) == "jpeg 3000×2000 frames 1")
    }

    @Test("JPEG: an EXIF block that is damaged or has no orientation is ignored")
    func damagedEXIF() {
        let whole = Array(Made.exif(orientation: 6, isBig: true).dropFirst(4))
        var cases = (0...whole.count - 5).map { Array(whole.prefix($0)) }.filter { $0.count < 40 }
        cases.append(Array("Exif\0\0MM\0*\u{7f}\u{7f}\u{7f}\u{7f}".utf8))
        cases.append(Array("Exif\0\0XX\0*\0\0\0\u{8}\0\0".utf8))
        for data in cases {
            #expect(summary(Made.jpeg(30, 20, before: Made.segment(0xE1, data))) == "jpeg 30×20 frames 1", "\(data)")
        }
        let none = Made.exif(orientation: 9, isBig: false)
        #expect(summary(Made.jpeg(30, 20, before: none)) == "jpeg 30×20 frames 1")
        let xmpFirst =
            Made.segment(0xE1, Array("http://ns.adobe.com/xap/1.0/\0".utf8)) + Made.exif(orientation: 8, isBig: true)
        #expect(summary(Made.jpeg(30, 20, before: xmpFirst)) == "jpeg 20×30 frames 1 turned 8")
    }

    @Test("JPEG: an invalid header is rejected")
    func badJPEG() {
        #expect(summary(Made.jpeg(0, 5)) == "damagedImage")
        #expect(summary(Made.jpeg(5, 0)) == "damagedImage")
        #expect(summary([0xFF, 0xD8, 0xFF, 0xD9] + [UInt8](repeating: 0, count: 30)) == "damagedImage")
        #expect(summary([0xFF, 0xD8] + Made.segment(0xDA, [1, 1, 0, 0, 63, 0]) + Made.frame(1, 1)) == "damagedImage")
        #expect(summary([0xFF, 0xD8, 0xFF, 0xDB, 0, 1] + Made.frame(1, 1)) == "damagedImage")
        #expect(summary([0xFF, 0xD8] + Made.segment(0xC0, [8, 0, 5, 0, 5, 3]) + Made.frame(1, 1)) == "damagedImage")
    }

    @Test("GIF: the size is the logical screen, or the first frame if it is larger")
    func gif() {
        #expect(summary(Made.gif(320, 200)) == "gif 320×200")
        let comment: [UInt8] = [0x21, 0xFE, 3, 0x2C, 1, 1, 2, 9, 9, 0]
        #expect(summary(Made.gif(320, 200, before: comment)) == "gif 320×200")
        #expect(summary(Made.gif(1, 1, picture: (65_535, 65_535))) == "gif 65535×65535")
        #expect(summary(Made.gif(0, 0, picture: (4, 3))) == "gif 4×3")
        #expect(summary(Made.gif(0, 0, picture: (0, 3))) == "damagedImage")
        #expect(summary(Made.gif(3, 3, before: [0x3B])) == "damagedImage")
        #expect(summary(Made.gif(3, 3, before: [0x99])) == "damagedImage")
    }

    @Test("WebP: lossy, lossless, extended and animated images are read")
    func webp() {
        #expect(summary(Made.lossy(16_383, 2)) == "webp 16383×2 frames 1")
        #expect(summary(Made.lossless(16_384, 16_384)) == "webp 16384×16384 frames 1")
        #expect(summary(Made.lossless(1, 7)) == "webp 1×7 frames 1")
        #expect(summary(Made.extended(16_777_216, 3)) == "webp 16777216×3 frames 1")
        #expect(summary(Made.extended(40, 30, isAnimated: true)) == "webp 40×30")
        #expect(summary(Made.lossy(0, 2)) == "damagedImage")
        #expect(summary(Made.webp("VP8 ", [1, 0, 0, 0x9D, 1, 0x2A, 1, 0, 1, 0])) == "damagedImage")
        #expect(summary(Made.webp("VP8L", [0x2E, 0, 0, 0, 0, 0, 0, 0, 0, 0])) == "damagedImage")
        #expect(summary(Made.webp("VP8L", [0x2F, 0, 0, 0, 0xE0, 0, 0, 0, 0, 0])) == "damagedImage")
        #expect(summary(Made.webp("ICCP", [UInt8](repeating: 0, count: 20))) == "damagedImage")
    }

    @Test("WebP: a lossless image of 28 bytes is read")
    func smallestWebP() {
        let bytes = Made.webp("VP8L", [0x2F] + Made.little(1 | 4 << 14, 4) + [1, 2, 3])
        #expect(bytes.count == 28)
        #expect(summary(bytes) == "webp 2×5 frames 1")
        #expect(summary(Array(bytes.prefix(25))) == "webp 2×5 frames 1")
        #expect(summary(Array(bytes.prefix(24))) == "truncatedImage")
    }

    @Test("WebP: a RIFF size that excludes the first chunk is rejected", arguments: [0, 11, 21])
    func webpSize(size: Int) {
        var image = Made.lossy(5, 6)
        #expect(image[4] == 26)
        image[4] = UInt8(size)
        #expect(summary(image) == "damagedImage")
    }

    @Test("AVIF: a meta box that extends to the end of the file is read")
    func openMeta() {
        let open = Made.open(Made.meta(Made.pitm(1), Made.iprp([Made.ispe(5, 6)], [(1, [1])])))
        #expect(summary(Made.brands("avif") + Made.box("mdat", [1, 2]) + open) == "avif 5×6 frames 1")
    }

    @Test("AVIF: the size and rotation of the primary item are read")
    func avif() {
        #expect(summary(Made.avif(4000, 3000)) == "avif 4000×3000 frames 1")
        #expect(summary(Made.avif(4000, 3000, turns: 1)) == "avif 3000×4000 frames 1")
        #expect(summary(Made.avif(4000, 3000, turns: 2)) == "avif 4000×3000 frames 1")
        #expect(summary(Made.avif(4000, 3000, turns: 3)) == "avif 3000×4000 frames 1")
        let properties = Made.iprp([Made.ispe(5, 6)], [(7, [1])])
        // This file has its properties before the primary item, image data before both, and the brand of a sequence.
        let order = Made.brands("avis", "avif") + Made.box("mdat", [UInt8](repeating: 0, count: 5000))
        #expect(summary(order + Made.meta(properties, Made.pitm(7))) == "avif 5×6")
    }

    @Test("AVIF: 32-bit item identifiers, 15-bit property indices and a 64-bit box length are read")
    func wideAVIF() {
        let ipma =
            Made.box("ipma", [1, 0, 0, 1] + Made.big(1, 4) + Made.big(70_000, 4) + [2] + [0x80, 2] + [0, 1])
        let iprp = Made.box("iprp", Made.box("ipco", Made.box("irot", [1]) + Made.ispe(9, 8)) + ipma)
        let pitm = Made.box("pitm", [1, 0, 0, 0] + Made.big(70_000, 4))
        let wide = Made.big(1, 4) + Array("free".utf8) + Made.big(24, 8) + [UInt8](repeating: 0, count: 8)
        #expect(summary(Made.brands("mif1", "avif") + wide + Made.meta(pitm, iprp)) == "avif 8×9 frames 1")
    }

    @Test("AVIF: an invalid header is rejected")
    func badAVIF() {
        let start = Made.brands("avif", "mif1")
        let good = Made.iprp([Made.ispe(5, 6)], [(1, [1])])
        for meta in [
            Made.meta(Made.pitm(1)), Made.meta(good), Made.meta(Made.pitm(2), good),
            Made.meta(Made.pitm(1), Made.iprp([Made.ispe(5, 6)], [(1, [2])])),
            Made.meta(Made.pitm(1), Made.iprp([Made.ispe(0, 6)], [(1, [1])])),
            Made.meta(Made.pitm(1), Made.iprp([Made.box("irot", [1])], [(1, [1])])),
            Made.meta(Made.pitm(1), Made.box("iprp", Made.big(0xFFFF_FFFF, 4) + Array("ipco".utf8))),
            Made.meta(Made.pitm(1), Made.box("iprp", Made.box("ipma", [0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]))),
            Made.meta(Made.box("pitm", [0, 0, 0, 0])), Made.meta(Made.big(900, 4) + Array("pitm".utf8)),
            Made.big(9, 4) + Array("meta".utf8) + [0], Made.big(4, 4) + Array("meta".utf8),
            Made.big(0, 4) + Array("mdat".utf8), Made.big(1, 4) + Array("mdat".utf8) + Made.big(-1, 8),
            Made.big(1, 4) + Array("mdat".utf8) + Made.big(Int.max, 8),
        ] {
            #expect(summary(start + meta + Made.box("mdat", [0])) == "damagedImage", "\(meta)")
        }
        #expect(summary(Made.brands("mif1", "miaf") + Made.meta(Made.pitm(1), good)) == "unsupportedType")
        #expect(summary(Made.brands("isom", "mp42") + [0, 0, 0, 8]) == "notAnImage")
    }

    @Test("HEIC: the brands distinguish it from AVIF, and the size is read in the same way")
    func heic() {
        let meta = Made.meta(Made.pitm(1), Made.iprp([Made.ispe(5, 6), Made.box("irot", [1])], [(1, [1, 2])]))
        for brand in ["heic", "heix", "heim", "heis"] {
            #expect(summary(Made.brands(brand, "mif1") + meta) == "heic 6×5 frames 1")
        }
        #expect(summary(Made.brands("mif1", "heic") + meta) == "heic 6×5 frames 1")
        #expect(summary(Made.brands("hevc", "msf1", "heic") + meta) == "heic 6×5")
        #expect(summary(Made.brands("avif", "heic") + meta) == "avif 6×5 frames 1")
    }

    @Test("JPEG XL: a codestream is read without a box, in one box or in partial boxes")
    func jpegXL() {
        let (opaque, transparent) = (EncodedImages.opaqueJPEGXL, EncodedImages.transparentJPEGXL)
        #expect(summary(opaque) == "jxl 20×12 frames 1")
        #expect(summary(transparent) == "jxl 10×14 frames 1")
        let start = Made.box("JXL ", [0x0D, 0x0A, 0x87, 0x0A]) + Made.box("ftyp", Array("jxl \0\0\0\0jxl ".utf8))
        #expect(summary(start + Made.box("Exif", [1, 2, 3]) + Made.box("jxlc", opaque)) == "jxl 20×12 frames 1")
        #expect(summary(start + Made.box("jxlp", [0, 0, 0, 0] + opaque)) == "jxl 20×12 frames 1")
        #expect(summary(start + Made.open(Made.box("jxlc", opaque))) == "jxl 20×12 frames 1")
        #expect(summary(start + Made.box("jxlc", [1] + opaque)) == "damagedImage")
        #expect(summary(start + Made.open(Made.box("Exif", opaque))) == "damagedImage")
        #expect(summary(start) == "truncatedImage")
    }

    @Test("transparency and animation are read from the header")
    func facts() {
        func facts(_ bytes: [UInt8]) -> String {
            guard case .found(let header) = readHeader(bytes) else { return "refused" }
            return [header.hasAlpha, header.isAnimated].map { $0.map { "\($0)" } ?? "nil" }.joined(separator: " ")
        }
        let plain = Made.pngStart(3, 4, color: 2)
        let end = Made.chunk("IDAT", [1])
        #expect(facts(Made.png(3, 4)) == "true false")
        #expect(facts(plain + end) == "false false")
        #expect(facts(plain + Made.chunk("tRNS", [0, 0, 0, 0, 0, 0]) + end) == "true false")
        #expect(facts(Made.apng(3, 4, frames: 2)) == "true true")
        #expect(facts(Made.jpeg(3, 4)) == "false false")
        #expect(facts(Made.gif(3, 4)) == "false nil")
        #expect(facts(Made.gif(3, 4, before: [0x21, 0xF9, 4, 1, 0, 0, 0, 0])) == "true nil")
        #expect(facts(Made.lossy(3, 4)) == "false false")
        #expect(facts(Made.webp("VP8L", [0x2F, 0, 0, 0, 0x10])) == "true false")
        #expect(facts(Made.extended(3, 4)) == "true false")
        #expect(facts(Made.extended(3, 4, isAnimated: true)) == "false true")
        #expect(facts(Made.avif(3, 4)) == "false false")
        let auxiliary = Made.box("auxC", [0, 0, 0, 0] + Array("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0".utf8))
        let properties = Made.iprp([Made.ispe(3, 4), auxiliary], [(1, [1]), (2, [2])])
        #expect(facts(Made.brands("avif") + Made.meta(Made.pitm(1), properties)) == "true false")
        #expect(facts(Made.bmp(3, 4)) == "false false")
        #expect(facts(Made.svg("width='3' height='4'")) == "nil false")
        #expect(facts(EncodedImages.opaqueJPEGXL) == "false false")
        #expect(facts(EncodedImages.transparentJPEGXL) == "true false")
        for file in EncodedImages.all where file.type == "heic" {
            #expect(facts(file.bytes) == (file.name == "alpha.heic" ? "true false" : "false false"))
        }
    }

    @Test("the pixel limit applies to all frames together, and huge sizes do not overflow")
    func limits() throws {
        func check(_ bytes: [UInt8], _ limits: ImageLimits = ImageLimits()) throws -> Bool {
            guard case .found(let header) = readHeader(bytes) else {
                throw ImageFormatError(.damagedImage, "no header")
            }
            do throws(ImageFormatError) {
                try limits.check(header)
                return true
            } catch {
                #expect([.tooManyPixels, .excludedType].contains(error.reason))
                return false
            }
        }
        // Phones take photos of 200 megapixels, and the agent decodes no image, so the default limit admits them.
        #expect(try check(Made.jpeg(16_320, 12_240)))
        #expect(try check(Made.png(50_000, 20_000)))
        #expect(try !check(Made.png(50_000, 20_001)))
        #expect(try !check(Made.png(64_250, 64_250)))
        #expect(try check(Made.apng(1_000, 1_000, frames: 1000)))
        #expect(try !check(Made.apng(1_000, 1_000, frames: 1001)))
        #expect(try !check(Made.apng(0x7FFF_FFFF, 0x7FFF_FFFF, frames: 0x7FFF_FFFF)))
        #expect(try !check(Made.avif(0xFFFF_FFFF, 0xFFFF_FFFF)))
        #expect(try !check(Made.svg("viewBox='0 0 100000 100000'")))
        #expect(try !check(Made.png(1, 1), ImageLimits(excludedTypes: [.png])))
        #expect(try !check(EncodedImages.opaqueJPEGXL))
        #expect(try check(EncodedImages.opaqueJPEGXL, ImageLimits(excludedTypes: [])))
    }
}
