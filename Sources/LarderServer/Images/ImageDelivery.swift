import LarderImages
import LarderPlatform
import LarderUpstream
import LarderProtocol

/// An image that is on its way to a client: the file stays, because the reference of ``image`` is still to be given back.
struct ImageDelivery: Sendable {
    let image: CachedImage
    /// The open file, where the client wants a descriptor.
    let file: BlobFile?
}

extension ImageService {
    /// Gets an image, from the network where it has to be, and opens its file where that is wanted.
    ///
    /// - Parameter held: a hit whose file is to be opened
    /// - Throws: what `image.get` answers with; no reference is left then
    func deliver(
        _ request: ImageRequest, held: CachedImage?, opening wantsFile: Bool
    ) async throws(WireError) -> ImageDelivery {
        var held = held
        var isRetry = false
        while true {
            let image: CachedImage
            do throws(ImageError) {
                if let hit = held { image = hit } else { image = try await cache.image(request) }
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
                // The file was lost or damaged and is out of the cache now: once more, from the network.
                guard error.code == .damagedBlob, !isRetry else { throw WireError(error) }
                (held, isRetry) = (nil, true)
            }
        }
    }
}
