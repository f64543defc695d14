internal import FoundationEssentials

/// An address that we are willing to fetch, taken apart once.
struct FetchURL: Sendable {
    /// The address as it goes to the HTTP client, without its fragment.
    let text: String
    let scheme: String
    let host: String
    let port: Int
    private let url: URL

    /// Checks an address from the settings or from a caller.
    ///
    /// - Throws: ``UpstreamError/Code/invalidURL``
    init(_ text: String) throws(UpstreamError) {
        guard !text.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7f }), let url = URL(string: text) else {
            throw Self.invalid(text, "it is not a URL")
        }
        try self.init(url)
    }

    private init(_ url: URL) throws(UpstreamError) {
        let text = url.absoluteString
        guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            throw Self.invalid(text, "only http and https are fetched")
        }
        // A password in an address ends up in logs, in status replies and in the logs of proxies.
        guard url.user() == nil, url.password() == nil else {
            throw Self.invalid(text, "put credentials in a header, not in the address")
        }
        guard let host = url.host()?.lowercased(), !host.isEmpty else { throw Self.invalid(text, "it names no host") }
        let port = url.port ?? (scheme == "https" ? 443 : 80)
        guard (1...65_535).contains(port) else { throw Self.invalid(text, "its port is not between 1 and 65535") }
        self.url = url
        self.text = String(text.prefix(while: { $0 != "#" }))
        self.scheme = scheme
        self.host = host
        self.port = port
    }

    /// Follows a `Location` field (RFC 9110, section 10.2.2), which may be relative.
    ///
    /// - Throws: ``UpstreamError/Code/invalidRedirect`` if the target is no address we would fetch, or if it leads from
    ///   `https` to `http`: whoever can read that exchange could have written its answer.
    func redirected(to location: String) throws(UpstreamError) -> FetchURL {
        guard let url = URL(string: location, relativeTo: url) else {
            throw UpstreamError(.invalidRedirect, "\(display) redirects to what is not a URL; ask its operator")
        }
        let target: FetchURL
        do {
            target = try FetchURL(url.absoluteURL)
        } catch {
            throw UpstreamError(.invalidRedirect, "\(display) redirects to an unusable address: \(error.message)")
        }
        if scheme == "https" && target.scheme == "http" {
            throw UpstreamError(
                .invalidRedirect, "\(display) redirects from https to \(target.display); serve it by https to the end")
        }
        return target
    }

    /// Whether a request to one may carry what was meant for the other (RFC 6454).
    func isSameOrigin(as other: FetchURL) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }

    /// The address for messages: a signed URL is a secret, so its query is not shown.
    var display: String { Self.display(text) }

    static func display(_ text: String) -> String {
        guard let mark = text.firstIndex(where: { $0 == "?" || $0 == "#" }) else { return text.middleCut }
        return String(text[..<mark]).middleCut + "?…"
    }

    private static func invalid(_ text: String, _ reason: String) -> UpstreamError {
        // What precedes an "@" may be a password.
        let plain = String(text.unicodeScalars.filter { $0.value > 0x1f })
        let shown = text.contains("@") ? "the address" : "\"\(display(plain))\""
        return UpstreamError(.invalidURL, "cannot fetch \(shown): \(reason); correct the url")
    }
}

extension String {
    /// For messages, which are kept: its beginning and its end, where it has more than 200 characters.
    package var middleCut: String {
        let most = 200
        // Most are shorter in bytes already.
        guard utf8.count > most, count > most else { return self }
        return prefix(most / 2) + "…" + suffix(most / 2 - 1)
    }
}
