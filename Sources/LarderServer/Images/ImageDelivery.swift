import LarderImages
import LarderPlatform
import LarderUpstream
import LarderProtocol

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
                let (cache, digest) = (cache, image.digest)
                let file = try await blocking.run { () throws(ImageError) in try cache.openBlob(digest) }
                return ImageDelivery(image: image, file: file)
            } catch {
                cache.release(image.digest)
                // The file was missing or damaged, and the cache has dropped it. Try once more, from the network.
                guard error.code == .damagedBlob, !isRetry else { throw WireError(error) }
                (cached, isRetry) = (nil, true)
            }
        }
    }
}
