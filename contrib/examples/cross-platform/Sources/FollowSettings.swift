import Foundation

/// The part of the configuration that the program uses. Its initial values are the defaults, on all systems.
struct SearchSettings: Codable, Sendable {
    var limit = 10
    var hosts = ["localhost"]
}

@main
struct FollowSettings {
    static func main() async throws {
        try await followSettings { settings in
            print("at most \(settings.limit) results of \(settings.hosts.joined(separator: ", "))")
            fflush(nil)
        }
    }
}

#if canImport(LarderClient)
    import LarderClient

    /// Passes the settings to `use`: the defaults at once, and then those of the agent, now and after each change. An agent
    /// that is away, and a value that does not match the type, leave the last good settings in use.
    func followSettings(_ use: @Sendable (SearchSettings) -> Void) async throws {
        use(SearchSettings())
        for try await snapshot in LarderClient().config.snapshots(at: "search") {
            do throws(LarderClientError) {
                use(try snapshot.decode(default: SearchSettings()))
            } catch {
                print("the last good settings stay in use: \(error)")
                fflush(nil)
            }
        }
    }
#else
    /// Passes the defaults to `use`, because there is no agent on this system.
    func followSettings(_ use: @Sendable (SearchSettings) -> Void) async throws { use(SearchSettings()) }
#endif
