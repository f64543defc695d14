/// The metadata of an origin's response: everything except its body.
package struct StoredResponse: Sendable, Hashable {
    /// The HTTP status. Only responses with 200 and 203 are stored; see ``reasonNotToStore``.
    package let status: Int
    /// The fields that the caching rules use.
    package private(set) var fields: ResponseFields
    /// When the request was sent, in seconds since 1970.
    package private(set) var requestTime: Int
    /// When the head of the response arrived, in seconds since 1970.
    package private(set) var responseTime: Int
    /// The values of the request fields that `Vary` names.
    package private(set) var variant: Variant
    /// The time in seconds since 1970 from which the response counts as stale, whatever its lifetime; nil for no such
    /// time. Set for responses restored from a copy of the index, because the origin may have sent a newer response
    /// after the copy was made.
    package var staleSince: Int?

    /// Creates the metadata of a response that has just arrived.
    ///
    /// - Parameters:
    ///   - status: the response's status
    ///   - fields: the response's fields
    ///   - request: all fields of the request, for `Vary`
    ///   - requestTime: when the request was sent, in seconds since 1970
    ///   - responseTime: when the head of the response arrived, in seconds since 1970
    package init(
        status: Int, fields: ResponseFields, request: [(name: String, value: String)], requestTime: Int,
        responseTime: Int
    ) {
        let variant = Variant(vary: fields.joined("vary"), request: request)
        self.init(
            status: status, fields: fields, variant: variant, requestTime: requestTime, responseTime: responseTime)
    }

    /// Recreates metadata that was stored.
    package init(
        status: Int, fields: ResponseFields, variant: Variant, requestTime: Int, responseTime: Int,
        staleSince: Int? = nil
    ) {
        self.status = status
        self.fields = fields
        self.variant = variant
        self.requestTime = requestTime
        self.responseTime = responseTime
        self.staleSince = staleSince
    }

    package var cacheControl: CacheControl { CacheControl(fields.joined("cache-control") ?? "") }

    /// The validator for a conditional request; nil if the response has no usable one.
    package var validator: Validator? {
        Validator(
            etag: fields.first("etag"), lastModified: fields.first("last-modified"), date: fields.first("date"),
            receivedAt: HTTPDate(secondsSinceEpoch: Int64(responseTime)))
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
    /// - Returns: whether the 304 response refers to this response. False if the 304 response has an entity tag that
    ///   does not match the tag of this stored response, and so refers to different bytes. The metadata is then
    ///   unchanged, and the image must be fetched with an unconditional request
    package mutating func freshen(
        with update: ResponseFields, request: [(name: String, value: String)], requestTime: Int, responseTime: Int
    ) -> Bool {
        if let new = update.first("etag") {
            guard let old = fields.first("etag") else { return false }
            let isStrong = !new.hasPrefix("W/")
            guard isStrong ? new == old : Self.opaque(new) == Self.opaque(old) else { return false }
        }
        fields.update(with: update)
        self.requestTime = requestTime
        self.responseTime = responseTime
        staleSince = nil
        variant = Variant(vary: fields.joined("vary"), request: request)
        return true
    }

    private static func opaque(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }
}
