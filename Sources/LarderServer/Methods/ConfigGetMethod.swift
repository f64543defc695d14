import LarderConfig
import LarderConfigModel
import LarderPlatform
import LarderProtocol

// How old what `config.get` answers may be.

extension RequestScope {
    /// Whether what is held may be answered: it is young enough, or nothing is said about that.
    func isYoungEnough(_ parameters: ConfigGet.Parameters) throws(WireError) -> Bool {
        guard let maximum = parameters.maximumAgeSeconds else { return true }
        let status = try namespace(parameters.namespace).publication.status
        // Without a source nothing can be younger.
        if status.upstream == nil { return true }
        return status.age(at: WallClock.system.now).map { $0 <= maximum } ?? false
    }

    /// Asks the source for something younger, together with everybody who asks meanwhile.
    /// - Throws: why there is none, unless what is held will do in that case.
    func refresh(for parameters: ConfigGet.Parameters) async throws(WireError) {
        guard let maximum = parameters.maximumAgeSeconds else { return }
        let namespace = try namespace(parameters.namespace)
        do throws(ConfigError) {
            let now = WallClock.system.now
            _ = try await namespace.refresher.refresh(begunSince: now - Int(maximum * 1000))
        } catch {
            guard error.code == .upstreamFailed || error.code == .rejected else { throw WireError(error) }
            let age = namespace.publication.status.age(at: WallClock.system.now)
            if let age, let allowed = parameters.staleIfErrorSeconds, age <= allowed { return }
            let held = age.map { "what is held was confirmed \(Int($0)) s ago" } ?? "nothing of it was ever confirmed"
            throw WireError(WireError(error).code, "\(error.message); \(held)")
        }
    }
}

extension ConfigStatusReport {
    /// How many seconds ago the source confirmed what is held; nil where it never did, or where the time of day was set
    /// back since.
    fileprivate func age(at now: Int) -> Double? {
        confirmedAt.flatMap { $0 <= now ? Double(now - $0) / 1000 : nil }
    }
}
