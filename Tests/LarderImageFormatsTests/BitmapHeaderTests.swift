import TestSupport
import Testing

@Suite("Headers of bitmaps and icons")
struct BitmapHeaderTests {
    typealias Made = MadeImages

    @Test("BMP: headers of every size and top-down images are read", arguments: [12, 16, 40, 52, 56, 64, 108, 124])
    func bmp(_ header: Int) {
        #expect(summary(Made.bmp(640, 480, header: header)) == "bmp 640×480 frames 1")
        if header > 12 { #expect(summary(Made.bmp(640, -480, header: header)) == "bmp 640×480 frames 1") }
    }

    @Test("BMP: an invalid header is rejected")
    func badBMP() {
        #expect(summary(Made.bmp(-5, 5)) == "damagedImage")
        #expect(summary(Made.bmp(5, 0)) == "damagedImage")
        #expect(summary(Made.bmp(5, -0x8000_0000)) == "bmp 5×2147483648 frames 1")
        #expect(summary(Array("BMW drivers are not images".utf8)) == "notAnImage")
    }

    @Test("BMP: the number of planes is ignored, as in decoders")
    func planes() {
        #expect(summary(Made.bmp(Made.bitmapHeader(40, 3, 2, planes: 30_000)) + [0]) == "bmp 3×2 frames 1")
    }

    @Test("BMP: a palette must end before the pixels")
    func palette() {
        func read(_ colors: Int, bits: Int = 8, gap: Int) -> String {
            summary(Made.bmp(Made.bitmapHeader(40, 3, 2, bits: bits, colors: colors), gap: gap) + [0])
        }
        #expect(read(256, gap: 1024) == "bmp 3×2 frames 1")
        #expect(read(257, gap: 1024) == "damagedImage")
        #expect(read(300, gap: 1200) == "bmp 3×2 frames 1")
        #expect(read(0xFFFF_FFFF, gap: 1024) == "damagedImage")
        #expect(read(3, bits: 1, gap: 8) == "damagedImage")
        // Without palette indices, decoders ignore the number of colors.
        #expect(read(1 << 24, bits: 24, gap: 0) == "bmp 3×2 frames 1")
    }

    @Test("ICO: bitmaps with headers of every size are read", arguments: [12, 16, 40, 52, 56, 64, 108, 124])
    func iconBitmaps(header: Int) {
        #expect(summary(Made.ico([Made.iconBitmap(3, 2, header: header)])) == "ico 3×2")
        let pictures = [Made.iconBitmap(3, 2, header: header), Made.png(8, 9), Made.iconBitmap(4, 4, header: header)]
        #expect(summary(Made.ico(pictures)) == "ico 8×9")
        #expect(summary(Made.ico(pictures, length: 8)) == "ico 8×9")
        #expect(summary(Made.ico(pictures, length: 0x7FFF_FFFF)) == "ico 8×9")
    }

    @Test("ICO: pictures that overlap are rejected")
    func overlap() {
        var icon = Made.ico([Made.iconBitmap(3, 2), Made.iconBitmap(3, 2)])
        #expect(icon[34] == 38 + 40 + 32)
        icon[34] = 38 + 39
        #expect(summary(icon) == "damagedImage")
        icon[34] = 38
        #expect(summary(icon) == "ico 3×2")
    }

    @Test("ICO: a picture that is a PNG with a wrong checksum is rejected")
    func damagedPicture() {
        var png = Made.png(3, 2)
        png[29] ^= 1
        #expect(summary(Made.ico([png])) == "damagedImage")
    }

    @Test("ICO: the size is that of the largest picture, whatever sizes the directory lists")
    func ico() {
        let small = Made.bitmapHeader(40, 16, 32) + [0, 0]
        let large = Made.png(256, 256)
        #expect(summary(Made.ico([small])) == "ico 16×16")
        #expect(summary(Made.ico([small, large, small])) == "ico 256×256")
        #expect(summary(Made.ico([large, small], type: 2, sides: (0, 0))) == "ico 256×256")
        #expect(summary(Made.ico([Made.png(64_250, 64_250)])) == "ico 64250×64250")
        #expect(summary(Made.ico([Made.png(0xFFFF_FFFF, 0xFFFF_FFFF)])) == "damagedImage")
        #expect(summary(Made.ico([[UInt8](repeating: 1, count: 40)])) == "damagedImage")
        #expect(summary(Made.ico([Made.bitmapHeader(40, 16, 1) + [0]])) == "damagedImage")
        #expect(summary([0, 0, 1, 0, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 40)) == "damagedImage")
        #expect(summary([0, 0, 1, 0, 1, 0] + [UInt8](repeating: 0, count: 60)) == "damagedImage")
    }
}
