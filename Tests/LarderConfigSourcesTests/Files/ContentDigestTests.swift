import Testing

@testable import LarderConfigSources

@Suite("Digests of files")
struct ContentDigestTests {
    /// Digests are stored as validators. If their format changed, every agent would read its files again.
    @Test("the digests of one file and of two files do not change between versions")
    func pinned() {
        let file = ContentDigest(of: [(name: "config.json", bytes: Array("{}".utf8))])
        #expect(file.description == "sha256:d2923454cae1630530fc7df0ced8bb863f6d6c2118962dffe48af49db43fc051")
        let files = ContentDigest(of: [
            (name: "a.json", bytes: Array("{}".utf8)), (name: "b.json", bytes: Array("[]".utf8)),
        ])
        #expect(files.description == "sha256:2e40997883f54b2880cf1ef3e7886ecffc6655caa1d43d4a90033579b0547e11")
    }
}
