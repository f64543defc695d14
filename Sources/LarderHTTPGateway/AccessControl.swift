import Glibc
import LarderDigest
import NIOHTTP1

extension GatewaySettings {
    /// Checks the settings as far as that is possible outside of the unit.
    /// - Returns: what the unit must provide; nil for nothing
    package func condition() throws(GatewaySettingsError) -> GatewaySettingsError? {
        do throws(GatewaySettingsError) {
            try check(listen)
            _ = try AccessControl(self)
            return nil
        } catch {
            guard error.dependsOnUnit else { throw error }
            return error
        }
    }
}

/// Decides which requests are served, from their header alone.
struct AccessControl {
    private let hosts: Set<String>
    private let origins: Set<String>
    /// The digest of the token; nil if no token is needed.
    private let tokenDigest: [UInt8]?

    /// Reads the token.
    init(_ settings: GatewaySettings) throws(GatewaySettingsError) {
        hosts = Set(settings.hosts.map { $0.lowercased() })
        origins = Set(settings.origins)
        switch settings.access {
        case .socketPermissions, .anyone: tokenDigest = nil
        case .tokenFile(let path): tokenDigest = SHA256.hash(try Self.token(path, mustBePrivate: true))
        case .tokenCredential(let name):
            guard let directory = getenv("CREDENTIALS_DIRECTORY") else {
                throw GatewaySettingsError(
                    "\"tokenCredential\" needs LoadCredential=\(name):FILE in the unit; add it, or use \"tokenFile\"",
                    dependsOnUnit: true)
            }
            // systemd restricts access to the directory of the credentials.
            let path = "\(String(cString: directory))/\(name)"
            tokenDigest = SHA256.hash(try Self.token(path, mustBePrivate: false))
        }
    }

    /// The token in a file, without white space at its end.
    private static func token(_ path: String, mustBePrivate: Bool) throws(GatewaySettingsError) -> [UInt8] {
        var token = try GatewaySettings.contents(of: path, upTo: 4096, mustBePrivate: mustBePrivate)
        while let last = token.last, last <= 0x20 { token.removeLast() }
        guard (16...4096).contains(token.count), token.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw GatewaySettingsError(
                "\(path): a token has 16 to 4096 visible ASCII characters; create one with openssl rand -hex 32")
        }
        return token
    }

    /// Checks the host and the origin of a request.
    /// - Returns: the origin, which the response must allow; nil if the request has none
    func origin(of head: HTTPRequestHead) throws(Response) -> String? {
        let named = head.headers["host"]
        guard named.count == 1 else { throw .error(.badRequest, "send one Host header") }
        guard hosts.contains(Self.name(named[0])), hosts.contains(Self.name(Route.host(of: head.uri) ?? named[0]))
        else {
            throw .error(
                .misdirectedRequest, "this host name is not served; use one of \"hosts\" in the settings of the gateway"
            )
        }
        let given = head.headers["origin"]
        guard let origin = given.first else { return nil }
        guard given.count == 1, origins.contains(origin) else {
            throw .error(.forbidden, "this origin is not one of \"origins\" in the settings of the gateway")
        }
        return origin
    }

    /// A host without its port, in lower case.
    private static func name(_ host: String) -> String {
        let isLiteral = host.hasPrefix("[")
        let end = isLiteral ? host.firstIndex(of: "]").map(host.index(after:)) : host.firstIndex(of: ":")
        let port = end.map { host[$0...] } ?? ""
        guard port.isEmpty || port.hasPrefix(":") && port.dropFirst().utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return "" }
        return host[..<(end ?? host.endIndex)].lowercased()
    }

    /// Checks the token of a request: `Authorization: Bearer TOKEN`, or `X-API-Key: TOKEN`.
    func checkToken(of head: HTTPRequestHead) throws(Response) {
        guard let tokenDigest else { return }
        let scheme = "bearer "
        let bearers = head.headers["authorization"].filter { $0.lowercased().hasPrefix(scheme) }
        let given = bearers.map { String($0.dropFirst(scheme.count)) } + head.headers["x-api-key"]
        // Digests have the same length, and do not reveal where the tokens differ.
        // The time of the comparison does not depend on their content.
        if given.count == 1, zip(SHA256.hash(given[0].utf8), tokenDigest).reduce(0, { $0 | ($1.0 ^ $1.1) }) == 0 {
            return
        }
        throw .error(.unauthorized, "send the token of the gateway as Authorization: Bearer TOKEN")
            .with("WWW-Authenticate", "Bearer")
    }
}
