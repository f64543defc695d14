import LarderEncoding
import Testing

@Suite("Nearest name")
struct NearestNameTests {
    @Test(
        "the distance of two names counts added, removed, replaced and swapped characters",
        arguments: [
            ("", "", 0), ("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("abc", "abd", 1), ("abc", "ab", 1),
            ("abc", "acb", 1), ("ca", "abc", 3), ("kitten", "sitting", 3), ("hots", "host", 1),
        ])
    func distance(first: String, second: String, distance: Int) {
        #expect(NearestName.distance(first, second) == distance)
        #expect(NearestName.distance(second, first) == distance)
    }

    @Test("a suggestion is close to the unknown name or begins with it")
    func suggestions() {
        let known = ["status", "set", "history", "ls"]
        #expect(NearestName.suggestion(for: "staus", among: known) == "status")
        #expect(NearestName.suggestion(for: "hist", among: known) == "history")
        #expect(NearestName.suggestion(for: "unrelated", among: known) == nil)
        #expect(NearestName.suggestion(for: "x", among: ["ls"]) == nil)
        #expect(NearestName.suggestion(for: "x", among: []) == nil)
        #expect(NearestName.advice(for: "x", among: []) == "remove it")
    }

    @Test("the distance of two names counts only their first 100 characters")
    func longNames() {
        #expect(NearestName.distance(String(repeating: "a", count: 1_000_000), "b") == 100)
    }
}
