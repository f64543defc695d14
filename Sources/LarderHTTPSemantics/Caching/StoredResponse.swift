/// What is remembered of an origin's answer besides its body.
package struct StoredResponse: Sendable, Hashable {
    /// 200 or 203.
    package let status: Int
    /// The fields that the rules read.
    package private(set) var fields: ResponseFields
    /// When the request was sent, in seconds since 1970.
    package private(set) var requestTime: Int
    /// When the answer's head came, in seconds since 1970.
    package private(set) var responseTime: Int
    /// The fields of our request that `Vary` names.
    package private(set) var variant: Variant
    /// The time from which it counts as stale whatever its lifetime is, in seconds since 1970. It is set for a row that was
    /// restored from a copy of the index, since the origin may have said something newer after the copy was made.
    package var staleSince: Int?

    /// Makes a record.
    ///
    /// - Parameters:
    ///   - status: 200 or 203
    ///   - fields: what the answer says
    ///   - request: all fields that were sent, for `Vary`
    ///   - requestTime: when the request was sent, in seconds since 1970
    ///   - responseTime: when the head came, in seconds since 1970
    package init(
        status: Int, fields: ResponseFields, request: [(name: String, value: String)], requestTime: Int,
        responseTime: Int
    ) {
        let variant = Variant(vary: fields.joined("vary"), request: request)
        self.init(
            status: status, fields: fields, variant: variant, requestTime: requestTime, responseTime: responseTime)
    }

    /// Makes a record again that was kept.
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

    /// `Cache-Control`, understood.
    package var cacheControl: CacheControl { CacheControl(fields.joined("cache-control") ?? "") }

    /// What to send along to ask whether it is still current.
    package var validator: Validator? {
        Validator(etag: fields.first("etag"), lastModified: fields.first("last-modified"))
    }

    /// The entity tag, if it stands for these very bytes (RFC 9110, section 8.8.3): what `If-Range` needs.
    package var strongTag: String? {
        fields.first("etag").flatMap { $0.hasPrefix("\"") && $0.utf8.count > 1 ? $0 : nil }
    }

    /// Why it may not be kept, or nothing if it may (RFC 9111, section 3).
    ///
    /// Only whole answers are kept; what is remembered of failures is no matter of this record.
    package var reasonNotToStore: String? {
        if status != 200 && status != 203 { return "the status is \(status)" }
        if cacheControl.forbidsStoring { return "Cache-Control says no-store" }
        if variant.matchesNothing && validator == nil { return "Vary is * and there is nothing to validate it by" }
        return nil
    }

    /// Takes what a 304 says in answer to our validator (RFC 9111, sections 3.2 and 4.3.4). Its `Location`, if any, means
    /// nothing.
    ///
    /// - Returns: whether it speaks of this response. If not, nothing changed, and the image must be fetched anew
    ///   without a condition: an entity tag that is not ours stands for other bytes.
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
