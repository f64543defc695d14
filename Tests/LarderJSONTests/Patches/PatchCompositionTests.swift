import LarderJSON
import Testing

@Suite("Composition of two merge patches")
struct PatchCompositionTests {
    @Test(
        "a composition keeps nulls, merges objects, and otherwise takes the value of the later patch",
        arguments: [
            (#"{"o":{"n":null},"a":5}"#, #"{"a":{"c":1},"p":null}"#, #"{"o":{"n":null},"a":{"c":1},"p":null}"#),
            (#"{"a":5}"#, #"{"a":{"b":null,"c":1}}"#, #"{"a":{"b":null,"c":1}}"#),
            (#"{"a":{"b":1,"c":2}}"#, #"{"a":{"b":null}}"#, #"{"a":{"b":null,"c":2}}"#),
            (#"{"a":{"b":1}}"#, #"{"a":[1]}"#, #"{"a":[1]}"#), ("{}", #"{"a":null}"#, #"{"a":null}"#),
        ])
    func compose(first: String, second: String, expected: String) throws {
        let composed = MergePatch.compose(try JSONValue(parsing: first), try JSONValue(parsing: second))
        #expect(composed.compactText == expected)
    }

    @Test("on any target, a composed patch has the same effect as its two patches in order")
    func equivalence() throws {
        let first = try JSONValue(parsing: #"{"a":{"x":null,"y":1},"b":2}"#)
        let second = try JSONValue(parsing: #"{"a":{"y":null,"z":{"q":null}},"c":{"d":null}}"#)
        for target in ["{}", #"{"a":{"x":1,"y":2,"z":{"q":3,"r":4}},"c":{"d":5,"e":6}}"#, #"{"a":1,"b":{"c":1}}"#] {
            let target = try JSONValue(parsing: target)
            let stepwise = MergePatch.apply(second, to: MergePatch.apply(first, to: target))
            #expect(MergePatch.apply(MergePatch.compose(first, second), to: target) == stepwise)
        }
    }
}
