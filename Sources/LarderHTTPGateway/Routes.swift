import LarderEncoding
import LarderJSON
import NIOHTTP1

/// The resource of a request.
enum Route: Equatable {
    case health, readiness
    /// The evaluation of one flag.
    case flag(String, namespace: String)
    /// The evaluation of all flags.
    case flags(namespace: String)
    case config(JSONPath, namespace: String)

    /// Whether the body of the request counts.
    var hasBody: Bool {
        switch self {
        case .flag, .flags: true
        case .health, .readiness, .config: false
        }
    }

    /// Whether a token is not needed.
    var isPublic: Bool { self == .health || self == .readiness }

    /// The methods that the route accepts.
    var methods: [HTTPMethod] { hasBody ? [.POST] : [.GET, .HEAD] }

    /// The maximum number of segments of a path, as in the agent.
    private static let maxSegments = 128

    /// Why a request target is not a route.
    enum Problem: Error { case malformed, unknown }

    /// Reads a request target: a path, or a URL as for a proxy, whose host the caller checks.
    init(_ target: String) throws(Problem) {
        let target = Self.host(of: target).map { String(target.dropFirst("http://".count + $0.count)) } ?? target
        guard target.hasPrefix("/"), target.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { throw .malformed }
        let path = target.prefix { $0 != "?" }.dropFirst()
        var parts = path.split(separator: "/", omittingEmptySubsequences: false)[...]
        if parts == ["healthz"] {
            self = .health
        } else if parts == ["readyz"] {
            self = .readiness
        } else if parts.starts(with: ["v1", "config"]), parts.count >= 3 {
            let text = try Self.decoded(parts.dropFirst(3).joined(separator: "/"))
            let path = try? JSONPath(.string(text), maximumSegments: Self.maxSegments, maximumBytes: .max)
            guard let path else { throw .malformed }
            self = .config(path, namespace: try Self.decoded(String(parts[2])))
        } else {
            var namespace = "default"
            if parts.first != "ofrep" { namespace = try Self.decoded(String(parts.removeFirst())) }
            guard parts.starts(with: ["ofrep", "v1", "evaluate", "flags"]) else { throw .unknown }
            switch parts.dropFirst(4) {
            case let rest where rest.isEmpty: self = .flags(namespace: namespace)
            case let rest where rest.count == 1 && rest.first?.isEmpty == false:
                self = .flag(try Self.decoded(String(rest.first ?? "")), namespace: namespace)
            default: throw .unknown
            }
        }
    }

    /// The host and port of a target in absolute form (RFC 9112, section 3.2.2); nil for other forms.
    static func host(of target: String) -> String? {
        let scheme = "http://"
        guard target.prefix(scheme.count).lowercased() == scheme else { return nil }
        return String(target.dropFirst(scheme.count).prefix { $0 != "/" && $0 != "?" })
    }

    /// Resolves percent-encoding.
    private static func decoded(_ text: String) throws(Problem) -> String {
        let (bytes, isValid) = text.percentDecoded()
        guard isValid, let text = String(validating: bytes, as: UTF8.self) else { throw .malformed }
        return text
    }
}
