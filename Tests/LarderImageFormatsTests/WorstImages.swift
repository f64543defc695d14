import TestSupport

/// Images that cost the parsers as much work as possible for each byte.
enum WorstImages {
    typealias Made = MadeImages

    /// Images of about `size` bytes.
    static func all(size: Int) -> [(name: String, bytes: [UInt8])] {
        func fill(_ unit: [UInt8]) -> [UInt8] { Array(repeatElement(unit, count: size / unit.count).joined()) }
        func fill(_ unit: String) -> [UInt8] { fill(Array(unit.utf8)) }
        let avif = Made.brands("avif", "mif1")
        let good = Made.iprp([Made.ispe(5, 6)], [(1, [1])])
        let svg = Array("<svg width='1' height='1'>".utf8)
        let list = Array(fill(Made.box("free", [])).prefix((size - 100) / 8 * 8))
        let container = Made.box("JXL ", [0x0D, 0x0A, 0x87, 0x0A])
        let directory = Made.little(0x4949, 2) + Made.little(42, 2) + Made.little(8, 4)
        let exif = Made.segment(0xE1, Array("Exif\0\0".utf8) + directory + Array(repeating: 1, count: 65_500))
        let declaredGIF = Array(Made.gif(1, 1).dropLast(12))
        return [
            ("iloc, extents of no bytes", avif + Made.meta(Made.pitm(1), emptyExtents(size), good)),
            ("iloc, items of no extents", avif + Made.meta(Made.pitm(1), emptyItems(size), good)),
            ("small iloc boxes", avif + Made.meta(fill(Made.box("iloc", emptyExtentsContent)), Made.pitm(1), good)),
            ("ipco, empty properties", avif + Made.meta(Made.pitm(1), Made.box("iprp", Made.box("ipco", list)))),
            ("ipma, empty associations", avif + Made.meta(Made.pitm(1), emptyAssociations(size))),
            ("ipma, other indices", avif + Made.meta(Made.pitm(1), longAssociation(size))),
            ("empty boxes", avif + list),
            ("empty boxes in meta", avif + Made.meta(list)),
            ("empty boxes in moov", Made.brands("avis") + Made.box("moov", list)),
            ("empty tracks", Made.brands("avis") + Made.box("moov", fill(Made.box("trak", Made.box("mdia", []))))),
            ("tracks", Made.brands("avis") + Made.movie(fill(Made.track("soun", 1, 1)))),
            ("brands", Made.brands("abcd") + fill(Made.box("ftyp", []))),
            ("document type, spaces", Array("<!DOCTYPE \(String(repeating: "\u{e9}", count: 60))".utf8) + fill(" ")),
            ("document type, declarations", Array("<!DOCTYPE svg [".utf8) + fill("<!a>")),
            ("document type, quotes", Array("<!DOCTYPE svg ".utf8) + fill("''")),
            ("comments before the root", fill("<!---->")), ("dashes", Array("<!--".utf8) + fill("-")),
            ("attributes", Array("<svg ".utf8) + fill("a='' ")),
            ("sizes", Array("<svg ".utf8) + fill("width='' ")),
            ("elements", svg + fill("<a>")), ("empty elements", svg + fill("<a/>")),
            ("comments", svg + fill("<!---->")), ("dashes after the root", svg + Array("<!--".utf8) + fill("-")),
            ("quotes", svg + Array("<a ".utf8) + fill("''")), ("character data", svg + fill("<![]]>")),
            ("a tag", svg + Array("<a ".utf8) + fill("/")),
            ("JPEG, stray bytes", [0xFF, 0xD8, 0xFF] + fill([0])), ("JPEG, fill bytes", [0xFF, 0xD8] + fill([0xFF])),
            ("JPEG, empty comments", [0xFF, 0xD8] + fill([0xFF, 0xFE, 0, 2])),
            ("JPEG, EXIF", [0xFF, 0xD8] + fill(exif)),
            ("JPEG, small EXIF", [0xFF, 0xD8] + fill(Made.segment(0xE1, Array("Exif\0\0".utf8) + directory))),
            ("JPEG, stuffed bytes", Made.jpeg(1, 1) + fill([0xFF, 0])),
            ("GIF, empty blocks", Made.gif(1, 1).dropLast() + fill([0])),
            ("GIF, small blocks", declaredGIF + [0x21, 0xFE] + fill([1, 0x2C])),
            ("GIF, empty extensions", declaredGIF + fill([0x21, 0xFE, 0])),
            ("PNG, empty chunks", Made.pngStart(1, 1) + fill(Made.chunk("aaaa", []))),
            ("BMP, single pixels", longRuns(bits: 8) + fill([1, 1])),
            ("BMP, moves", longRuns(bits: 4) + fill([0, 2, 0, 0])),
            ("BMP, literal pixels", longRuns(bits: 24) + fill([0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0])),
            ("BMP, single pixels of 24 bits", longRuns(bits: 24) + fill([1, 1, 1, 1])),
            ("JPEG XL, empty boxes", container + list),
            ("JPEG XL, empty parts", container + fill(Made.box("jxlp", [0, 0, 0, 0]))),
            ("icon, headers", Made.ico(Array(repeating: Made.bitmapHeader(12, 1, 2), count: 256)) + fill([0])),
            ("icon, PNG", Made.ico([Made.pngStart(1, 1) + fill(Made.chunk("aaaa", []))])),
        ]
    }

    /// An `iloc` box of version 2 with `size` bytes and four billion items, whose fields all have a length of 0.
    private static func emptyExtents(_ size: Int) -> [UInt8] {
        Made.box("iloc", emptyExtentsContent + [UInt8](repeating: 0xFF, count: size))
    }

    private static let emptyExtentsContent: [UInt8] =
        [2, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF] + [1, 2, 3, 4, 0, 0, 0, 0, 0xFF, 0xFF]

    private static func emptyItems(_ size: Int) -> [UInt8] {
        Made.box("iloc", [0, 0, 0, 0, 0, 0, 0xFF, 0xFF] + [UInt8](repeating: 0, count: size))
    }

    private static func emptyAssociations(_ size: Int) -> [UInt8] {
        Made.box("iprp", Made.box("ipma", [0, 0, 0, 0] + Made.big(size / 3, 4) + [UInt8](repeating: 0, count: size)))
    }

    /// An `ipma` box in which each association is of item 1 and has 255 indices.
    private static func longAssociation(_ size: Int) -> [UInt8] {
        let item = Made.big(1, 2) + [255] + [UInt8](repeating: 0, count: 255)
        let items = Array(repeatElement(item, count: size / item.count).joined())
        return Made.box("iprp", Made.box("ipma", [0, 0, 0, 0] + Made.big(size / item.count, 4) + items))
    }

    /// The start of a run-length encoded bitmap of 2^31 - 1 rows.
    private static func longRuns(bits: Int) -> [UInt8] {
        let start = Made.runs([], bits: bits)
        return start.prefix(22) + Made.little(0x7FFF_FFFF, 4) + start.dropFirst(26)
    }
}
