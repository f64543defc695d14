import LarderJSON
import Testing

@Suite("Members of objects")
struct ObjectTests {
    @Test("duplicate members count as one, with the value of the last at the position of the first")
    func duplicates() throws {
        let value = try JSONValue(parsing: #"{"a":1,"b":2,"a":{"x":1},"c":3,"a":4,"c":5}"#)
        #expect(value.count == 3)
        #expect(value["a"]?.int == 4)
        #expect(value.member("c")?.int == 5)
        #expect(value.members.map(\.name) == ["a", "b", "c"])
        #expect(value.members.map(\.value.int) == [4, 2, 5])
        #expect(value.compactText == #"{"a":4,"b":2,"c":5}"#)
    }

    @Test("names are compared after resolving escapes")
    func escapedNames() throws {
        let value = try JSONValue(parsing: #"{"limit":1,"\u006cimit":2,"l\u0069mit":3,"\n":4}"#)
        #expect(value.count == 2)
        #expect(value["limit"]?.int == 3)
        #expect(value.member("limit")?.int == 3)
        #expect(value["\n"]?.int == 4)
        #expect(value.members.map(\.name) == ["limit", "\n"])
    }

    @Test("names are compared by their bytes: no normalization, no case folding")
    func namesAreBytes() throws {
        let value = try JSONValue(parsing: "{\"\u{E9}\":1,\"e\u{301}\":2,\"E\u{301}\":3}")
        #expect(value.count == 3)
        #expect(value["\u{E9}"]?.int == 1)
        #expect(value["e\u{301}"]?.int == 2)
    }

    @Test("an empty name and a name with NUL are valid names")
    func unusualNames() throws {
        let value = try JSONValue(parsing: #"{"":1,"a\u0000b":2,"a":3}"#)
        #expect(value[""]?.int == 1)
        #expect(value.member("")?.int == 1)
        #expect(value["a\u{0}b"]?.int == 2)
        #expect(value["a"]?.int == 3)
        #expect(value["\u{0}"] == nil)
    }

    @Test(
        "lookup finds each member and no other name, in objects with and without a name table",
        arguments: [0, 1, 2, 31, 32, 33, 34, 63, 64, 65, 66, 100, 1000])
    func sizes(count: Int) throws {
        let text = "{" + (0..<count).map { "\"name\($0)\":{\"n\":\($0)}" }.joined(separator: ",") + "}"
        let value = try JSONValue(parsing: text)
        #expect(value.count == count)
        #expect(value.compactText == text)
        #expect(value.members.map(\.name) == (0..<count).map { "name\($0)" })
        for index in 0..<count { #expect(value["name\(index)"]?["n"]?.int == index) }
        for absent in ["", "name", "name\(count)", "name-1", "n", "name0 "] { #expect(value[absent] == nil) }
    }

    @Test("duplicates are resolved at any position, in objects with and without a name table")
    func duplicatePlaces() throws {
        for count in [2, 20, 31, 32, 33, 34, 40, 70] {
            for first in [0, 1, count / 2] {
                for second in Set([first + 1, count / 2 + 1, count - 1]) where second > first && second < count {
                    var names = (0..<count).map { "k\($0)" }
                    names[second] = names[first]
                    let text = "{" + names.enumerated().map { "\"\($1)\":\($0)" }.joined(separator: ",") + "}"
                    let value = try JSONValue(parsing: text)
                    #expect(value.count == count - 1)
                    #expect(value[names[first]]?.int == second)
                    #expect(Model(value) == ReferenceParser.parse(Array(text.utf8)))
                    #expect(try JSONValue(parsing: value.compactText) == value)
                }
            }
        }
    }

    @Test("a hundred thousand members with one name are parsed as one member")
    func identicalNames() throws {
        let value = try JSONValue(
            parsing: "{" + (0..<100_000).map { "\"same\":\($0)" }.joined(separator: ",") + "}")
        #expect(value.count == 1)
        #expect(value["same"]?.int == 99_999)
        #expect(value.compactText == #"{"same":99999}"#)
    }

    @Test("a hundred thousand names with the same length, head and tail are distinguished")
    func alikeNames() throws {
        func name(_ index: Int) -> String {
            let digits = String(index)
            return "headhead" + String(repeating: "0", count: 6 - digits.count) + digits + "tailtail"
        }
        let text = "{" + (0..<100_000).map { "\"\(name($0))\":\($0)" }.joined(separator: ",") + "}"
        let value = try JSONValue(parsing: text)
        #expect(value.count == 100_000)
        for index in stride(from: 0, to: 100_000, by: 37) { #expect(value[name(index)]?.int == index) }
        #expect(value[name(0) + "x"] == nil)
        #expect(try JSONValue(parsing: text) == value)
    }

    @Test("an object that repeats a few names thousands of times is parsed in linear time")
    func repeatedRuns() throws {
        var parts: [String] = []
        for run in 0..<20 { parts += [String](repeating: "\"k\(run)\":\(run)", count: 5_000) }
        parts += parts.reversed()
        let value = try JSONValue(parsing: "{" + parts.joined(separator: ",") + "}")
        #expect(value.members.map(\.name) == (0..<20).map { "k\($0)" })
        #expect(value.members.map(\.value.int) == Array(0..<20))
    }

    @Test("array elements are found by index, whatever their kinds")
    func elements() throws {
        let scalars = try JSONValue(parsing: "[0,1,2,3]")
        #expect((0..<4).map { scalars[$0]?.int } == [0, 1, 2, 3])
        let mixed = try JSONValue(parsing: #"[[0,0],1,{"a":[2]},3]"#)
        #expect(mixed[1]?.int == 1)
        #expect(mixed[2]?["a"]?[0]?.int == 2)
        #expect(mixed[3]?.int == 3)
        for value in [scalars, mixed] {
            #expect(value.count == 4)
            #expect(value.elements.underestimatedCount == 4)
            #expect(value[4] == nil)
            #expect(value[-1] == nil)
            #expect(value[.max] == nil)
            #expect(value[.min] == nil)
        }
    }

    @Test("isString compares strings after resolving escapes")
    func isString() throws {
        let value = try JSONValue(parsing: #"["config.get","config\u002eget","",1,null]"#)
        #expect(value.elements.map { $0.isString("config.get") } == [true, true, false, false, false])
        #expect(value.elements.map { $0.isString("") } == [false, false, true, false, false])
    }
}
