import LarderUpstream

/// A source that is some keys of an etcd cluster, over its JSON gateway.
package struct EtcdSourceSettings: Sendable, Equatable {
    /// Which keys make the document.
    package enum Keys: Sendable, Equatable {
        /// Every key that begins with this is one value; what follows is its path, with `/` between the segments.
        case prefix(String)
        /// One key holds the whole document.
        case key(String)
    }

    /// What the values under a prefix are.
    package enum Format: String, Sendable, CaseIterable {
        /// JSON, each of them.
        case json
        /// Text: each becomes a string.
        case text
        /// JSON where it is JSON, else text.
        case auto
    }

    /// Who to be, where the cluster wants to know.
    package struct User: Sendable, Equatable {
        /// The user's name.
        package var name: String
        /// Where the password is kept.
        package var password: Credential

        package init(name: String, password: Credential) {
            self.name = name
            self.password = password
        }
    }

    /// The members' client URLs, at least one.
    package var endpoints: [String]
    /// Which keys make the document.
    package var keys: Keys
    /// What the values under a prefix are.
    package var format: Format
    /// Who to be, where the cluster wants to know.
    package var user: User?
    /// Certificates and keys.
    package var tls: TLSFiles
    /// The longest silence in an answer, and the longest time until a watch begins.
    package var timeout: Duration
    /// The time between two readings of all keys, which find what a watch should have told and did not.
    package var interval: Duration
    /// The time over which hosts that have nothing to serve spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// The time over which hosts spread their first attempts after a watch ended; nil for the default. If there is another
    /// endpoint it is a tenth of this.
    package var reconnectWindow: Duration?
    /// The largest document taken.
    package var maximumBytes: Int

    package init(
        endpoints: [String], keys: Keys, format: Format = .json, user: User? = nil,
        tls: TLSFiles = TLSFiles(), timeout: Duration = .seconds(10), interval: Duration = .seconds(300),
        maximumBytes: Int = 16 << 20
    ) {
        self.endpoints = endpoints
        self.keys = keys
        self.format = format
        self.user = user
        self.tls = tls
        self.timeout = timeout
        self.interval = interval
        self.maximumBytes = maximumBytes
    }

    /// What status and logs show: the endpoints and the keys.
    package var location: String {
        let place = endpoints.joined(separator: ",")
        switch keys {
        case .prefix(let prefix): return "\(place) prefix \(prefix)"
        case .key(let key): return "\(place) key \(key)"
        }
    }

    /// The endpoint that a host begins with. Each host has its own, or all of them would ask the first one.
    func firstEndpoint(hostIdentity: String) -> Int {
        // A moment within as many seconds as there are endpoints.
        let schedule = PollSchedule(interval: .seconds(endpoints.count), seed: hostIdentity + "\u{0}endpoint")
        return Int(schedule.phase.components.seconds)
    }

    /// The longest answer or message that is taken: base64 makes three bytes four, and each key has revisions.
    var maximumAnswerBytes: Int { 3 * maximumBytes + (1 << 20) }
}

extension EtcdSourceSettings {
    func seed(_ hostIdentity: String) -> String { hostIdentity + "\u{0}" + location }

    /// When a watch that ended is replaced.
    func reconnectPlan(hostIdentity: String) -> ReconnectPlan {
        ReconnectPlan(
            window: ReconnectPlan.window(
                reconnectWindow, interval: interval, hasOtherEndpoints: endpoints.count > 1),
            firstFetchWindow: firstFetchWindow, seed: seed(hostIdentity))
    }
}
