package import LarderJSON
package import LarderUpstream

/// The settings of a source that reads keys of an etcd cluster over its JSON gateway.
package struct EtcdSourceSettings: Sendable, Equatable {
    /// The keys of the document.
    package enum Keys: Sendable, Equatable {
        /// Each key with this prefix is one value. The part of the key after the prefix is its path, with `/` between
        /// the segments.
        case prefix(String)
        /// Each of these prefixes forms a document as ``prefix(_:)`` does. Each document is merged over those before it.
        /// No prefix begins with another one.
        case prefixes([String])
        /// One key contains the whole document.
        case key(String)

        package static func == (left: Keys, right: Keys) -> Bool {
            switch (left, right) {
            case (.prefix(let left), .prefix(let right)), (.key(let left), .key(let right)): left.isSpelled(as: right)
            case (.prefixes(let left), .prefixes(let right)):
                left.elementsEqual(right) { $0.isSpelled(as: $1) }
            default: false
            }
        }
    }

    /// The format of the values under a prefix.
    package enum Format: String, Sendable, CaseIterable {
        /// Each value is JSON.
        case json
        /// Each value becomes a string.
        case text
        /// A value that is valid JSON is parsed. Any other value becomes a string, unless it begins with `{` or `[`:
        /// such a value is rejected, because it is probably invalid JSON and not text.
        case auto
    }

    /// The user for a cluster with authentication.
    package struct User: Sendable, Equatable {
        @ComparedAsBytes package var name: String
        package var password: Credential

        package init(name: String, password: Credential) {
            self.name = name
            self.password = password
        }
    }

    /// The client URLs of the members, at least one.
    package var endpoints: [String]
    /// The keys of the document.
    package var keys: Keys
    /// The format of the values under a prefix.
    package var format = Format.json
    /// The user; nil for a cluster without authentication.
    package var user: User?
    /// The certificates and the private key for TLS.
    package var tls = TLSFiles()
    package var proxy = ProxyChoice.inherited
    /// The maximum time until a response or a watch begins, and the maximum time without data in a response.
    package var timeout = Duration.seconds(10)
    /// The time between two reads of all keys. The reads detect changes that a watch has missed.
    package var interval = Duration.seconds(300)
    /// The time over which hosts without a document spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// The time over which hosts spread their first attempts after a watch has ended; nil for the default. If there are
    /// several endpoints, a tenth of this time applies, but at least one second.
    package var reconnectWindow: Duration?
    /// The maximum size of the document, in bytes.
    package var maximumBytes = 16 << 20

    /// The endpoints and the keys, for status and logs.
    package var location: String {
        let place = endpoints.joined(separator: ",")
        switch keys {
        case .prefix(let prefix): return "\(place) prefix \(prefix)"
        case .prefixes(let prefixes): return "\(place) prefixes \(prefixes.joined(separator: ","))"
        case .key(let key): return "\(place) key \(key)"
        }
    }

    /// The index of the first endpoint of a host. Hosts begin with different endpoints to spread the load.
    func firstEndpoint(hostIdentity: String) -> Int {
        // The phase of a host (its offset in a schedule) is shorter than the interval of the schedule. The interval
        // here is one second per endpoint, so the whole seconds of the phase are the index of an endpoint.
        let schedule = PollSchedule(interval: .seconds(endpoints.count), seed: hostIdentity + "\u{0}endpoint")
        return Int(schedule.phase.components.seconds)
    }

    /// The maximum size of a response or message. Base64 encodes three bytes as four, and the response contains
    /// revision numbers for each key.
    var maximumAnswerBytes: Int { 3 * maximumBytes + (1 << 20) }
}

extension EtcdSourceSettings {
    package init(endpoints: [String], keys: Keys) {
        self.endpoints = endpoints
        self.keys = keys
    }

    func seed(_ hostIdentity: String) -> String { hostIdentity + "\u{0}" + location }

    func reconnectPlan(hostIdentity: String) -> ReconnectPlan {
        ReconnectPlan(
            window: ReconnectPlan.window(
                reconnectWindow, interval: interval, hasOtherEndpoints: endpoints.count > 1),
            firstFetchWindow: firstFetchWindow, seed: seed(hostIdentity))
    }
}
