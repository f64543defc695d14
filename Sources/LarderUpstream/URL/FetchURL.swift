/// An absolute `http` or `https` URL in the form in which it is requested.
///
/// The path and the query are the original text, except that dot segments are removed and each byte that a URL must not
/// contain (RFC 3986) is percent-encoded. Percent-encoded bytes stay as they are. Two URLs that are requested in the
/// same way are equal.
package struct FetchURL: Sendable, Hashable {
    /// `scheme://host` in lower case, with the port unless it is the default port of the scheme.
    package let origin: String
    /// The path, beginning with a slash.
    package let path: Substring
    /// The text after the question mark; nil if there is no question mark.
    package private(set) var query: Substring?
    let isSecure: Bool
    let host: URLHost
    let port: Int

    /// Parses a URL. Its fragment is ignored.
    ///
    /// - Throws: ``InvalidURL`` if the URL is not an absolute `http` or `https` URL with a valid host and port, if it
    ///   has a user or a password, or if it contains a space or a control character
    package init(parsing text: String) throws(InvalidURL) {
        let bytes = text.utf8
        isSecure = Self.has(bytes, scheme: "https://")
        guard isSecure || Self.has(bytes, scheme: "http://") else { throw .notHTTP }
        let start = bytes.index(bytes.startIndex, offsetBy: isSecure ? 8 : 7)
        let end = bytes[start...].firstIndex(where: Self.endsAuthority) ?? bytes.endIndex
        let survey = try TargetSurvey(bytes[end...])
        let authority = try URLAuthority(text[start..<end])
        host = authority.host
        let usual = isSecure ? 443 : 80
        port = authority.port ?? usual
        let scheme = isSecure ? "https://" : "http://"
        origin = port == usual ? scheme + authority.hostText : scheme + authority.hostText + ":\(port)"
        let path = text[end..<(survey.query ?? survey.end)]
        let query = survey.query.map { text[bytes.index(after: $0)..<survey.end] }
        let valid = survey.isValid ? path : path.escaped
        self.path = valid.isEmpty ? "/" : survey.hasDotSegments ? valid.withoutDotSegments : valid
        self.query = survey.isValid ? query : query?.escaped
    }

    /// Parses the URL of a request.
    ///
    /// - Throws: ``UpstreamError/Code/invalidURL``; see ``init(parsing:)``
    init(_ text: String) throws(UpstreamError) {
        do {
            try self.init(parsing: text)
        } catch {
            // The text before an "@" may contain a password, so a text with an "@" is not shown.
            let plain = String(text.unicodeScalars.filter { $0.value > 0x1f })
            let shown = text.utf8.contains(UInt8(ascii: "@")) ? "the address" : "\"\(Self.display(plain))\""
            throw UpstreamError(.invalidURL, "cannot fetch \(shown): the url \(error.reason)")
        }
    }

    /// The path and the query, as the request line of HTTP/1.1 and the `:path` of HTTP/2 contain them.
    var target: String { query.map { "\(path)?\($0)" } ?? String(path) }

    /// The origin to connect to. Its host has no trailing dot, because the name of a TLS server has none (RFC 6066,
    /// section 3). `Host` has the original name.
    var connectionOrigin: String {
        host.name == host.text ? origin : (isSecure ? "https://" : "http://") + host.name + ":\(port)"
    }

    /// The host and the port, unless it is the default port of the scheme, as `Host` contains them.
    var authority: Substring { origin.dropFirst(isSecure ? 8 : 7) }

    /// The complete URL.
    package var text: String { origin + target }

    /// The URL without some members of its query.
    package func text(ignoring isIgnored: (Substring) -> Bool) -> String {
        guard let query else { return origin + path }
        let members = query.split(separator: "&", omittingEmptySubsequences: false)
        let kept = members.filter { !isIgnored($0.prefix { $0 != "=" }) }
        return kept.isEmpty ? origin + path : origin + path + "?" + kept.joined(separator: "&")
    }

    /// The URL with another member at the end of its query. The member must be percent-encoded.
    func adding(query member: String) -> FetchURL {
        var url = self
        url.query = query.map { "\($0)&\(member)" } ?? Substring(member)
        return url
    }

    /// Whether both URLs have the same origin (RFC 6454), so that credentials for one can be sent to the other.
    func isSameOrigin(as other: FetchURL) -> Bool { origin == other.origin }

    /// The URL for messages, without its query, because a signed URL is a secret.
    package var display: String {
        let shown = (origin + path).middleCut
        return query == nil ? shown : shown + "?…"
    }

    /// The host and the port, for messages.
    var place: String { (host.text.utf8.contains(UInt8(ascii: ":")) ? "[\(host.text)]" : host.text) + ":\(port)" }

    private static func display(_ text: String) -> String {
        let mark = text.utf8.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        guard let mark else { return text.middleCut }
        return String(text[..<mark]).middleCut + "?…"
    }

    private static func has(_ bytes: String.UTF8View, scheme: String) -> Bool {
        bytes.starts(with: scheme.utf8) { $0.lowercase == $1 }
    }

    private static func endsAuthority(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
    }
}

// MARK: Redirects

extension FetchURL {
    /// Resolves a `Location` header field (RFC 9110, section 10.2.2), which may be relative.
    ///
    /// - Throws: ``UpstreamError/Code/invalidRedirect`` if the target is not a valid URL, or if it leads from `https` to
    ///   `http`, where the response could be forged
    func redirected(to location: String) throws(UpstreamError) -> FetchURL {
        let end = location.utf8.firstIndex(of: UInt8(ascii: "#")) ?? location.endIndex
        let reference = location[..<end]
        // SwiftNIO replaces bytes that are not UTF-8 by U+FFFD, so the original address is unknown.
        guard !reference.unicodeScalars.contains("\u{FFFD}") else {
            throw UpstreamError(
                .invalidRedirect,
                "\(display) redirects to an address with bytes that are not UTF-8; percent-encode the Location field of "
                    + "that server")
        }
        let target: FetchURL
        do {
            target = try FetchURL(parsing: resolved(reference))
        } catch {
            throw UpstreamError(
                .invalidRedirect, "\(display) redirects to an unusable address: the url \(error.reason)")
        }
        if isSecure, !target.isSecure {
            throw UpstreamError(
                .invalidRedirect, "\(display) redirects from https to \(target.display); serve the target with https")
        }
        return target
    }

    /// Resolves a reference without a fragment (RFC 3986, section 5.2). ``init(parsing:)`` removes the dot segments.
    private func resolved(_ reference: Substring) -> String {
        if reference.isEmpty { return text }
        if Self.hasScheme(reference) { return String(reference) }
        if reference.utf8.starts(with: "//".utf8) { return (isSecure ? "https:" : "http:") + reference }
        switch reference.utf8.first {
        case UInt8(ascii: "/"): return origin + reference
        case UInt8(ascii: "?"): return origin + path + reference
        default:
            let directory = path.utf8.lastIndex(of: UInt8(ascii: "/")).map { path[...$0] } ?? "/"
            return origin + directory + reference
        }
    }

    private static func hasScheme(_ reference: Substring) -> Bool {
        let end = reference.utf8.firstIndex { endsAuthority($0) || $0 == UInt8(ascii: ":") }
        guard let end else { return false }
        return reference.utf8[end] == UInt8(ascii: ":")
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
