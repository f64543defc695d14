import Logging

/// Saves the settings in effect, so that the agent can start with them if the file is invalid then.
struct SettingsSaver: Sendable {
    /// The time after which settings are saved again if that failed.
    var pause = Duration.seconds(5)
    let logger: Logger
    /// Called after each attempt with the reason why the settings are not saved; nil if they are.
    let report: @Sendable (String?) -> Void

    /// Saves settings.
    /// - Returns: a task that tries again until it succeeds or is cancelled; nil if the settings are saved
    func save(_ write: @escaping @Sendable () async throws -> Void) async -> Task<Void, Never>? {
        guard let problem = await attempt(write) else { return nil }
        logger.warning("cannot save the settings; retrying: \(problem)", metadata: ["error": "\(problem)"])
        return Task {
            while (try? await Task.sleep(for: pause)) != nil {
                if await attempt(write) != nil { continue }
                logger.notice("the settings are saved now")
                return
            }
        }
    }

    /// - Returns: why the settings are not saved; nil if they are
    private func attempt(_ write: @escaping @Sendable () async throws -> Void) async -> String? {
        var problem: String?
        do { try await write() } catch { problem = "\(error)" }
        report(problem)
        return problem
    }
}
