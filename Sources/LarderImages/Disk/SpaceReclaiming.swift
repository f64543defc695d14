internal import LarderPlatform

/// Frees disk space for downloads and puts. ``ImageCache`` does.
protocol SpaceReclaiming: Sendable {
    /// Makes room for a shortage.
    ///
    /// - Returns: whether there may be room now, so that it is worth trying again
    /// - Throws: ``ImageError`` if nothing can be removed
    func reclaim(_ shortage: SpaceShortage, for id: TransferID) async throws(ImageError) -> Bool

    /// Notes that a transfer has the space that was made for it.
    func spaceFound(by id: TransferID) async
}

/// Repeats the steps of a writer until they have their space.
struct SpaceRetry: Sendable {
    /// How often space is reclaimed for one step before it fails: other writers may take the space.
    private static let maxRequests = 64

    let id: TransferID
    let space: any SpaceReclaiming
    let blocking: BlockingWork

    /// Runs a step of the writer, which may wait for the disk.
    ///
    /// - Throws: what the step throws, at last ``ImageError/Code/noRoom``; what ``SpaceReclaiming/reclaim(_:for:)`` throws
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
