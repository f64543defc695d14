import LarderHTTPSemantics

/// Sunday, 6 November 1994, 08:49:37 GMT, the time in the examples of RFC 9110.
let now = 784_111_777

/// The HTTP date `offset` seconds after ``now``, within the same month.
func date(_ offset: Int) -> String {
    let seconds = 5 * 86_400 + 8 * 3_600 + 49 * 60 + 37 + offset
    func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let days = ["Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Mon"]
    let day = seconds / 86_400
    return "\(days[day % 7]), \(two(day + 1)) Nov 1994 "
        + "\(two(seconds / 3600 % 24)):\(two(seconds / 60 % 60)):\(two(seconds % 60)) GMT"
}

/// A response, by default to a request that was sent and answered at ``now``.
func response(
    _ fields: [(String, String)], status: Int = 200, request: [(String, String)] = [], requestTime: Int = now,
    responseTime: Int = now
) -> StoredResponse {
    StoredResponse(
        status: status, fields: ResponseFields(fields.map { (name: $0.0, value: $0.1) }), url: "https://img.example/a",
        request: request.map { (name: $0.0, value: $0.1) }, requestTime: requestTime, responseTime: responseTime)
}

func freshness(_ fields: [(String, String)], requestTime: Int = now) -> ResponseFreshness {
    ResponseFreshness(response(fields, requestTime: requestTime))
}
