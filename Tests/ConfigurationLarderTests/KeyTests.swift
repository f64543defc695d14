import Configuration
import Testing

@testable import ConfigurationLarder

@Suite("Keys")
struct KeyTests {
    private static let document = #"{"a.b":1,"a":{"b":2,"":{"c":3}},"/x":4,"list":[10,{"y":[20]}],"ä":5,"~":{"/":6}}"#

    @Test(
        "components address members, whatever characters they contain",
        arguments: [
            (["a.b"], 1), (["a", "b"], 2), (["a", "", "c"], 3), (["/x"], 4), (["list", "0"], 10),
            (["list", "1", "y", "0"], 20), (["ä"], 5), (["~", "/"], 6),
        ] as [([String], Int)])
    func components(components: [String], expected: Int) throws {
        let result = try snapshot(Self.document).value(forKey: AbsoluteConfigKey(components), type: .int)
        #expect(result.value?.content == .int(expected))
    }

    @Test(
        "a key that leads nowhere has no value",
        arguments: [
            ["b"], ["a", "b", "c"], ["a/b"], ["list", "2"], ["list", "00"], ["list", "x"], ["0"], ["a", "0"],
        ])
    func missing(components: [String]) throws {
        #expect(try snapshot(Self.document).value(forKey: AbsoluteConfigKey(components), type: .int).value == nil)
    }

    @Test("the context of a key is ignored")
    func context() throws {
        let key = AbsoluteConfigKey(["a", "b"], context: ["host": .string("other"), "port": .int(1)])
        let result = try snapshot(Self.document).value(forKey: key, type: .int)
        #expect(result.value?.content == .int(2) && result.encodedKey == "a.b")
    }

    @Test(
        "the encoded key has dots if that is unambiguous, else it is a JSON Pointer",
        arguments: [
            (["a", "b"], "a.b"), (["a"], "a"), ([], ""), (["a.b"], "/a.b"), (["a", ""], "/a/"),
            (["/x", "y"], "/~1x/y"),
            (["a", "/x"], "a./x"),
            (["a component longer than", "fifteen bytes"], "a component longer than.fifteen bytes"),
        ] as [([String], String)])
    func encoded(components: [String], text: String) throws {
        #expect(KeyText.text(of: components) == text)
    }

    @Test("names that need more than a kilobyte are found")
    func long() throws {
        let name = String(repeating: "n", count: 3000)
        let result = try snapshot(#"{"a":{"\#(name)":7}}"#).value(forKey: AbsoluteConfigKey(["a", name]), type: .int)
        #expect(result.value?.content == .int(7))
    }
}
