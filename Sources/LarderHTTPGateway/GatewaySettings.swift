import Glibc
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderJSON5
import LarderPlatform
package import NIOCore

/// The settings of the gateway, which are in `/etc/larder/http.json`.
package struct GatewaySettings: Sendable {
    /// A namespace, and the parts of it that the gateway serves.
    package struct Namespace: Sendable {
        package let name: String
        /// The member of the document that contains the flags, as in the setting `flags.member` of the agent; empty if the
        /// whole document is in flagd's format; nil if the gateway does not serve flags of the namespace.
        package let flags: String?
        /// Whether the gateway serves the values of the namespace.
        package let servesConfig: Bool
    }

    /// The clients that may send requests.
    package enum Access: Sendable, Equatable {
        /// Every process that the permissions of a Unix socket admit. A TCP port is not served.
        case socketPermissions
        /// Every process that can connect.
        case anyone
        /// Clients that send the token in a file.
        case tokenFile(String)
        /// Clients that send the token in a systemd credential.
        case tokenCredential(String)
    }

    /// Where the gateway listens if systemd passes no socket.
    package let listen: SocketAddress
    package let namespaces: [Namespace]
    package let access: Access
    /// The host names, without a port, that requests can be sent to.
    package let hosts: [String]
    /// The origins of web pages that may send requests.
    package let origins: [String]
    package let maxConnections: Int
    /// The maximum size of a request body.
    package let maxBodyBytes: Int

    /// Reads a settings file.
    package static func load(from path: String) throws(GatewaySettingsError) -> GatewaySettings {
        try parse(contents(of: path, upTo: 1 << 20), path)
    }

    /// Parses settings.
    /// - Parameter path: the file, for errors
    package static func parse(_ text: [UInt8], _ path: String) throws(GatewaySettingsError) -> GatewaySettings {
        let (scalars, parsed): ([Unicode.Scalar], JSON5Value)
        do throws(JSON5Error) {
            scalars = try JSON5Parser.scalars(of: text)
            parsed = try JSON5Parser.parse(scalars)
        } catch {
            throw GatewaySettingsError("\(path):\(error.place?.line ?? 1): \(error.reason)")
        }
        do throws(SettingsObject.Problem) {
            return try GatewaySettings(SettingsObject(parsed.json ?? .emptyObject, []))
        } catch {
            let line = parsed.offset(of: error.path).map { JSON5Text.place(of: $0, in: scalars).line } ?? 1
            throw GatewaySettingsError("\(path):\(line): \(error.path.joined(separator: ".")) \(error.text)")
        }
    }

    /// Reads a small file.
    /// - Parameter mustBePrivate: whether the file must not be readable by other users
    static func contents(
        of path: String, upTo limit: Int, mustBePrivate: Bool = false
    ) throws(GatewaySettingsError) -> [UInt8] {
        let file = StableFileReader(name: path.cPath, path: path, maximumBytes: limit, mustBePrivate: mustBePrivate)
        do throws(FileReadError) {
            return try file.read().bytes
        } catch {
            // The advice of the error concerns the user of the agent.
            guard error.code == .permissionDenied else { throw GatewaySettingsError("\(error)") }
            throw GatewaySettingsError(
                "\(path): Permission denied; allow the user of the gateway, larder-http, to read it and to search the "
                    + "directories above it")
        }
    }

    /// Checks that a socket is a Unix socket, or a loopback port to which access is restricted or explicitly open.
    package func check(_ address: SocketAddress?) throws(GatewaySettingsError) {
        switch address {
        // A socket in the abstract namespace has no permissions.
        case .unixDomainSocket?: if address?.pathname?.hasPrefix("/") == true { return }
        default:
            guard let ip = address?.ipAddress, ip == "::1" || ip.hasPrefix("127.") else {
                throw GatewaySettingsError(
                    "the gateway serves only loopback addresses and Unix sockets, because it has no TLS; use 127.0.0.1, "
                        + "and a proxy for other hosts")
            }
        }
        if access == .socketPermissions {
            throw GatewaySettingsError(
                "every local user can connect to a TCP port; set \"tokenFile\", \"tokenCredential\" or \"access\": \"anyone\", "
                    + "or use a Unix socket", dependsOnUnit: true)
        }
    }

    /// The maximum number of connections of a process with a limit of descriptors. Some are kept for other files and for the
    /// snapshots.
    package func connections(withDescriptors descriptors: Int) -> Int {
        max(1, min(maxConnections, descriptors - 64 - 2 * namespaces.count))
    }

    /// `ADDRESS:PORT`, or the absolute path of a Unix socket; nil for other texts.
    private static func address(_ text: String) -> SocketAddress? {
        if text.hasPrefix("/") { return try? SocketAddress(unixDomainSocketPath: text) }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[colon...].dropFirst()) else { return nil }
        let host = text[..<colon]
        let isLiteral = host.hasPrefix("[") && host.hasSuffix("]")
        return try? SocketAddress(ipAddress: String(isLiteral ? host.dropFirst().dropLast() : host), port: Int(port))
    }

    private init(_ object: SettingsObject) throws(SettingsObject.Problem) {
        try object.check([
            "listen", "namespaces", "access", "tokenFile", "tokenCredential", "hosts", "origins", "limits",
        ])
        listen = try object.convert(
            "listen", default: "127.0.0.1:8016", "127.0.0.1:PORT or an absolute path", Self.address)
        let given: [Access?] = [
            try object.string("access", "\"anyone\"", { $0 == "anyone" }).map { _ in .anyone },
            try object.string("tokenFile", "an absolute path", { $0.hasPrefix("/") }).map { .tokenFile($0) },
            try object.string("tokenCredential", "a name", { !$0.contains("/") }).map { .tokenCredential($0) },
        ]
        let chosen = given.compactMap(\.self)
        guard chosen.count < 2 else {
            throw object.problem(
                "access", "cannot be combined with \"tokenFile\" or \"tokenCredential\", nor can these; keep one")
        }
        access = chosen.first ?? .socketPermissions
        hosts =
            try object.strings("hosts", "host names without a port; an IPv6 address is in brackets") {
                !$0.isEmpty && ($0.hasPrefix("[") ? $0.hasSuffix("]") : !$0.contains(":"))
            } ?? ["localhost", "127.0.0.1"]
        if hosts.isEmpty { throw object.problem("hosts", "must name a host, or no request is served") }
        // A browser sends an origin without a path, and "null" for pages without one.
        origins =
            try object.strings("origins", "origins without a path, such as \"https://example.org\"") {
                $0.contains("://") && $0.utf8.count(where: { $0 == UInt8(ascii: "/") }) == 2
            } ?? []
        let limits = try object.object("limits")
        try limits?.check(["connections", "bodyBytes"])
        maxConnections = try limits?.integer("connections", 1...100_000) ?? 1000
        maxBodyBytes = try limits?.integer("bodyBytes", 1024...1 << 20) ?? 64 << 10
        let all = try object.object("namespaces")
        var namespaces: [Namespace] = []
        for (name, _) in all?.value.members ?? JSONValue.emptyObject.members {
            guard let namespace = try all?.object(name) else { continue }
            guard NamespaceName.isValid(name) else {
                throw namespace.problem("must have a name of lower-case letters, digits, \"-\", \"_\" and \".\"")
            }
            try namespace.check(["flags", "config"])
            let flags = try namespace.read("flags", "the name of a member, or \"\" for the whole document", \.string)
            let config = try namespace.read("config", "true or false", \.bool)
            if flags == nil, config != true {
                throw namespace.problem("serves nothing; add flags: \"flags\", config: true, or both")
            }
            namespaces.append(Namespace(name: name, flags: flags, servesConfig: config ?? false))
        }
        if namespaces.isEmpty {
            throw object.problem("namespaces", "must name a namespace, such as { default: { flags: \"flags\" } }")
        }
        self.namespaces = namespaces
    }
}

/// Why the gateway cannot start with its settings, and what to do, in one line.
package struct GatewaySettingsError: Error, CustomStringConvertible {
    package let description: String
    /// Whether a unit of systemd can make the settings valid, by its socket or its credential.
    package let dependsOnUnit: Bool

    package init(_ description: String, dependsOnUnit: Bool = false) {
        (self.description, self.dependsOnUnit) = (description, dependsOnUnit)
    }
}

/// Reads the members of one object in the settings. A member that is `null` counts as missing.
private struct SettingsObject {
    struct Problem: Error {
        let path: [String]
        let text: String
    }

    let value: JSONValue
    private let path: [String]

    init(_ value: JSONValue, _ path: [String]) throws(Problem) {
        guard value.kind == .object else { throw Problem(path: path, text: "must be an object in braces") }
        (self.value, self.path) = (value, path)
    }

    /// Checks that all members are known.
    func check(_ known: [String]) throws(Problem) {
        for (name, _) in value.members where !known.contains(where: { name.isSpelled(as: $0) }) {
            throw problem(name, "is not a setting; \(NearestName.advice(for: name, among: known))")
        }
    }

    func problem(_ name: String, _ text: String) -> Problem { Problem(path: path + [name], text: text) }

    /// A problem of the object itself.
    func problem(_ text: String) -> Problem { Problem(path: path, text: text) }

    func read<Result>(
        _ name: String, _ expected: String, _ convert: (JSONValue) -> Result?
    ) throws(Problem) -> Result? {
        guard let value = value[name], !value.isNull else { return nil }
        guard let result = convert(value) else { throw problem(name, "must be \(expected)") }
        return result
    }

    func object(_ name: String) throws(Problem) -> SettingsObject? {
        guard let value = value[name], !value.isNull else { return nil }
        return try SettingsObject(value, path + [name])
    }

    /// Converts a string, or a default that is valid.
    func convert<Result>(
        _ name: String, default text: String, _ expected: String, _ convert: (String) -> Result?
    ) throws(Problem) -> Result {
        let value = self.value[name] ?? .string(text)
        guard let result = (value.isNull ? text : value.string).flatMap(convert) else {
            throw problem(name, "must be \(expected)")
        }
        return result
    }

    func string(_ name: String, _ expected: String, _ isValid: (String) -> Bool) throws(Problem) -> String? {
        try read(name, expected) { $0.string.flatMap { !$0.isEmpty && isValid($0) ? $0 : nil } }
    }

    func strings(_ name: String, _ expected: String, _ isValid: (String) -> Bool) throws(Problem) -> [String]? {
        try read(name, "an array of \(expected)") { value in
            let texts = value.elements.compactMap(\.string).filter(isValid)
            return value.kind == .array && texts.count == value.count ? texts : nil
        }
    }

    func integer(_ name: String, _ range: ClosedRange<Int>) throws(Problem) -> Int? {
        try read(name, "a whole number from \(range.lowerBound) to \(range.upperBound)") { value in
            value.int.flatMap { range.contains($0) ? $0 : nil }
        }
    }
}
