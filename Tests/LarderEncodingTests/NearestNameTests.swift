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

    @Test("the distance of two names counts only their first 100 characters")
    func longNames() {
        #expect(NearestName.distance(String(repeating: "a", count: 1_000_000), "b") == 100)
    }
}
