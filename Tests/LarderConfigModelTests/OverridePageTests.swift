import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel

@Suite("Pages of overrides")
struct OverridePageTests {
    private func paths(_ layer: OverrideLayer, at path: [String] = [], limit: Int) async -> [[String]] {
        var (paths, start): ([[String]], [String]?) = ([], nil)
        while true {
            let page = await layer.page(at: path, after: start, limit: limit)
            #expect(page.entries.count <= limit)
            paths += page.entries.map(\.path)
            if !page.isFull { return paths }
            start = page.entries.last?.path
        }
    }

    @Test(
        "the pages of a layer contain each entry once, in ascending order of the paths, whatever their size",
        arguments: [1, 2, SeededGenerator.randomSeed] as [UInt64])
    func everyEntry(seed: UInt64) async {
        var generator = SeededGenerator(seed: seed)
        var layer = OverrideLayer()
        // The last two names differ only in their Unicode normalization.
        let names = (0..<60).map { "n\($0)" } + ["a", "b.c", "", "\u{E9}", "e\u{301}"]
        for time in 0..<400 {
            let path = (0..<Int.random(in: 0...3, using: &generator)).compactMap { _ in
                names.randomElement(using: &generator)
            }
            if time > 0, path.isEmpty { continue }
            layer.set(OverrideEntry(path: path, value: .int(time), setAt: time))
        }
        let expected = layer.entries.map(\.path).sorted { left, right in
            left.map { Array($0.utf8) }.lexicographicallyPrecedes(right.map { Array($0.utf8) }) {
                $0.lexicographicallyPrecedes($1)
            }
        }
        for limit in [1, 7, expected.count, 1000] {
            let listed = await paths(layer, limit: limit)
            #expect(listed.map { $0.map { Array($0.utf8) } } == expected.map { $0.map { Array($0.utf8) } })
        }
        let below = expected.filter { $0.first == "n1" }
        #expect(await paths(layer, at: ["n1"], limit: 2) == below)
    }

    @Test("a page continues after the path of an override that was removed")
    func removed() async {
        var layer = OverrideLayer()
        for name in ["a", "b", "c"] { layer.set(OverrideEntry(path: [name], value: 1, setAt: 0)) }
        let wasSet = layer.unset(["b"])
        #expect(wasSet)
        let page = await layer.page(at: [], after: ["b"], limit: 10)
        #expect(page.entries.map(\.path) == [["c"]] && !page.isFull)
    }

    @Test("a page ends after large values")
    func largeValues() async {
        var layer = OverrideLayer()
        let value = JSONValue.string(String(repeating: "x", count: 200 << 10))
        for name in ["a", "b", "c"] { layer.set(OverrideEntry(path: [name], value: value, setAt: 0)) }
        let page = await layer.page(at: [], after: nil, limit: 10)
        #expect(page.entries.map(\.path) == [["a"], ["b"]] && page.isFull)
        #expect(page.copiedBytes > 2 * 200 << 10)
    }
}
