import LarderClient

func runShop() async throws {
    let client = LarderClient()
    let service = SearchService(client: client)
    try await withThrowingTaskGroup { group in
        group.addTask { try await client.run() }
        group.addTask { try await service.run() }
        try await group.next()
        group.cancelAll()
    }
}
