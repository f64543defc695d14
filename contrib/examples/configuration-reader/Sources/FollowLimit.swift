import Configuration
import ConfigurationLarder
import Foundation

@main
struct FollowLimit {
    static func main() async throws {
        // The agent need not run: until it does, the values come from the file that it has exported, if there is one.
        let larder = try await LarderProvider(startup: .optional) { interruption in
            // While the agent is away, each failed attempt is an interruption. One line for each cause is enough.
            if !interruption.isRepeated { FileHandle.standardError.write(Data("\(interruption)\n".utf8)) }
        }
        // The first provider that has a value wins. SEARCH_LIMIT=5 therefore overrides the agent.
        let config = ConfigReader(providers: [EnvironmentVariablesProvider(), larder])
        let search = config.scoped(to: "search")

        print("hosts: \(search.stringArray(forKey: "hosts", default: ["localhost"]))")
        try await withThrowingTaskGroup { group in
            group.addTask { try await larder.run() }  // follows the agent
            group.addTask {
                try await search.watchInt(forKey: "limit") { limits in
                    var last = 10  // the default
                    for await limit in limits {
                        last = limit ?? last  // nil: no value, or not an integer; the last good value stays
                        print("limit: \(last)")
                        fflush(nil)
                    }
                }
            }
            try await group.next()
            group.cancelAll()
        }
    }
}
