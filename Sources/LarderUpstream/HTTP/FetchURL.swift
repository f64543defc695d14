internal import FoundationEssentials

/// An `http` or `https` URL that has passed the checks, split into its parts.
struct FetchURL: Sendable {
    /// The URL that is passed to the HTTP client, without its fragment.
    let text: String
    let scheme: String
    let host: String
    let port: Int
    private let url: URL

    /// Parses and checks a URL from the settings or from a client.
    ///
    /// - Throws: ``UpstreamError/Code/invalidURL`` if the URL is not an absolute `http` or `https` URL with a host and
    ///   without credentials
    init(_ text: String) throws(UpstreamError) {
        guard !text.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7f }), let url = URL(string: text) else {
            throw Self.invalid(text, "it is not a URL")
        }
        try self.init(url)
    }

    private init(_ url: URL) throws(UpstreamError) {
        let text = url.absoluteString
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            throw Self.invalid(text, "only http and https are supported")
        }
        // A password in a URL would appear in logs, in status replies and in the logs of proxies.
        guard url.user() == nil, url.password() == nil else {
            throw Self.invalid(text, "put credentials in a header, not in the address")
        }
        guard let host = url.host()?.lowercased(), !host.isEmpty else { throw Self.invalid(text, "it has no host") }
        let port = url.port ?? (scheme == "https" ? 443 : 80)
        guard (1...65_535).contains(port) else { throw Self.invalid(text, "its port is not between 1 and 65535") }
        self.url = url
        self.text = String(text.prefix(while: { $0 != "#" }))
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// Resolves a `Location` header field (RFC 9110, section 10.2.2), which may be relative.
    ///
    /// - Throws: ``UpstreamError/Code/invalidRedirect`` if the target fails the checks, or if it leads from `https` to
    ///   `http`, where the response could be forged
    func redirected(to location: String) throws(UpstreamError) -> FetchURL {
        guard let url = URL(string: location, relativeTo: url) else {
            throw UpstreamError(
                .invalidRedirect, "\(display) redirects to an invalid URL; inform the operator of that server")
        }
        let target: FetchURL
        do {
            target = try FetchURL(url.absoluteURL)
        } catch {
            throw UpstreamError(.invalidRedirect, "\(display) redirects to an unusable address: \(error.message)")
        }
        if scheme == "https" && target.scheme == "http" {
            throw UpstreamError(
                .invalidRedirect, "\(display) redirects from https to \(target.display); serve the target with https")
        }
        return target
    }

    /// Whether both URLs have the same origin (RFC 6454), so that credentials for one can be sent to the other.
    func isSameOrigin(as other: FetchURL) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }

    /// The URL for messages, without its query, because a signed URL is a secret.
    var display: String { Self.display(text) }

    static func display(_ text: String) -> String {
        guard let mark = text.firstIndex(where: { $0 == "?" || $0 == "#" }) else { return text.middleCut }
        return String(text[..<mark]).middleCut + "?…"
    }

    private static func invalid(_ text: String, _ reason: String) -> UpstreamError {
        // The text before an "@" may contain a password, so a text with an "@" is not shown.
        let plain = String(text.unicodeScalars.filter { $0.value > 0x1f })
        let shown = text.contains("@") ? "the address" : "\"\(display(plain))\""
        return UpstreamError(.invalidURL, "cannot fetch \(shown): \(reason); correct the url")
    }
}

extension String {
    /// The first 100 and the last 99 characters if the text has more than 200; otherwise the whole text. Keeps messages
    /// short.
    package var middleCut: String {
        let most = 200
        // Counting bytes is faster than counting characters, and most texts have at most 200 bytes.
        guard utf8.count > most, count > most else { return self }
        return prefix(most / 2) + "…" + suffix(most / 2 - 1)
    }
}
