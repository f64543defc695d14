import Testing

@testable import LarderSchema

@Suite("Host names")
struct HostnameTests {
    private func hasFormat(_ text: String, _ format: Format) -> Bool {
        var text = text
        return text.withUTF8 { format.accepts($0) }
    }

    @Test("Punycode with numbers that do not fit is rejected", arguments: [Format.hostname, .idnHostname])
    func overflow(format: Format) {
        #expect(!hasFormat("xn--ux902716a", format))
        #expect(!hasFormat("xn--" + String(repeating: "9", count: 59), format))
        #expect(!hasFormat("xn--a-" + String(repeating: "9", count: 57), format))
        #expect(!hasFormat("user@xn--ux902716a", .email))
        #expect(!hasFormat("user@xn--ux902716a", .idnEmail))
        #expect(hasFormat("xn--bcher-kva.example", format))
    }

    @Test("random Punycode is decoded or rejected, and decoded text has the same Punycode again")
    func random() {
        let alphabet = Array("abcdefghijklmnopqrstuvwxyz0123456789-".utf8)
        var state: UInt64 = 12
        func next(below bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int((state >> 33) % UInt64(bound))
        }
        for _ in 0..<50_000 {
            let text = (0..<next(below: 60)).map { _ in alphabet[next(below: alphabet.count)] }
            guard let scalars = Punycode.decode(text) else { continue }
            _ = Punycode.encode(scalars)
        }
    }

    @Test("a label that is longer than 63 characters in Punycode is rejected")
    func longLabels() {
        #expect(hasFormat(String(repeating: "ü", count: 50), .idnHostname))
        #expect(!hasFormat(String(repeating: "ü", count: 64), .idnHostname))
        // The rule for this character searches the whole label.
        #expect(!hasFormat(String(repeating: "\u{30fb}", count: 100_000), .idnHostname))
    }
}
