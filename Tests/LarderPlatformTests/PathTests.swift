import LarderPlatform
import Testing

@Suite("Paths")
struct PathTests {
    @Test(
        "a path is split at its last slash",
        arguments: [
            ("/larder.sock", "/", "larder.sock"), ("/run/larder/larder.sock", "/run/larder", "larder.sock"),
            ("larder.sock", ".", "larder.sock"), ("/", "/", ""),
        ])
    func split(_ path: String, _ directory: String, _ name: String) {
        #expect(splitPath(path) == (directory, name))
    }

    @Test("a relative path becomes absolute, and an absolute path stays")
    func absolute() {
        #expect(absolutePath("/run/larder") == "/run/larder")
        #expect(absolutePath("larder").hasSuffix("/larder"))
        #expect(absolutePath("larder").hasPrefix("/"))
    }
}
