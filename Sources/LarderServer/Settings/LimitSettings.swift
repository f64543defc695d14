/// `limits`: what clients may use before they are told to wait or are refused.
public struct LimitSettings: Sendable, Equatable {
    /// `connections`: open connections of all clients together, 1 to 1,000,000. Default: 16384.
    public var connections = 16384
    /// Whether ``connections`` was lowered to what the process's limit of open files leaves room for.
    public var isBoundByDescriptors = false
    /// `subscriptionsPerConnection`: 1 to 65536. Default: 64.
    public var subscriptionsPerConnection = 64
    /// `requestsInFlightPerConnection`: requests that wait for their answer, 1 to 65536. Default: 64.
    public var requestsInFlightPerConnection = 64
    /// `lineBytes`: the longest request, 1 KiB to 64 MiB. Default: 1 MiB.
    public var lineBytes = 1 << 20
    /// `documentBytes`: the largest configuration document, 1 KiB to 1 GiB. Default: 16 MiB.
    public var documentBytes = 16 << 20
    /// `stallSeconds`: how long a client may accept no byte before it is dropped, 1 s to 1 hour. Default: 30 s.
    public var stall = Duration.seconds(30)

    /// The defaults.
    public init() {}
}

extension LimitSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "connections", "subscriptionsPerConnection", "requestsInFlightPerConnection", "lineBytes",
                "documentBytes", "stallSeconds",
            ])
        connections = try reader.integer("connections", in: 1...1_000_000) ?? connections
        subscriptionsPerConnection =
            try reader.integer("subscriptionsPerConnection", in: 1...65536) ?? subscriptionsPerConnection
        requestsInFlightPerConnection =
            try reader.integer("requestsInFlightPerConnection", in: 1...65536) ?? requestsInFlightPerConnection
        lineBytes = try reader.integer("lineBytes", in: 1024...64 << 20) ?? lineBytes
        documentBytes = try reader.integer("documentBytes", in: 1024...1 << 30) ?? documentBytes
        stall = try reader.seconds("stallSeconds", in: 1...3600) ?? stall
    }
}
