import LarderImageFormats
import TestSupport
import Testing

@Suite("SVG headers")
struct SVGHeaderTests {
    @Test(
        "the size comes from width, height and viewBox",
        arguments: [
            ("width='120' height='80'", "120×80"), ("width=\"120px\" height=\" 80.4 \"", "120×80"),
            ("width='1in' height='2.54cm'", "96×96"), ("width='25.4mm' height='101.6Q'", "96×96"),
            ("width='72pt' height='6pc'", "96×96"), ("width='1e2' height='+.5e1px'", "100×5"),
            ("viewBox='0 0 24 12'", "24×12"), ("viewBox='-5,-5 , 24.6,12'", "25×12"),
            ("width='100%' height='100%' viewBox='0 0 24 12'", "24×12"),
            ("width='48' viewBox='0 0 24 12'", "48×24"), ("height='48' viewBox='0 0 24 12'", "96×48"),
            ("width='2em' height='3' viewBox='0 0 24 12'", "32×3"), ("width='10rem' height='5em'", "160×80"),
            ("width='2ex' height='3ch'", "16×24"), ("width='1EM' height='1.5Rem'", "16×24"),
            ("width='2vw' height='3' viewBox='0 0 24 12'", "6×3"), ("width='40'", "40×150"), ("height='40'", "300×40"),
            ("", "300×150"), ("width='-0.1' height='-3'", "300×150"),
            // A picture of no size is valid, and drawn as nothing. The reader reports no side below 1.
            ("width='0' height='0'", "1×1"), ("width='0' height='-3'", "1×150"),
            ("height='0' viewBox='0 0 24 12'", "1×1"), ("width='0px' height='20'", "1×20"),
            ("width='&w;' height='5'", "300×5"),
            ("viewBox='0 0 0 12'", "300×150"), ("viewBox='0 0 12'", "300×150"), ("width='nan' height='inf'", "300×150"),
            ("width = '7'\n\theight\n=\n'8'", "7×8"), ("title='a > b' width='7' height='8' width='9'", "7×8"),
            ("Width='1' x:width='2' width='7' height='8'", "7×8"), ("width='0.2' height='0.2'", "1×1"),
        ])
    func size(_ attributes: String, _ size: String) {
        #expect(summary(MadeImages.svg(attributes)) == "svg \(size) frames 1")
    }

    @Test(
        "everything before the root element is skipped",
        arguments: [
            "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>\n", "\u{FEFF}",
            "\u{FEFF}<?xml version='1.0'?>",
            "\n\n   \t\r\n                                    ", "<!-- <svg width='1' height='1'> -- -->", "<!---->",
            "<!-- > -> --><?xml-stylesheet href='a>b'?>",
            "<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd\">",
            "<!DOCTYPE svg [ <!ENTITY a \"<svg width='1'>]>\"> <!-- ' ]> --> <?pi ' ]> ?> %x; <!ATTLIST svg a CDATA ''> ]>",
            "<!DOCTYPE svg [<!ENTITY a \"b\"><!ENTITY c '&a;&a;&a;'>] >",
        ])
    func prolog(_ prolog: String) {
        #expect(summary(MadeImages.svg("width='5' height='6'", prolog: prolog)) == "svg 5×6 frames 1")
    }

    @Test("the root element may have a namespace prefix and may be empty")
    func roots() {
        #expect(summary(Array("<s:svg xmlns:s='x' width='5' height='6'/>".utf8)) == "svg 5×6 frames 1")
        #expect(summary(Array("<svg  \n  width='5' height='6'>".utf8)) == "svg 5×6 frames 1")
        #expect(summary(Array("<svg>".utf8 + [UInt8](repeating: 0x20, count: 20))) == "svg 300×150 frames 1")
    }

    @Test(
        "the error for a file that is not an image names its type",
        arguments: [
            ("<!DOCTYPE html><html><svg width='1' height='1'>", "HTML"), ("<!doctype HTML>\n<body>", "HTML"),
            ("<html lang='en'><head></head></html>", "HTML"), ("<!-- x --> <head><title>404</title>", "HTML"),
            ("<rss version='2.0'></rss>", "<rss>"), ("<?xml version='1.0'?><a:feed xmlns:a='b'/>", "a:feed"),
            ("<<<<<<<<<<<<<<<<<<<<<", "text"), ("<![CDATA[ hello world ]]>", "text"),
            ("   hello, this is no image", "text"), ("{\"error\": \"not found\"}", "JSON"),
            ("%PDF-1.7 and so on and on", "PDF"), ("just some text of an origin", "text"),
            ("PK\u{3}\u{4} and so on and on and on", "ZIP"), ("RIFF1234WAVEfmt 1234567890", "RIFF"),
            ("", "empty"), ("abc", "3 bytes"),
        ])
    func others(_ text: String, _ name: String) {
        let message = refusal(Array(text.utf8)) ?? ""
        let expected = name.trimming("<>")
        #expect(message.contains(expected), "\(message)")
        #expect(summary(Array(text.utf8)) == "notAnImage")
    }

    @Test("the error for an image of an unsupported type names the type")
    func unsupported() {
        let rest = [UInt8](repeating: 0, count: 20)
        let utf16 = "<svg width='5' height='5'/>".utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        for (bytes, name) in [
            (Array("II*\0".utf8) + rest, "TIFF"), (utf16, "UTF-16"),
            ([0xFF, 0xFE] + utf16, "UTF-16"), (Array("8BPS".utf8) + rest, "Photoshop"),
        ] {
            #expect(summary(bytes) == "unsupportedType")
            #expect(refusal(bytes)?.contains(name) == true)
        }
        #expect(refusal([0x1F, 0x8B] + rest)?.contains("gzip") == true)
    }

    @Test("a root element that is malformed or has a huge size is rejected")
    func damaged() {
        for text in [
            "<svg width=5 height='5'>            ", "<svg width height='5'>              ",
            "<svg / width='5' height='5'>        ", "<svg width='1e300' height='1'>      ",
            "<svg a<b='5'>                       ", "<svg viewBox='0 0 1e308 1e-308' height='1e10'>",
        ] {
            #expect(summary(Array(text.utf8)) == "damagedImage", "\(text)")
        }
    }

    @Test("a prolog of more than 1 MiB is rejected")
    func endless() {
        var reader = ImageHeaderReader()
        #expect(reader.feed(Array("<!-- endless".utf8) + [UInt8](repeating: 0x20, count: 1000)) == .needMore)
        let piece = [UInt8](repeating: 0x2D, count: 4096)
        for _ in 0..<254 { #expect(reader.feed(piece) == .needMore) }
        #expect(reader.feed(piece + piece) != .needMore)
    }
}

extension String {
    fileprivate func trimming(_ characters: String) -> String { filter { !characters.contains($0) } }
}
