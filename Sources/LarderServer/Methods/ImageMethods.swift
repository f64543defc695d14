import LarderImages
import LarderProtocol

extension MethodTable {
    /// Adds `image.…`.
    mutating func addImageMethods() {
        own(ImageGet.self) { (connection, request) throws(WireError) in
            try ImageGetMethod(connection: connection).serve(request)
        }
        own(ImagePrefetch.self) { (connection, request) throws(WireError) in
            try ImagePrefetchMethod(connection: connection).serve(request)
        }
        own(ImagePut.self) { (connection, request) throws(WireError) in
            try ImagePutMethod(connection: connection).serve(request)
        }
        connection(ImageRelease.self) { (connection, parameters) throws(WireError) in
            ConnectionReply(result: try ImageGetMethod(connection: connection).release(parameters))
        }
        deferred(ImagePeek.self, endsWithConnection: true) { (scope, parameters) async throws(WireError) in
            let images = try scope.context.imageService()
            let request = ImageRequest(
                parameters.image, policy: parameters.policy, maximumAge: parameters.maximumAgeSeconds)
            let result = try await WireError.from { () async throws(ImageError) in
                ImagePeek.Result(
                    try await images.cache.explain(request), images.cache, explains: parameters.explains,
                    now: images.clock.now)
            }
            // The settings may have changed since the request came.
            if let denial = images.denial(of: request.url, to: scope.rights) { throw denial.error }
            return result
        }
        deferred(ImagePin.self, endsWithConnection: false) { (scope, parameters) async throws(WireError) in
            try await scope.context.imageService().pin(parameters, for: scope.rights)
        }
        deferred(ImageUnpin.self, endsWithConnection: false) { (scope, parameters) async throws(WireError) in
            let (cache, request) = (try scope.context.imageService().cache, ImageRequest(parameters))
            return try await WireError.from { () async throws(ImageError) in
                let wasPinned = try await cache.explain(request).row?.isPinned ?? false
                let isHeld = try await cache.pin(request, false)
                return ImageUnpin.Result(wasPinned: wasPinned && isHeld)
            }
        }
        deferred(ImageRemove.self, endsWithConnection: false) { (scope, parameters) async throws(WireError) in
            let images = try scope.context.imageService()
            return try await WireError.from { () async throws(ImageError) in try await images.remove(parameters) }
        }
        deferred(ImageClear.self, endsWithConnection: false) { (scope, parameters) async throws(WireError) in
            let cache = try scope.context.imageService().cache
            let rights = scope.rights
            return try await WireError.from { () async throws(ImageError) in
                let (images, bytes) = try await cache.clear(
                    includingPinned: parameters.includesPinned, sparing: { !rights.mayHaveImages(of: $0) })
                return ImageClear.Result(removed: images, bytes: bytes)
            }
        }
        deferred(ImageList.self, endsWithConnection: true) { (scope, parameters) async throws(WireError) in
            let images = try scope.context.imageService()
            let (rows, next) = try await WireError.from { () async throws(ImageError) in
                var prefix: ImagePrefix?
                if let text = parameters.prefix { prefix = try ImagePrefix(text) }
                return try await images.cache.list(after: parameters.after, limit: parameters.limit, prefix: prefix)
            }
            // What a peer may not have is not shown to it either: a URL says much.
            let shown = rows.filter { images.denial(of: $0.lookup.url, to: scope.rights) == nil }
            return ImageList.Result(images: shown.map { ImageList.Entry($0, now: images.clock.now) }, next: next)
        }
    }
}

extension ImageService {
    /// Pins an image, which is fetched where it is not held.
    ///
    /// - Throws: as `image.get` does; `denied` also if the settings changed while it was fetched
    fileprivate func pin(
        _ reference: ImageReference, for rights: PeerRights
    ) async throws(WireError) -> ImagePin.Result {
        var request = ImageRequest(reference, policy: .cacheFirst)
        request.user = rights.user
        while true {
            let image = try await WireError.from { [request] () async throws(ImageError) in
                try await cache.image(request)
            }
            defer { cache.release(image.digest) }
            if let denial = denial(of: request.url, to: rights) { throw denial.error }
            let isPinned = try await WireError.from { [request] () async throws(ImageError) in
                try await cache.pin(request, true)
            }
            if isPinned { return ImagePin.Result(image: WireImage(image)) }
            // What was held was removed between the two: now it is fetched. Once is enough, an origin that lets nobody keep
            // it would be asked in vain.
            if image.source != .hit { throw WireError(Self.notKept) }
        }
    }

    /// Removes one image, or all below a prefix.
    fileprivate func remove(_ parameters: ImageRemove.Parameters) async throws(ImageError) -> ImageRemove.Result {
        let isDryRun = parameters.isDryRun
        switch parameters.selection {
        case .image(let reference):
            let request = ImageRequest(reference)
            let held = cache.peek(request, now: clock.now)
            let isRemoved = isDryRun ? false : try await cache.remove(request)
            let isMeant = isDryRun ? held != nil : isRemoved
            return ImageRemove.Result(
                removed: isRemoved, images: isMeant ? 1 : 0, bytes: isMeant ? held?.bytes ?? 0 : 0)
        case .prefix(let text):
            let (images, bytes) = try await cache.remove(try ImagePrefix(text), isTrial: isDryRun)
            return ImageRemove.Result(removed: images > 0 && !isDryRun, images: images, bytes: bytes)
        }
    }

    private static let notKept = ImageError(
        .notHeld,
        "the image was fetched and cannot be pinned, because it was not kept: its origin forbids that (Cache-Control: "
            + "no-store, or Vary: *), or it was removed at once; have the origin allow it, or use image.get each time")
}

extension WireError {
    /// Puts the errors of the image cache into the protocol's words.
    static func from<Value>(
        _ body: () async throws(ImageError) -> Value
    ) async throws(WireError) -> Value {
        do throws(ImageError) { return try await body() } catch { throw WireError(error) }
    }
}
