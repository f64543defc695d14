struct SearchSettings: Codable, Sendable, Equatable {
    var limit = 10
    var hosts: [String] = []
}
