import LarderClient

actor SearchService {
    private let client: LarderClient
    private(set) var settings = SearchSettings()

    init(client: LarderClient) { self.client = client }

    func run() async throws {
        for try await snapshot in client.config.snapshots(at: "search") {
            do throws(LarderClientError) {
                settings = try snapshot.decode(default: SearchSettings())
                try? await client.config.acknowledge(snapshot)
            } catch {
                print("revision \(snapshot.revision) is not used: \(error)")
                try? await client.config.acknowledge(snapshot, accepted: false, reason: error.reason)
            }
        }
    }
}
