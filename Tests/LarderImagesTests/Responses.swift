import LarderHTTPSemantics

/// Sunday, 6 November 1994, 08:49:37 GMT.
let now = 784_111_777

/// A response that arrived at ``now``, in the same second as its request.
func response(_ fields: [(String, String)]) -> StoredResponse {
    StoredResponse(
        status: 200, fields: ResponseFields(fields.map { (name: $0.0, value: $0.1) }), url: "https://img.example/a",
        request: [], requestTime: now, responseTime: now)
}
