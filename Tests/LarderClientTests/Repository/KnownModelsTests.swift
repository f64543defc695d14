import LarderJSON
import Testing

@testable import LarderClient

@Suite("Known models of a repository")
struct KnownModelsTests {
    private func path(_ name: String) -> JSONPath { JSONPath(["c", name]) }

    private func position(_ revision: Int, _ epoch: String = "e1") -> KnownModels.Position {
        KnownModels.Position(revision: revision, epoch: epoch)
    }

    private func read(
        _ known: inout KnownModels, _ members: KeyValuePairs<String, JSONValue>, _ revision: Int
    ) -> [String] {
        known.read(members.map { (path($0.key), $0.value) }, in: position(revision))
            .map { "\($0.path.segments[1])=\($0.value)" }
    }

    @Test("a value that was saved is not replaced by an older snapshot, but by a newer one")
    func order() {
        var known = KnownModels()
        known.learn("saved", at: path("a"), in: position(5))
        let old = known.read("old", at: path("a"), in: position(4))
        #expect(old == "saved" && known.value(at: path("a")) == "saved")
        let new = known.read("new", at: path("a"), in: position(6))
        #expect(new == "new" && known.value(at: path("a")) == "new")
    }

    @Test("a model that was deleted stays absent in older snapshots, and exists again in newer ones")
    func deletion() {
        var known = KnownModels()
        known.learn(nil, at: path("a"), in: position(5))
        let old = known.read("old", at: path("a"), in: position(4))
        #expect(old == nil)
        #expect(read(&known, ["a": 1, "b": 2], 4) == ["b=2"])
        #expect(read(&known, ["a": 1, "b": 2], 6) == ["a=1", "b=2"])
    }

    @Test("a collection has the order of the document, and newer models at the end")
    func collection() {
        var known = KnownModels()
        known.learn("new", at: path("b"), in: position(5))
        known.learn("added", at: path("x"), in: position(6))
        #expect(read(&known, ["c": 3, "b": 2, "a": 1], 4) == ["c=3", #"b="new""#, "a=1", #"x="added""#])
        #expect(read(&known, ["b": 4], 7) == ["b=4"])
        #expect(known.value(at: path("a")) == nil && known.value(at: path("x")) == nil)
    }

    @Test("the values of another epoch are forgotten")
    func epoch() {
        var known = KnownModels()
        known.learn("old", at: path("a"), in: position(50))
        known.learn("other", at: path("b"), in: position(50))
        let new = known.read("new", at: path("a"), in: position(2, "e2"))
        #expect(new == "new" && known.value(at: path("b")) == nil)
    }
}
