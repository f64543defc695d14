import Glibc
import LarderEncoding
import LarderJSON5
import LarderUpstream

extension ProxySettings {
    /// The variables of the environment that name proxies, and hosts without proxies.
    static let variables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"]

    /// Reads the proxies that the environment names, as other programs do: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or
    /// the same in lower case, which take precedence. The URL of a proxy may contain a user and a password.
    ///
    /// - Throws: ``EnvironmentProblem``
    init(environment: [String: String]) throws(EnvironmentProblem) {
        func value(_ name: String) -> (name: String, text: String)? {
            [name.lowercased(), name].lazy.compactMap { name in environment[name].map { (name, $0) } }
                .first { !$0.1.isEmpty }
        }
        func server(_ name: String) throws(EnvironmentProblem) -> Server? {
            guard let (name, text) = value(name) else { return nil }
            do throws(InvalidURL) {
                return try Server(withUser: text)
            } catch {
                throw EnvironmentProblem(name: name, problem: error.reason)
            }
        }
        self.init(secure: try server("HTTPS_PROXY"), plain: try server("HTTP_PROXY"))
        isFromEnvironment = true
        let hosts = value("NO_PROXY")?.text.split { $0 == "," || $0 == " " } ?? []
        // Other programs accept further forms, such as a host with a port. These are ignored.
        exceptions = hosts.compactMap { ProxyException(String($0)) }
    }

    struct EnvironmentProblem: Error {
        let name: String
        /// A continuation of the name of the variable.
        let problem: String
    }
}

extension ProxySettings.Server {
    /// Parses a URL that may have no scheme, and may contain a percent-encoded user and password.
    fileprivate init(withUser text: String) throws(InvalidURL) {
        var rest = text.hasPrefix("http://") ? text.dropFirst("http://".count) : text[...]
        while rest.hasSuffix("/") { rest = rest.dropLast() }
        guard let at = rest.lastIndex(of: "@") else {
            try self.init(rest.contains("://") ? String(rest) : "http://\(rest)")
            return
        }
        try self.init("http://\(rest[rest.index(after: at)...])")
        let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        user = Self.decoded(parts[0])
        password = .text(parts.count > 1 ? Self.decoded(parts[1]) : "")
    }

    private static func decoded(_ text: Substring) -> String {
        String(decoding: text.percentDecoded().bytes, as: UTF8.self)
    }
}

extension ProxyChoice {
    /// `proxy`: an object, `"environment"` or `"none"`.
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        guard case .string(let word) = value.content else {
            self = .proxy(try ProxySettings(value, path))
            return
        }
        switch word {
        case "none": self = .direct
        case "environment":
            var environment: [String: String] = [:]
            for name in ProxySettings.variables { environment[name] = getenv(name).map { String(cString: $0) } }
            do throws(ProxySettings.EnvironmentProblem) {
                self = .proxy(try ProxySettings(environment: environment))
            } catch {
                // The value is not shown, because it may contain a password.
                throw SettingsError(
                    "\(path) refers to \(error.name) of the environment, which \(error.problem)", member: path,
                    offset: value.offset)
            }
        default:
            throw SettingsError(
                "\(path) must be an object, \"environment\" or \"none\", not \(value.shown)", member: path,
                offset: value.offset)
        }
    }
}

extension ProxySettings {
    fileprivate init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: ["url", "user", "passwordFile", "passwordCredential", "noProxy", "resolvesNames"])
        guard let url = try reader.string("url", expected: "a URL in quotes", where: { _ in true }) else {
            throw reader.failure(nil, "needs \"url\", such as \"http://proxy.example.org:3128\"")
        }
        var server: Server
        // The URL is not shown, because it may contain a password.
        do throws(InvalidURL) { server = try Server(url) } catch {
            throw reader.failure("url", error.besideUser.reason)
        }
        server.user = try reader.string("user", expected: "a user's name without \":\", in quotes") {
            !$0.isEmpty && !$0.contains(":")
        }
        server.password = try reader.credential("password").map(Password.credential)
        if server.user == nil, server.password != nil {
            throw reader.failure(nil, "has a password but no \"user\"; add it, or remove the password")
        }
        if server.user != nil, server.password == nil {
            throw reader.failure("user", "needs a password; give \"passwordFile\" or \"passwordCredential\"")
        }
        self.init(secure: server, plain: server)
        let hosts = try reader.strings(
            "noProxy", each: "a domain, an address, a block of addresses such as \"10.0.0.0/8\", or \"*\"",
            where: { ProxyException($0) != nil })
        exceptions = (hosts ?? []).compactMap { ProxyException($0) }
        resolvesNames = try reader.truth("resolvesNames") ?? resolvesNames
    }
}
