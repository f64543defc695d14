import LarderJSON5
import LarderServer

extension Settings {
    /// Reads `limits`: the limits of connections, and the maximum size of a document.
    mutating func readLimits(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "connections", "connectionsPerUser", "subscriptionsPerConnection", "subscriptionsPerUser",
                "requestsInFlightPerConnection", "requestsInFlightPerUser", "leasesPerUser", "queuedBytesPerUser",
                "lineBytes", "documentBytes", "stallSeconds",
            ])
        documentBytes = try reader.integer("documentBytes", in: 1024...1 << 30) ?? documentBytes
        limits.connections = try reader.integer("connections", in: 1...1_000_000) ?? limits.connections
        limits.connectionsPerUser = try reader.integer("connectionsPerUser", in: 1...1_000_000)
        limits.subscriptionsPerConnection =
            try reader.integer("subscriptionsPerConnection", in: 1...65536) ?? limits.subscriptionsPerConnection
        limits.subscriptionsPerUser =
            try reader.integer("subscriptionsPerUser", in: 1...10_000_000) ?? limits.subscriptionsPerUser
        limits.requestsInFlightPerConnection =
            try reader.integer("requestsInFlightPerConnection", in: 1...65536) ?? limits.requestsInFlightPerConnection
        limits.requestsInFlightPerUser =
            try reader.integer("requestsInFlightPerUser", in: 1...10_000_000) ?? limits.requestsInFlightPerUser
        limits.leasesPerUser = try reader.integer("leasesPerUser", in: 1...10_000_000) ?? limits.leasesPerUser
        limits.queuedBytesPerUser =
            try reader.integer("queuedBytesPerUser", in: 1 << 20...1 << 40) ?? limits.queuedBytesPerUser
        limits.lineBytes = try reader.integer("lineBytes", in: 1024...64 << 20) ?? limits.lineBytes
        limits.stall = try reader.seconds("stallSeconds", in: 1...3600) ?? limits.stall
    }
}
