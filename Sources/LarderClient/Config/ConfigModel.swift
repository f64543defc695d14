public import Observation

/// The newest snapshot of the configuration for a user interface: views that read it are drawn again when it changes.
///
/// ```swift
/// let model = ConfigModel()
/// // In SwiftUI: .task { await model.follow(client.config.snapshots(at: "ui")) }
/// await model.follow(client.config.snapshots(at: "ui"))
/// ```
@Observable @MainActor
public final class ConfigModel {
    /// The newest snapshot; nil before the first one. It stays while the agent is away.
    public private(set) var snapshot: ConfigSnapshot?
    /// Whether the agent is being waited for: before the first snapshot, and after each interruption until the next.
    public private(set) var isLoading = false
    /// What went wrong last; nil once a snapshot came again.
    public private(set) var lastError: LarderClientError?

    /// Makes a model that holds nothing yet.
    public init() {}

    /// Follows the snapshots until the task is cancelled or no further attempt can help, which is then ``lastError``.
    public func follow(_ snapshots: ConfigSnapshots) async {
        let follower = SnapshotFollower(snapshots)
        isLoading = true
        defer { isLoading = false }
        do throws(LarderClientError) {
            while let step = try await follower.next() {
                switch step {
                case .snapshot(let next):
                    snapshot = next
                    isLoading = false
                    lastError = nil
                case .interruption(let interruption):
                    isLoading = true
                    lastError = interruption.error
                    snapshots.onInterruption(interruption)
                }
            }
        } catch {
            lastError = error
        }
    }
}
