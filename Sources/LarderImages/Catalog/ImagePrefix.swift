/// A prefix of URLs: an origin, or an origin and the start of a path and query.
package struct ImagePrefix: Sendable, Hashable {
    private let origin: String
    private let text: String
    private let isOrigin: Bool

    /// Parses an absolute `http` or `https` URL. A URL without a path selects all images of the origin.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``
    package init(_ url: String) throws(ImageError) {
        guard let address = ImageAddress(url) else { throw ImageError(.invalidURL, ImageAddress.refusal(of: url)) }
        // Images are stored without fragments. Ignoring the fragment would select more images than intended.
        guard !url.utf8.contains(UInt8(ascii: "#")) else {
            throw ImageError(
                .invalidURL, "the prefix has a fragment, but images are stored without; end the prefix before \"#\"")
        }
        origin = address.origin
        text = address.text { _ in false }
        isOrigin = address.path == "/" && address.query == nil
    }

    /// Whether the prefix selects an image. It is compared with the URL in the image's key. For an image with a cache
    /// key, it is compared with the URL from which the image was fetched, if both have the same origin.
    func contains(_ row: ImageRow) -> Bool {
        let (url, cacheKey) = row.lookup
        guard let address = ImageAddress(url), address.origin == origin else { return false }
        if isOrigin { return true }
        if cacheKey == nil { return url.utf8.starts(with: text.utf8) }
        return ImageAddress(row.url)?.text { _ in false }.utf8.starts(with: text.utf8) ?? false
    }
}
