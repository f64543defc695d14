internal import LarderEncoding

/// The metadata of an origin's response: everything except its body.
package struct StoredResponse: Sendable, Hashable {
    /// The HTTP status. Only responses with 200 and 203 are stored; see ``reasonNotToStore``.
    package let status: Int
    /// The fields that the caching rules use.
    package private(set) var fields: ResponseFields
    /// The URL that sent the response, after redirects. Nil if it is unknown or a client stored the response; the
    /// response then has no validator.
    package let url: String?
    /// When the request was sent, in seconds since 1970.
    package private(set) var requestTime: Int
    /// When the head of the response arrived, in seconds since 1970.
    package private(set) var responseTime: Int
    /// The values of the request fields that `Vary` names.
    package private(set) var variant: Variant
    /// The time in seconds since 1970 from which the redirects that led to the response must be requested again, so
    /// that the response counts as stale; nil if they set no limit. See ``RedirectFreshness/end``.
    package var redirectEnd: Int?
    /// The time in seconds since 1970 from which the response counts as stale, whatever its lifetime; nil for no such
    /// time. Set for responses restored from a copy of the index, because the origin may have sent a newer response
    /// after the copy was made.
    package var staleSince: Int?

    /// Creates the metadata of a response that has just arrived.
    ///
    /// - Parameters:
    ///   - status: the response's status
    ///   - fields: the response's fields
    ///   - url: the URL that sent the response, after redirects; nil for a response from a client
    ///   - request: all fields of the request, for `Vary`
    ///   - requestTime: when the request was sent, in seconds since 1970
    ///   - responseTime: when the head of the response arrived, in seconds since 1970
    ///   - redirectEnd: ``RedirectFreshness/end`` of the redirects that led to the response
    package init(
        status: Int, fields: ResponseFields, url: String?, request: [(name: String, value: String)],
        requestTime: Int, responseTime: Int, redirectEnd: Int? = nil
    ) {
        let variant = Variant(vary: fields.joined("vary"), request: request)
        self.init(
            status: status, fields: fields, url: url, variant: variant, requestTime: requestTime,
            responseTime: responseTime, redirectEnd: redirectEnd)
    }

    /// Recreates metadata that was stored.
    package init(
        status: Int, fields: ResponseFields, url: String?, variant: Variant, requestTime: Int, responseTime: Int,
        redirectEnd: Int? = nil, staleSince: Int? = nil
    ) {
        self.status = status
        self.fields = fields
        self.url = url
        self.variant = variant
        self.requestTime = requestTime
        self.responseTime = responseTime
        self.redirectEnd = redirectEnd
        self.staleSince = staleSince
    }

    package var cacheControl: CacheControl { CacheControl(fields.joined("cache-control") ?? "") }

    /// The validator for a conditional request; nil if the response has no usable one.
    package var validator: Validator? {
        guard let url else { return nil }
        return Validator(
            etag: fields.first("etag"), lastModified: fields.first("last-modified"), date: fields.first("date"),
            receivedAt: HTTPDate(secondsSinceEpoch: Int64(responseTime)), url: url)
    }

    /// The entity tag if it is strong (RFC 9110, section 8.8.3), as `If-Range` requires; nil otherwise.
    package var strongTag: String? {
        fields.first("etag").flatMap { $0.hasPrefix("\"") && $0.utf8.count > 1 ? $0 : nil }
    }

    /// The reason why the response must not be stored (RFC 9111, section 3); nil if it may be stored. Failures and
    /// partial responses are never stored.
    package var reasonNotToStore: String? {
        if status != 200 && status != 203 { return "the status is \(status)" }
        if cacheControl.forbidsStoring { return "Cache-Control has no-store" }
        if variant.matchesNothing && validator == nil { return "Vary is * and there is no validator" }
        return nil
    }

    /// Updates this metadata with the fields of a 304 response that was received for a request with ``validator`` (RFC
    /// 9111, sections 3.2 and 4.3.4).
    ///
    /// - Parameter redirectEnd: ``RedirectFreshness/end`` of the redirects that led to the 304 response
    /// - Returns: whether the 304 response refers to this response. False if the 304 response has an entity tag that
    ///   does not match the tag of this stored response, or another `Last-Modified` without a strong tag that matches,
    ///   and so refers to different bytes. The metadata is then unchanged, and the image must be fetched with an
    ///   unconditional request
    package mutating func freshen(
        with update: ResponseFields, request: [(name: String, value: String)], requestTime: Int, responseTime: Int,
        redirectEnd: Int? = nil
    ) -> Bool {
        guard refersToSameBytes(update) else { return false }
        fields.update(with: update)
        self.requestTime = requestTime
        self.responseTime = responseTime
        self.redirectEnd = redirectEnd
        staleSince = nil
        variant = Variant(vary: fields.joined("vary"), request: request)
        return true
    }

    /// The same response to a request with other fields.
    package func answering(_ request: [(name: String, value: String)]) -> StoredResponse {
        var result = self
        result.variant = Variant(vary: fields.joined("vary"), request: request)
        return result
    }

    private func refersToSameBytes(_ update: ResponseFields) -> Bool {
        if let new = update.first("etag")?.utf8 {
            guard let old = fields.first("etag")?.utf8 else { return false }
            let weak = "W/".utf8
            if !new.starts(with: weak) { return new.elementsEqual(old) }
            guard new.dropFirst(2).elementsEqual(old.starts(with: weak) ? old.dropFirst(2) : old[...]) else {
                return false
            }
        }
        guard let new = update.first("last-modified"), let old = fields.first("last-modified") else { return true }
        return new.utf8.elementsEqual(old.utf8)
    }
}

/// The requests that a stored response can answer: those whose fields named by `Vary` equal the fields of the original
/// request (RFC 9111, section 4.1).
package struct Variant: Sendable, Hashable {
    /// The request fields that `Vary` names, by name in lower case. The value is nil if the request did not have the
    /// field.
    package let fields: [String: String?]
    /// Whether `Vary` contains `*`, so that the response matches no later request.
    package let matchesNothing: Bool

    /// The ``fingerprint(of:)`` of the original request. It allows an identical request to be recognized without
    /// comparing fields. 0 if the response matches every request, and `UInt64.max` if it matches none.
    package let fingerprint: UInt64

    /// Creates the variant of a response.
    ///
    /// - Parameters:
    ///   - vary: the response's `Vary` field, all lines joined with commas
    ///   - request: all fields of the request
    package init(vary: String?, request: [(name: String, value: String)]) {
        self.init(vary: vary, request: request, fingerprint: Self.fingerprint(of: request))
    }

    /// Recreates a stored variant. `request` may omit the fields that `Vary` does not name.
    package init(vary: String?, request: [(name: String, value: String)], fingerprint: UInt64) {
        let names = (vary ?? "").split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
        matchesNothing = names.contains("*")
        var fields: [String: String?] = [:]
        for name in names where !name.isEmpty && name != "*" {
            fields.updateValue(Self.value(of: name, in: request), forKey: name)
        }
        self.fields = fields
        self.fingerprint = matchesNothing ? .max : fields.isEmpty ? 0 : fingerprint
    }

    /// The FNV-1a hash of all request fields, in order; never 0 or `UInt64.max`. The agent composes the requests, so an
    /// attacker cannot construct a collision.
    package static func fingerprint(of request: [(name: String, value: String)]) -> UInt64 {
        var hash = FNV1a()
        for field in request {
            // A zero byte ends each name and each value, so that moving a character from one to the next changes the
            // hash.
            hash.add(field.name.lowercased().utf8)
            hash.add(0)
            hash.add(field.value.utf8)
            hash.add(0)
        }
        return min(max(hash.value, 1), .max - 1)
    }

    /// Whether the response can answer a request with these fields.
    package func matches(_ request: [(name: String, value: String)]) -> Bool {
        !matchesNothing
            && fields.allSatisfy { name, value in
                // Two spellings of a letter are different values.
                Self.value(of: name, in: request).map { Array($0.utf8) } == value.map { Array($0.utf8) }
            }
    }

    /// All lines of a request field, joined with commas and with white space normalized as RFC 9111, section 4.1,
    /// allows. Nil if the field is absent.
    private static func value(of name: String, in request: [(name: String, value: String)]) -> String? {
        let lines = request.filter { $0.name.lowercased() == name }.map(\.value)
        guard !lines.isEmpty else { return nil }
        let parts = lines.joined(separator: ",").split(separator: ",", omittingEmptySubsequences: false)
        return parts.map { $0.split { $0 == " " || $0 == "\t" }.joined(separator: " ") }.joined(separator: ",")
    }
}

/// The response fields that the caching rules use. No other field is stored, in particular no cookie or token.
package struct ResponseFields: Sendable, Hashable {
    /// Names of the stored fields, in lower case.
    package static let kept: Set<String> = [
        "age", "cache-control", "date", "etag", "expires", "last-modified", "vary",
    ]

    /// The values of each field's lines, in order of arrival. Names are in lower case.
    private var values: [String: [String]] = [:]

    /// Keeps the fields in ``kept``, except for those that `Connection` names, which apply to one connection only (RFC
    /// 9111, section 3.1).
    package init(_ lines: [(name: String, value: String)]) {
        var dropped: Set<String> = []
        for line in lines where line.name.lowercased() == "connection" {
            dropped.formUnion(
                line.value.split(separator: ",").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() })
        }
        for line in lines {
            let name = line.name.lowercased()
            guard Self.kept.contains(name), !dropped.contains(name) else { continue }
            values[name, default: []].append(line.value)
        }
    }

    /// All lines, sorted by field name. Names are in lower case.
    package var lines: [(name: String, value: String)] {
        values.keys.sorted().flatMap { name in values[name, default: []].map { (name, $0) } }
    }

    /// The first line of a field; nil if the field is absent. `name` must be in lower case.
    package func first(_ name: String) -> String? { values[name]?.first }

    /// All lines of a field, joined with commas; nil if the field is absent. `name` must be in lower case.
    package func joined(_ name: String) -> String? { values[name]?.joined(separator: ", ") }

    /// Replaces each field that a 304 response contains (RFC 9111, section 3.2).
    ///
    /// The exceptions of that section (fields of the connection or a proxy, `Content-Length`, `Content-Encoding`,
    /// `Content-Type` and `Content-Range`) need no code here because those fields are never stored. `Age` and `Date`
    /// describe one response, so the stored values are removed even if the 304 response has no new ones.
    mutating func update(with other: ResponseFields) {
        values["age"] = nil
        values["date"] = nil
        values.merge(other.values) { _, new in new }
    }
}
