internal import Synchronization

/// What a flight asks the network for.
struct ImageFetch: Sendable {
    /// The bytes go into the cache, and what comes of it to whoever called.
    typealias Operation = @concurrent @Sendable (ImageFetch) async throws(ImageError) -> ImageDownload.Outcome

    let url: String
    /// The origin's credentials.
    let headers: [(name: String, value: String)]
    /// What is held, to ask whether it is current.
    let held: StoredResponse?
    let expectedDigest: BlobDigest?
    let makeRoom: @Sendable (SpaceShortage) async throws(ImageError) -> Bool
    let received: @Sendable (Int) -> Void
}

/// One image on its way, and those that wait for it.
struct ImageFlight {
    /// What a request's wait ended with.
    enum Ending: Sendable {
        case image(CachedImage)
        case failed(ImageError)
        /// The flight failed by what only its own URL was to blame for: the request begins again, with its own.
        case again
    }

    struct Waiter {
        let request: ImageRequest
        let continuation: CheckedContinuation<Ending, Never>
        /// Whether the flight began for this one.
        let isFirst: Bool
    }

    let place: ImagePlace
    let url: String
    let expectedDigest: BlobDigest?
    /// Whether it fetches anew, whatever is held.
    let isUnconditional: Bool
    /// Whether it goes on although nobody waits for it.
    let isBackground: Bool
    /// How often its origin had answered before it began.
    let answersBefore: Int
    let progress = FlightProgress()
    var priority: ImagePriority
    var waiters: [Int: Waiter] = [:]
    /// Set once it has its place.
    var task: Task<Void, Never>?

    /// Whether a request may wait for it: it would not want another condition, nor another image.
    func serves(_ request: ImageRequest, unconditionally: Bool) -> Bool {
        (expectedDigest == nil || expectedDigest == request.expectedDigest) && (isUnconditional || !unconditionally)
    }
}

/// How many bytes of a body have come.
final class FlightProgress: Sendable {
    private let bytes = Atomic(0)

    var received: Int { bytes.load(ordering: .relaxed) }

    func add(_ count: Int) { bytes.add(count, ordering: .relaxed) }
}
