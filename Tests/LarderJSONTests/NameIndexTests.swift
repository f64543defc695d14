import TestSupport
import Testing

@testable import LarderJSON

@Suite("Name index")
struct NameIndexTests {
    @Test("an index returns the position of each name in its list, and nil for other names")
    func positions() {
        let names = ["config.get", "", "größe", "config.set", "config.ge", "onfig.get"]
        let index = NameIndex(names)
        for (position, name) in names.enumerated() {
            #expect(index.position(of: name) == position)
            #expect(index.position(of: JSONValue.string(name)) == position)
        }
        for name in ["config", "config.get ", "Config.get", "gro\u{308}ße"] {
            #expect(index.position(of: name) == nil)
            #expect(index.position(of: JSONValue.string(name)) == nil)
        }
    }

    @Test("a string matches a name after its escapes are resolved; values of other kinds match no name")
    func values() throws {
        let index = NameIndex(["limit", "1", "null"])
        #expect(index.position(of: try JSONValue(parsing: #""\u006cimi\u0074""#)) == 0)
        for text in ["1", "null", "[\"1\"]", "{\"1\":1}", #""limi\t""#] {
            #expect(index.position(of: try JSONValue(parsing: text)) == nil)
        }
    }

    @Test("an index without names finds no name")
    func empty() {
        #expect(NameIndex([]).position(of: "") == nil)
    }

    @Test(
        "an index returns the same positions as a dictionary of the names",
        arguments: [1, 2, 3, 8, 100, 1000] as [Int])
    func random(count: Int) {
        var random = SeededGenerator(seed: UInt64(count))
        var names: [String] = []
        var known: [String: Int] = [:]
        while names.count < count {
            let name = "n" + String(Int.random(in: 0..<4 * count, using: &random), radix: 36)
            if known.updateValue(names.count, forKey: name) == nil {
                names.append(name)
            } else {
                known[name] = names.firstIndex(of: name)
            }
        }
        let index = NameIndex(names)
        for number in 0..<4 * count {
            let name = "n" + String(number, radix: 36)
            #expect(index.position(of: name) == known[name])
        }
    }
}

@Suite("Lookup of several members")
struct MembersTests {
    @Test("looking up four members together has the same results as four single lookups")
    func four() throws {
        let texts = [
            "{}", "1", "[1]", #"{"a":1}"#, #"{"d":1,"c":2,"b":3,"a":4}"#, #"{"a":1,"b":2,"a":3,"\u0061":4}"#,
            #"{"\u0062":1,"b":2,"":3}"#, #"{"ab":1,"b ":2,"c":null}"#,
            "{" + (0..<40).map { "\"n\($0)\":\($0)" }.joined(separator: ",") + #","c":1,"a":2,"c":3}"#,
        ]
        for text in texts {
            let value = try JSONValue(parsing: text)
            let found = value.members(NameIndex(["a", "b", "", "c"]))
            for (position, name) in [(found.0, "a"), (found.1, "b"), (found.2, ""), (found.3, "c")] {
                let member = value[name]
                #expect(position.map { value[$0] } == member, "\(text) \(name)")
                #expect(position?.kind == member?.kind)
                #expect(position.map { value.textRange(at: $0) } == member?.textRange)
            }
        }
    }

    @Test(
        "the string at a position is compared, and found in an index, like the value there",
        arguments: [#""ab""#, #""\u0061b""#, #""aB""#, "\"\"", "1", "[]"])
    func strings(text: String) throws {
        let value = try JSONValue(parsing: #"{"a":\#(text)}"#)
        let position = try #require(value.members(NameIndex(["a"])).0)
        let names = NameIndex(["", "ab", "1"])
        #expect(value.isString(at: position, "ab") == value["a"]?.isString("ab"))
        #expect(names.position(of: position, in: value) == value["a"].flatMap { names.position(of: $0) })
    }

    @Test("names of each length are distinguished by each of their bytes")
    func bytes() throws {
        for length in 1...40 {
            let name = String(repeating: "n", count: length)
            let value = try JSONValue(parsing: "{\"\(name)\":1}")
            #expect(value[name] == 1)
            for index in 0..<length {
                let rest = String(repeating: "n", count: length - index - 1)
                let other = String(repeating: "n", count: index) + "m" + rest
                #expect(value[other] == nil)
                #expect(NameIndex([name]).position(of: other) == nil)
            }
        }
    }

    @Test("names that occur more than once in an object are found, also among many names and with escapes")
    func duplicateNames() throws {
        let many = (0..<40).map { "\"n\($0)\":\($0)" }.joined(separator: ",")
        for (text, names) in [
            ("1", []), (#"[{"a":1,"a":2}]"#, []), (#"{"a":1,"b":{"a":1,"a":2}}"#, []), (#"{ "a" : 1 , "b" : 2 }"#, []),
            (#"{"a":1,"b":2,"\u0061":3,"b":4,"a":5}"#, ["a", "b", "a"]), ("{\(many)}", []),
            ("{\(many),\"n7\":1,\"x\":1}", ["n7"]), ("{\"n1\":0,\(many)}", ["n1"]),
        ] as [(String, [String])] {
            #expect(try JSONValue(parsing: text).duplicateNames == names, "\(text)")
        }
    }

    @Test("nameLengths of an object includes the length of each of its names")
    func lengths() throws {
        for seed in 0..<200 as Range<UInt64> {
            var generator = Generator(seed: seed)
            let value = try JSONValue(parsing: generator.object(depth: 2))
            let lengths = value.memberSummary.nameLengths
            for (name, _) in value.members { #expect(lengths & JSONValue.lengthBit(name.utf8.count) != 0) }
        }
        #expect(try JSONValue(parsing: #"{"a":1,"abc":2}"#).memberSummary.nameLengths == 0b1010)
        #expect(JSONValue.emptyObject.memberSummary.nameLengths == 0)
        // For an object with a name table, nameLengths includes all lengths.
        let repeated = "{" + Array(repeating: #""a":0"#, count: 61).joined(separator: ",") + "}"
        #expect(try JSONValue(parsing: repeated).memberSummary.nameLengths == .max)
    }
}
