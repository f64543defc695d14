/// `service`: the agent as a service of systemd.
public struct ServiceSettings: Sendable, Equatable {
    /// `idleExitMinutes`: how long nobody must have been connected before the agent ends by itself, 1 to 10080 (a week); only
    /// where systemd holds the socket, which starts it again. Default: it stays.
    public var idleExitMinutes: Int?

    public init() {}
}

extension ServiceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["idleExitMinutes"])
        idleExitMinutes = try reader.integer("idleExitMinutes", in: 1...10080)
    }
}
