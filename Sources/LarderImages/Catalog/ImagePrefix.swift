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
        // Image URLs are stored without fragments. If the fragment of a prefix were ignored, the prefix would select
        // more images than intended.
        guard !url.utf8.contains(UInt8(ascii: "#")) else {
            throw ImageError(
                .invalidURL, "the prefix has a fragment, but image URLs are stored without one; end it before \"#\"")
        }
        origin = address.origin
        text = address.text { _ in false }
        isOrigin = address.path == "/" && address.query == nil
    }

    /// Whether the prefix selects an image. The image's key and the prefix must have the same origin. If the prefix has
    /// a path or query, it is compared with the URL in the image's key text, which has no query if the image was
    /// requested by a cache key.
    func contains(_ row: ImageRow) -> Bool {
        let url = row.lookup.url
        guard let address = ImageAddress(url), address.origin == origin else { return false }
        return isOrigin || url.utf8.starts(with: text.utf8)
    }
}
