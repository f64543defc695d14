import LarderJSON

/// A typical configuration: services with their endpoints, labels, and text with characters beyond ASCII. It is the same
/// on every run.
enum SampleDocument {
    /// Returns an object whose compact JSON has at least `bytes` bytes.
    static func value(bytes: Int) -> JSONValue {
        var services: [(String, JSONValue)] = []
        var size = 0
        while size < bytes {
            let number = services.count
            let service: JSONValue = [
                "enabled": .bool(number % 3 > 0), "timeoutMilliseconds": .int(number * 7919 % 30_000),
                "weight": .double(Double(number % 1000) / 8),
                "endpoints": .array(
                    (0...number % 5).map { ["host": .string("10.0.\(number % 256).\($0)"), "port": .int(1024 + $0)] }),
                "labels": ["team": "search", "tier": "gold"],
                "description": "the \"search\" service – größer than others\nand a second line",
            ]
            services.append(("service-\(number)", service))
            size += service.compactBytes.count
        }
        return .object(services)
    }
}
