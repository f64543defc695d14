import CLinuxShims
import DequeModule
import LarderImages
import LarderPlatform
import LarderProtocol
import LarderUpstream
import Synchronization

/// An image to deliver to a client. The receiver must release its reference to the blob; until then the file is not
/// evicted.
struct ImageDelivery: Sendable {
    let image: CachedImage
    /// The open file; nil if the client did not request a descriptor.
    let file: BlobFile?
}

extension ImageService {
    /// Gets an image, from the network if necessary, and opens its file if requested.
    ///
    /// - Parameters:
    ///   - cached: a cache hit whose file is to be opened; nil to request the image from the cache
    ///   - report: called with the progress of the downloads that the request waits for; nil if none is wanted
    /// - Throws: the error for the reply to `image.get`. No reference to the blob remains then.
    func deliver(
        _ request: ImageRequest, cached: CachedImage?, opening wantsFile: Bool, reporting report: ProgressReport?
    ) async throws(WireError) -> ImageDelivery {
        var cached = cached
        var isRetry = false
        while true {
            let image: CachedImage
            do throws(ImageError) {
                if let hit = cached { image = hit } else { image = try await cache.image(request, reporting: report) }
            } catch {
                throw WireError(error)
            }
            guard wantsFile else { return ImageDelivery(image: image, file: nil) }
            do throws(ImageError) {
                return ImageDelivery(image: image, file: try await cache.openBlob(image.digest))
            } catch {
                view.release(image.digest)
                // The file was missing or damaged, and the cache has dropped it. Try once more, from the network.
                guard error.code == .damagedBlob, !isRetry else { throw WireError(error) }
                (cached, isRetry) = (nil, true)
            }
        }
    }
}

/// Closes descriptors that clients passed, except those of files in memory, which threads for disk work close.
///
/// close(2) may wait indefinitely for the program or host that serves such a file (FUSE, NFS). It is therefore called
/// neither on an event loop nor on a thread for disk work, but on a separate thread. That thread exists only while
/// there are descriptors to close.
final class ForeignFileCloser: Sendable {
    private struct State {
        var waiting: Deque<(descriptor: CInt, done: @Sendable () -> Void)> = []
        var isRunning = false
    }

    /// Event loops submit descriptors, and the closing thread takes them.
    private let state = Mutex(State())

    /// - Parameter done: called after the descriptor has been closed, on the closing thread
    func close(_ descriptor: CInt, then done: @escaping @Sendable () -> Void) {
        let mustStart = state.withLock { state in
            state.waiting.append((descriptor, done))
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { start() }
    }

    /// Closes the waiting descriptors if their thread could not be started. Called after the limit of threads has permitted
    /// another thread.
    func retry() {
        let mustStart = state.withLock { state in
            if state.isRunning || state.waiting.isEmpty { return false }
            state.isRunning = true
            return true
        }
        if mustStart { start() }
    }

    private func start() {
        guard startThread("close-passed", { self.run() }) != 0 else { return }
        // The next call of ``close(_:then:)`` or ``retry()`` tries again to start the thread. Until then the waiting
        // descriptors count as open files of their users.
        state.withLock { $0.isRunning = false }
    }

    private func run() {
        while let next = next() {
            larder_close_passed(next.descriptor)
            next.done()
        }
    }

    private func next() -> (descriptor: CInt, done: @Sendable () -> Void)? {
        state.withLock { state in
            let next = state.waiting.popFirst()
            state.isRunning = next != nil
            return next
        }
    }
}
