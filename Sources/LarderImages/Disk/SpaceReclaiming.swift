internal import LarderPlatform

/// Frees disk space for downloads and puts, and is notified of failed attempts. ``ImageCache`` conforms to it.
protocol DownloadOwner: Sendable {
    /// Evicts images to resolve a shortage.
    ///
    /// - Returns: whether there may be room now, so that the caller should retry
    /// - Throws: ``ImageError`` if nothing can be evicted
    func reclaim(_ shortage: SpaceShortage, for id: TransferID) async throws(ImageError) -> Bool

    /// Records that a transfer has obtained the space that was freed for it.
    func spaceFound(by id: TransferID) async

    /// Handles the failure of an attempt of a download that will be retried.
    func attemptFailed(_ id: TransferID, _ error: ImageError) async
}

/// Retries the steps of a writer until disk space is available.
struct SpaceRetry: Sendable {
    /// The maximum number of times that space is freed for one step. Once may not suffice, because other writers may
    /// take the freed space: on a busy machine with eight writers, some steps need more than 64 attempts. Whenever that
    /// happens, another writer makes progress. If there is still no space after the last attempt, the step fails.
    private static let maxRequests = 4096

    let id: TransferID
    let space: any DownloadOwner
    let blocking: BlockingWork

    /// Runs a step of the writer on a thread of ``BlockingWork``.
    ///
    /// - Throws: the errors of the step, including ``ImageError/Code/noRoom`` after all retries, and those of
    ///   ``DownloadOwner/reclaim(_:for:)``
    func run<Value: Sendable>(
        _ step: @escaping @Sendable () throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        var requests = 0
        while true {
            do throws(ImageError) {
                let value = try await blocking.run(step)
                if requests > 0 { await space.spaceFound(by: id) }
                return value
            } catch {
                requests += 1
                guard let shortage = error.shortage, requests <= Self.maxRequests, !Task.isCancelled,
                    try await space.reclaim(shortage, for: id)
                else { throw error }
            }
        }
    }
}
