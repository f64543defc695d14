internal import LarderUpstream

/// Which images could not be had a moment ago, and which origins could not be reached, so that nobody asks again and again
/// and waits each time. How long depends on what went wrong; it is never long where trying again might help.
struct FailureMemory: Sendable {
    /// What is remembered.
    struct Failure: Sendable, Hashable {
        let error: ImageError
        /// In seconds since 1970.
        let until: Int
    }

    private struct Outage {
        /// Why, without the URL that was asked for when it was seen: that is for nobody else to know.
        var reason: String
        var code: UpstreamError.Code
        var until: Int
        var delay: Int
    }

    private var images: [ImageKey: Failure] = [:]
    private var outages: [String: Outage] = [:]
    private let capacity: Int

    /// An outage is remembered for this many seconds first, and twice as long each time, up to ``longestOutage``.
    static let firstOutage = 2
    static let longestOutage = 30

    /// Makes an empty one, which remembers so many images, and as many origins.
    init(capacity: Int = 4096) { self.capacity = capacity }

    /// How much is remembered.
    var count: Int { images.count + outages.count }

    /// A failure.
    ///
    /// - Parameters:
    ///   - error: what asking for the image ended with
    ///   - image: the key of the very URL that was asked for: another signature may open what this one does not
    ///   - origin: where it was asked for
    ///   - isReachable: whether the origin sent anything, to this request or to another one since it began. Only one that
    ///     did not is out of reach for all; a silence after the connection was made is of that image
    mutating func remember(_ error: ImageError, image: ImageKey, origin: String, isReachable: Bool, now: Int) {
        if let cause = error.cause, let reason = cause.originFailure, !isReachable {
            if outages[origin] == nil { makeRoom(in: &outages, now) { $0.until } }
            // Several flights fail of one outage: that is one step.
            if let known = outages[origin], known.until > now { return }
            let delay = outages[origin].map { min($0.delay * 2, Self.longestOutage) } ?? Self.firstOutage
            outages[origin] = Outage(reason: reason, code: cause.code, until: now + delay, delay: delay)
        } else if let seconds = Self.seconds(error) {
            if images[image] == nil { makeRoom(in: &images, now) { $0.until } }
            images[image] = Failure(error: error, until: now + seconds)
        }
    }

    /// An origin answered, whatever it said.
    mutating func reached(_ origin: String) { outages[origin] = nil }

    /// An image was had.
    mutating func succeeded(_ image: ImageKey) { images[image] = nil }

    /// Other settings may change everything.
    mutating func forgetAll() {
        images = [:]
        outages = [:]
    }

    /// What a request would end with, as far as is remembered.
    ///
    /// - Parameter url: what is asked for now, as it may be shown
    func failure(of image: ImageKey, origin: String, url: String, now: Int) -> Failure? {
        if let outage = outages[origin], outage.until > now {
            let cause = UpstreamError(
                outage.code, "\(url) was not asked for: \(outage.reason)", originFailure: outage.reason)
            return Failure(error: ImageError(cause), until: outage.until)
        }
        if let failure = images[image], failure.until > now { return failure }
        return nil
    }

    /// For how long a failure of an image is remembered; nothing if not at all.
    private static func seconds(_ error: ImageError) -> Int? {
        switch error.code {
        case .notAnImage, .unsupportedType, .excludedType, .damagedImage, .truncatedImage, .tooManyPixels, .tooLarge,
            .lengthDisagrees, .forbiddenAddress:
            return 60
        case .offline:
            return 5
        case .upstreamFailed:
            guard let cause = error.cause else { return 5 }
            return seconds(cause)
        default:
            return nil
        }
    }

    private static func seconds(_ cause: UpstreamError) -> Int {
        if cause.status == 429 || cause.status == 503, let asked = cause.retryAfter {
            return Int(min(max(asked.components.seconds, 1), 600))
        }
        switch cause.status {
        case 404?, 410?: return 300
        case .some(400..<500): return 60
        case .some(500...): return 5
        default: return cause.isRetryable ? 5 : 60
        }
    }

    /// Forgets what is over, and half of the rest if that was not enough, what ends first first.
    private func makeRoom<Key: Hashable, Value>(
        in table: inout [Key: Value], _ now: Int, until: (Value) -> Int
    ) {
        guard table.count >= capacity else { return }
        table = table.filter { until($0.value) > now }
        guard table.count >= capacity else { return }
        for (key, _) in table.sorted(by: { until($0.value) < until($1.value) }).prefix(capacity / 2 + 1) {
            table[key] = nil
        }
    }
}
