import LarderHTTPSemantics

/// Sunday, 6 November 1994, 08:49:37 GMT.
let now = 784_111_777

/// A response that came at ``now`` to a request that took no time.
func response(_ fields: [(String, String)]) -> StoredResponse {
    StoredResponse(
        status: 200, fields: ResponseFields(fields.map { (name: $0.0, value: $0.1) }), request: [], requestTime: now,
        responseTime: now)
}
