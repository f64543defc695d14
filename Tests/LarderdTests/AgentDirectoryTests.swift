import Testing

@testable import larderd

@Suite("Directories of the agent")
struct AgentDirectoryTests {
    @Test("the directory of a socket or cache in the root directory is the root directory")
    func rootDirectory() {
        #expect(Agent.directory(of: "/larder.sock") == "/")
        #expect(Agent.directory(of: "/cache/images") == "/cache")
        #expect(Agent.directory(of: "/run/larder/larder.sock") == "/run/larder")
    }
}
