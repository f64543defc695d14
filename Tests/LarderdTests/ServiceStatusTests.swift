import LarderConfig
import Testing

@testable import larderd

@Suite("The status line of the service")
struct ServiceStatusTests {
    private func line(_ states: Freshness..., clients: Int = 2, problem: String? = nil) -> String {
        let namespaces = states.enumerated().map { ("n\($0.offset)", $0.element) }
        return ServiceStatus.line(namespaces, clients: clients, settingsProblem: problem)
    }

    @Test("it says how many namespaces and clients there are, and names those that fare worst")
    func lines() {
        #expect(line(.fresh) == "1 namespace, fresh; 2 clients")
        #expect(line(.fresh, .refreshing, clients: 1) == "2 namespaces, fresh; 1 client")
        #expect(line(.fresh, .stale, .initializing, clients: 0) == "3 namespaces, stale: n1; 0 clients")
        #expect(line(.stale, .failed, .failed) == "3 namespaces, failed: n1, n2; 2 clients")
        let many = line(.stale, .stale, .stale, .stale, .stale)
        #expect(many == "5 namespaces, stale: n0, n1, n2 and 2 others; 2 clients")
    }

    @Test("settings that were refused are in it")
    func settings() {
        let refused = line(.fresh, problem: "line 3")
        #expect(refused == "1 namespace, fresh; 2 clients; the new settings are wrong, the former are in force: line 3")
    }
}
