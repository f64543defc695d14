import LarderClient
import LarderProtocol
import LarderTesting

/// Waits until an agent has a number of requests in flight, which it has received but not answered.
func waitForRequestsInFlight(_ count: Int, at agent: TestAgent) async throws {
    let observer = agent.client()
    // The request for the statistics is in flight as well.
    while try await observer.call(AgentStats.self, NoParameters()).traffic.requestsInFlight != count + 1 {
        await Task.yield()
    }
}
