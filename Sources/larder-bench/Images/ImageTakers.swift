import Foundation
import Synchronization

/// Clients that take images by the same way at the same time, each on a thread of its own.
final class ImageTakers: Sendable {
    private let takers: [Taker]

    /// Lets one thread have what is made by another; they never have it at the same time.
    private struct Taker: @unchecked Sendable {
        let taker: ImageTaker
    }

    /// Makes them, and has every image held.
    init(_ count: Int, _ make: () throws -> ImageTaker) throws {
        takers = try (0..<count).map { _ in Taker(taker: try make()) }
        for taker in takers { try taker.taker.warmUp() }
    }

    /// Takes images for some time.
    /// - Returns: bytes for each second, of all together
    func take(seconds: Double) throws -> Double {
        let results = Mutex<[Result<Double, any Error>]>([])
        // The caller is a plain thread that has nothing to do until the others are at their ends.
        let done = DispatchSemaphore(value: 0)
        for taker in takers {
            Thread.detachNewThread {
                let result = Result { try taker.taker.take(seconds: seconds) }
                results.withLock { $0.append(result) }
                done.signal()
            }
        }
        for _ in takers { done.wait() }
        return try results.withLock { try $0.reduce(0) { try $0 + $1.get() } }
    }
}
