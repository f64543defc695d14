import LarderClient

actor SearchService {
    private let client: LarderClient
    private(set) var settings = SearchSettings()

    init(client: LarderClient) { self.client = client }

    func start() async throws {
        settings = try await client.config.value(at: "search", default: settings)
    }
}
