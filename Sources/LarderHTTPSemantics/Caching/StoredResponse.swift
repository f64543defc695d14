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
