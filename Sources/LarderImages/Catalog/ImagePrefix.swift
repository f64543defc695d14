internal import LarderUpstream

/// A prefix of URLs: an origin, or an origin and the start of a path and query.
package struct ImagePrefix: Sendable, Hashable {
    private let origin: String
    private let text: String
    private let isOrigin: Bool

    /// Parses an absolute `http` or `https` URL. A URL without a path selects all images of the origin.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``
    package init(_ url: String) throws(ImageError) {
        let address: FetchURL
        do { address = try FetchURL(parsing: url) } catch { throw ImageError(error) }
        // Image URLs are stored without fragments. If the fragment of a prefix were ignored, the prefix would select
        // more images than intended.
        guard !url.utf8.contains(UInt8(ascii: "#")) else {
            throw ImageError(
                .invalidURL, "the prefix has a fragment, but image URLs are stored without one; end it before \"#\"")
        }
        // The same applies to dot segments. `/a/.` may be meant to select `/a/.b`, but would select all of `/a/`.
        let path = url.utf8.prefix { $0 != UInt8(ascii: "?") }
        guard !path.reversed().starts(with: "./".utf8), !path.reversed().starts(with: "../".utf8) else {
            throw ImageError(
                .invalidURL, "the path of the prefix ends in a dot segment, which no image URL has; remove it")
        }
        origin = address.origin
        text = address.text
        isOrigin = address.path == "/" && address.query == nil
    }

    /// Whether the prefix selects an image. The image's key and the prefix must have the same origin. If the prefix has
    /// a path or query, it is compared with the URL in the image's key text, which has no query if the image was
    /// requested by a cache key.
    func contains(_ row: ImageRow) -> Bool {
        let url = row.lookup.url
        guard let address = try? FetchURL(parsing: url), address.origin == origin else { return false }
        return isOrigin || address.text.utf8.starts(with: text.utf8)
    }
}
