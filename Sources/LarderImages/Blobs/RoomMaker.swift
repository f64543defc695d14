internal import LarderPlatform

/// Makes room for one writer, and repeats a step of it until the step has its room.
struct RoomMaker: Sendable {
    /// How often room is made for one step before it fails: other writers may take the room.
    private static let maxRequests = 64

    /// Makes room for a shortage.
    ///
    /// - Returns: whether the step is worth repeating
    /// - Throws: ``ImageError`` if nothing can be removed
    let make: @Sendable (SpaceShortage) async throws(ImageError) -> Bool
    /// Called when a step has the room that was made for it.
    let found: @Sendable () async -> Void

    init(
        make: @escaping @Sendable (SpaceShortage) async throws(ImageError) -> Bool,
        found: @escaping @Sendable () async -> Void = {}
    ) {
        (self.make, self.found) = (make, found)
    }

    /// Does a step of the writer, which may wait for the disk.
    ///
    /// - Throws: what the step throws, at last ``ImageError/Code/noRoom``; what ``make`` throws
    func run<Value: Sendable>(
        on blocking: BlockingWork, _ step: @escaping @Sendable () throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        var requests = 0
        while true {
            do throws(ImageError) {
                let value = try await blocking.run(step)
                if requests > 0 { await found() }
                return value
            } catch {
                requests += 1
                guard let shortage = error.shortage, requests <= Self.maxRequests, !Task.isCancelled,
                    try await make(shortage)
                else { throw error }
            }
        }
    }
}
