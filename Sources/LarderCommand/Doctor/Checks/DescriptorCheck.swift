import LarderClient

/// Is there room for more clients?
enum DescriptorCheck {
    private static let name = "clients"
    /// With fewer open files than this the agent serves far fewer clients than it could.
    private static let fewFiles = 4096

    static func findings(_ facts: AgentFacts, openFiles: Int?, _ service: ServiceFacts) -> [Finding] {
        let limit = facts.info.limits.connections
        let files = openFiles.map { ", \($0) open files allowed" } ?? ""
        guard case .success(let stats) = facts.stats else {
            return [Finding(.ok, name, "at most \(limit) connections\(files)")]
        }
        let traffic = stats.traffic
        let title = "\(traffic.connectionsOpen) of \(limit) connections\(files)"
        let raise =
            "raise limits.connections in the settings, and LimitNOFILE= of the unit (systemctl edit larder.service) "
            + "where that bounds it"
        if traffic.connectionsOpen * 10 > limit * 9 {
            return [
                Finding(
                    .warning, name, "\(title): nearly all are taken", advice: ["see by whom: larder clients", raise])
            ]
        }
        if traffic.connectionsRefused > 0 {
            let refused = Human.count(traffic.connectionsRefused, "client was", "clients were")
            return [
                Finding(.warning, name, "\(title); \(refused) turned away since the agent's start", advice: [raise])
            ]
        }
        if let openFiles, openFiles < fewFiles {
            return [
                Finding(
                    .warning, name, "\(title): that is few",
                    advice: ["LimitNOFILE=65536 in the unit (systemctl edit larder.service), or: ulimit -n 65536"])
            ]
        }
        return [Finding(.ok, name, title)]
    }
}
