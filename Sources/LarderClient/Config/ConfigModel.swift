public import Observation

/// An observable model of the configuration for user interfaces. Views that read its properties are redrawn when a new
/// snapshot arrives.
///
/// ```swift
/// let model = ConfigModel()
/// // In SwiftUI: .task { await model.follow(client.config.snapshots(at: "ui")) }
/// await model.follow(client.config.snapshots(at: "ui"))
/// ```
@Observable @MainActor
public final class ConfigModel {
    /// The newest snapshot; nil before the first one. It is kept while the agent is unreachable.
    public private(set) var snapshot: ConfigSnapshot?
    /// Whether ``follow(_:)`` is waiting for the first snapshot, or for the next one after an interruption.
    public private(set) var isLoading = false
    /// The most recent error; nil if there was none, or if a snapshot has arrived since.
    public private(set) var lastError: LarderClientError?

    /// Creates a model without a snapshot.
    public init() {}

    /// Follows a stream of snapshots. Returns when the task is cancelled, or when the stream ends with an error, which
    /// is then ``lastError``.
    /// - Parameter snapshots: the stream. The `onInterruption` with which it was created is also called.
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
