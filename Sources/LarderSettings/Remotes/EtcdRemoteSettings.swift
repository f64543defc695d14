import LarderConfigSources
import LarderUpstream

/// `namespaces.NAME.remote.etcd`: an etcd cluster as a remote source. `limits.documentBytes` limits the size of the
/// document that its keys form.
extension EtcdSourceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "endpoints", "prefix", "prefixes", "key", "format", "user", "passwordFile", "passwordCredential",
                "timeoutSeconds",
                "intervalSeconds", "reconnectSplaySeconds", "firstFetchSplaySeconds", "certificateAuthority",
                "certificate", "privateKey", "proxy",
            ])
        self.init(endpoints: try Self.endpoints(reader), keys: try Self.keys(reader))
        if let given: Format = try reader.choice("format") {
            if case .key = keys {
                throw reader.failure(
                    "format", "applies only to \"prefix\" and \"prefixes\"; the value of a \"key\" is always JSON")
            }
            format = given
        }
        user = try Self.user(reader)
        tls = try Self.tls(reader, endpoints)
        proxy = try reader.section("proxy", ProxyChoice.init) ?? proxy
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        reconnectWindow = try reader.seconds("reconnectSplaySeconds", in: 0...86_400)
        firstFetchWindow = try reader.seconds("firstFetchSplaySeconds", in: 0...86_400) ?? firstFetchWindow
    }

    private static func endpoints(_ reader: SettingsReader) throws(SettingsError) -> [String] {
        let endpoints = try reader.strings("endpoints", each: "a URL in quotes") { _ in true } ?? []
        guard !endpoints.isEmpty else {
            throw reader.failure(
                reader.has("endpoints") ? "endpoints" : nil,
                "needs \"endpoints\", the members' client URLs, such as [\"https://etcd1.example.org:2379\"]")
        }
        for (index, endpoint) in endpoints.enumerated() {
            // The URL is not shown, because it may contain a password.
            if let problem = HTTPURLCheck.problem(of: endpoint, hasUser: true) ?? pathProblem(of: endpoint) {
                throw reader.failure("endpoints", "is invalid: element \(index + 1) \(problem)")
            }
        }
        return endpoints
    }

    private static func pathProblem(of url: String) -> String? {
        let rest = url.drop { $0 != "/" }.dropFirst(2)
        guard !rest.contains("?"), rest.drop(while: { $0 != "/" }).allSatisfy({ $0 == "/" }) else {
            return "must end after the host and port, without a path"
        }
        return nil
    }

    private static func keys(_ reader: SettingsReader) throws(SettingsError) -> Keys {
        let prefix = try reader.string("prefix", expected: "a text without NUL, in quotes") { !$0.utf8.contains(0) }
        let key = try reader.string("key", expected: "a text of at least one character, without NUL, in quotes") {
            !$0.isEmpty && !$0.utf8.contains(0)
        }
        let prefixes = try reader.strings("prefixes", each: "a text without NUL, in quotes") { !$0.utf8.contains(0) }
        let given = ["prefix", "prefixes", "key"].filter(reader.has)
        guard given.count <= 1 else {
            throw reader.failure(
                nil, "has both \"\(given[0])\" and \"\(given[1])\"; keep one of them")
        }
        if let prefix { return .prefix(withSlash(prefix)) }
        if let key { return .key(key) }
        guard let prefixes = prefixes?.map(withSlash) else {
            throw reader.failure(
                nil,
                "names no keys; give \"prefix\" or \"prefixes\" for one key per value, or \"key\" for one document")
        }
        // etcd permits 128 operations in a transaction by default (--max-txn-ops).
        guard (1...64).contains(prefixes.count) else {
            throw reader.failure("prefixes", "must have 1 to 64 prefixes, not \(prefixes.count)")
        }
        for (index, prefix) in prefixes.enumerated() {
            for (other, longer) in prefixes.enumerated()
            where index != other && longer.utf8.starts(with: prefix.utf8) {
                throw reader.failure(
                    "prefixes",
                    "is invalid: element \(other + 1) begins with element \(index + 1), so that keys would count twice; "
                        + "use prefixes beside each other")
            }
        }
        return .prefixes(prefixes)
    }

    /// Adds a final slash to a prefix. Otherwise `app` would also include the keys of `app2/`.
    private static func withSlash(_ prefix: String) -> String {
        prefix.isEmpty || prefix.utf8.last == UInt8(ascii: "/") ? prefix : prefix + "/"
    }

    private static func user(_ reader: SettingsReader) throws(SettingsError) -> User? {
        let name = try reader.string("user", expected: "a user's name in quotes") { !$0.isEmpty }
        let password = try reader.credential("password")
        switch (name, password) {
        case (nil, nil): return nil
        case (let name?, let password?): return User(name: name, password: password)
        case (_?, nil):
            throw reader.failure("user", "needs a password; give \"passwordFile\" or \"passwordCredential\"")
        case (nil, _?): throw reader.failure(nil, "has a password but no \"user\"; add it, or remove the password")
        }
    }

    private static func tls(_ reader: SettingsReader, _ endpoints: [String]) throws(SettingsError) -> TLSFiles {
        let files = try TLSFiles(reader)
        if files != TLSFiles(), !endpoints.contains(where: { $0.lowercased().hasPrefix("https:") }) {
            throw reader.failure("endpoints", "must begin with \"https://\" if certificates are given")
        }
        return files
    }
}
