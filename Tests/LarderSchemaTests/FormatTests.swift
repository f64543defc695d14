import LarderJSON
import LarderSchema
import Testing

@Suite("Formats")
struct FormatTests {
    @Test("a host name consists of ASCII labels, and encoded labels are not decoded", arguments: ["", "user@"])
    func hostnames(user: String) throws {
        let schema = try compile(#"{"format": "\#(user.isEmpty ? "hostname" : "email")"}"#, assertsFormats: true)
        let longLabel = String(repeating: "a", count: 64)
        for name in [
            "bücher.example", "a..b", "-a.b", "a.b-", "", longLabel, String(repeating: "ab.", count: 84) + "abc",
        ] {
            #expect(!schema.isValid(.string(user + name)), "\(name)")
        }
        for name in ["a", "a-b.example", "xn--bcher-kva.example", "xn--ux902716a", String(longLabel.dropLast())] {
            #expect(schema.isValid(.string(user + name)), "\(name)")
        }
    }

    @Test("some formats are annotations", arguments: ["idn-email", "idn-hostname", "uri-template", "color"])
    func annotations(format: String) throws {
        let schema = try compile(#"{"format": "\#(format)"}"#, assertsFormats: true)
        #expect(schema.isValid("}{ -"))
    }
}
