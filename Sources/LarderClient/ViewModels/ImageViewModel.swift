public import Observation

/// An observable model of one image, for user interfaces.
///
/// ```swift
/// let model = ImageViewModel(client.images)
/// await model.load("https://img.example.org/logo.png", policy: .cacheFirst)
/// switch model.phase {
/// case .empty: print("no image")
/// case .loading(let progress): print("\(progress?.receivedBytes ?? 0) bytes")
/// case .loaded(let image): print(image.path)
/// case .failed(let error, let last): print(error, last?.path ?? "no earlier image")
/// }
/// model.clear()
/// ```
///
/// The model has a lease on its image, so the file exists while the image is shown. It releases the lease when another
/// image takes its place and when the model is released. All leases also end with the connection to the agent, for
/// example when the agent restarts. The model then loads the image again, and retries until the agent is reachable.
///
/// All properties are read-only; the generated declarations do not show that their setters are private.
@Observable @MainActor
public final class ImageViewModel {
    /// The state of a model.
    public enum Phase: Sendable {
        /// No image was requested.
        case empty
        /// An image is being obtained, also because its lease ended with the connection to the agent. The progress is
        /// nil until the agent reports some; it reports none for an image that is cached.
        case loading(DownloadProgress?)
        /// The image can be read at its path.
        case loaded(LeasedImage)
        /// The image cannot be obtained. `last` is the image that the model had before; nil if it had none.
        case failed(LarderClientError, last: LeasedImage?)
    }

    /// The state of the model.
    public private(set) var phase = Phase.empty
    /// The last image that was loaded. It is kept while another one is loading, and if that fails. Its
    /// ``LeasedImage/isValid`` is false if its file may have been removed.
    public private(set) var image: LeasedImage?

    private let images: any ImageCalls
    @ObservationIgnored private var request: Task<Result<LeasedImage, LarderClientError>, Never>?
    /// The request for ``image``.
    @ObservationIgnored private var imageRequest: LarderImageRequest?
    /// Loads ``image`` again if its lease ends with the connection. Runs only in the phase `loaded`, and while it loads.
    @ObservationIgnored private var renewal: Task<Void, Never>?
    /// The number of calls of ``load(_:)`` and ``clear()``. A load that is not the newest has no effect.
    @ObservationIgnored private var generation = 0

    /// Creates a model without an image.
    /// - Parameter images: the images, such as `client.images`; in tests any ``ImageCalls``.
    public init(_ images: any ImageCalls) {
        self.images = images
    }

    isolated deinit {
        renewal?.cancel()
        image?.release()
    }

    /// Loads an image. See ``load(_:)``.
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - policy: whether a cached image or the network is preferred.
    public func load(_ url: String, policy: LarderImageRequest.Policy = .default) async {
        await load(LarderImageRequest(url, policy: policy))
    }

    /// Loads an image and cancels the load before. Returns when the image is loaded, when that has failed, or when
    /// another load has begun.
    ///
    /// If the task is cancelled, the download is cancelled as well, and the model has its last image again. The model
    /// is retained while it loads, so cancel the task when the image is no longer needed, for example when its view
    /// closes.
    /// - Parameter wanted: the image, and how it may be obtained.
    public func load(_ wanted: LarderImageRequest) async {
        let current = begin()
        if let result = await obtain(wanted, current) { finish(wanted, result) }
    }

    /// Requests an image, and shows the progress.
    /// - Returns: the result; nil if another load has begun.
    private func obtain(_ wanted: LarderImageRequest, _ current: Int) async -> Result<LeasedImage, LarderClientError>? {
        phase = .loading(nil)
        let (progress, continuation) = AsyncStream.makeStream(
            of: DownloadProgress.self, bufferingPolicy: .bufferingNewest(1))
        let request = Task { [images] in
            defer { continuation.finish() }
            do throws(LarderClientError) {
                return Result<_, LarderClientError>.success(
                    try await images.get(wanted, onProgress: { continuation.yield($0) }))
            } catch {
                return .failure(error)
            }
        }
        self.request = request
        let result = await withTaskCancellationHandler {
            for await step in progress where current == generation { phase = .loading(step) }
            return await request.value
        } onCancel: {
            request.cancel()
        }
        guard current == generation else {
            // The image may have arrived before its request was cancelled.
            if case .success(let image) = result { image.release() }
            return nil
        }
        self.request = nil
        return result
    }

    /// Shows the result of the newest load.
    private func finish(_ wanted: LarderImageRequest, _ result: Result<LeasedImage, LarderClientError>) {
        switch result {
        case .success(let loaded):
            image?.release()
            (image, imageRequest) = (loaded, wanted)
            phase = .loaded(loaded)
        case .failure(let error) where error.code == .cancelled:
            phase = image.map { .loaded($0) } ?? .empty
        case .failure(let error):
            phase = .failed(error, last: image)
        }
        if case .loaded(let image) = phase, let imageRequest { renew(image, imageRequest) }
    }

    /// Waits for the end of the connection that holds the lease of an image, and then loads the image again. Does not
    /// retain the model while it waits.
    private func renew(_ image: LeasedImage, _ wanted: LarderImageRequest) {
        guard let end = image.connectionEnd else { return }
        renewal?.cancel()
        renewal = Task { [weak self, current = generation, configuration = images.configuration] in
            for await _ in end {}
            var failures = 0
            while !Task.isCancelled, await self?.reload(wanted, current) == false {
                try? await configuration.clock.sleep(for: configuration.backoff.delay(beforeAttempt: failures))
                failures += 1
            }
        }
    }

    /// Loads the image again, unless another load has begun.
    /// - Returns: false if the agent was unreachable, so that the load must be repeated.
    private func reload(_ wanted: LarderImageRequest, _ current: Int) async -> Bool {
        guard current == generation, let result = await obtain(wanted, current) else { return true }
        if case .failure(let error) = result, error.remoteError == nil, error.isOutage { return false }
        finish(wanted, result)
        return true
    }

    /// Releases the image and cancels a load.
    public func clear() {
        _ = begin()
        image?.release()
        (image, imageRequest) = (nil, nil)
        phase = .empty
    }

    /// Cancels the load in progress. Returns the number of the new one.
    private func begin() -> Int {
        generation += 1
        renewal?.cancel()
        renewal = nil
        request?.cancel()
        request = nil
        return generation
    }
}
