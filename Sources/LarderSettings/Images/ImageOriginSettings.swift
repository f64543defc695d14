import LarderJSON5
package import LarderUpstream

/// `images.origins["https://img.example.org"]`: the credentials for one origin, the users who may have images that are
/// fetched with them, and the query parameters that do not distinguish images.
package struct ImageOriginSettings: Sendable, Equatable {
    /// `headers`, `tokenFile` or `tokenCredential`, and `certificate` with `privateKey`: the credentials. They are sent only
    /// to this origin, not to another origin after a redirect. `certificateAuthority`: the authorities that are trusted for
    /// this origin.
    package var access = HTTPAccess()
    /// `users`: the users who may have images that are fetched with these credentials, besides root and the agent's
    /// user. Default: none.
    package var users: [Account] = []
    /// `groups`: the groups whose members may have these images. Default: none.
    package var groups: [Account] = []
    /// `ignoreQuery`: names of query parameters that are not part of an image's cache key, such as a signature. A name
    /// that ends with `*` matches every name with that prefix. Default: none.
    package var ignoredQuery: [String] = []

    package init() {}

    /// Whether requests to this origin carry a header field, a token or a client certificate from the settings.
    package var hasCredential: Bool {
        !access.headers.isEmpty || access.token != nil || access.tls.certificate != nil
    }
}

extension ImageOriginSettings {
    init(_ value: SettingsValue, _ path: SettingsPath, for url: String) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: HTTPAccess.settings + ["users", "groups", "ignoreQuery"])
        access = try HTTPAccess(reader, for: url)
        users = try reader.accounts("users", example: "\"alice\"")
        groups = try reader.accounts("groups", example: "\"www-data\"")
        ignoredQuery =
            try reader.strings(
                "ignoreQuery",
                each: "the name of a query member such as \"sig\", or a prefix such as \"X-Amz-*\"",
                where: Self.isQueryPattern) ?? []
        if !hasCredential, let name = ["users", "groups"].first(where: reader.has) {
            throw reader.failure(
                name,
                "has no effect without \"headers\", \"tokenFile\", \"tokenCredential\" or \"certificate\", because images "
                    + "without credentials are for all users; remove it")
        }
    }

    private static func isQueryPattern(_ text: String) -> Bool {
        let name = text.hasSuffix("*") ? text.dropLast() : text[...]
        return !name.isEmpty && !name.utf8.contains { $0 <= 0x20 || $0 >= 0x7f || "*&=#?".utf8.contains($0) }
    }

    /// Reads all origins of the settings.
    static func all(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> [String: ImageOriginSettings] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var origins: [String: ImageOriginSettings] = [:]
        for name in reader.names {
            if let problem = HTTPURLCheck.problem(of: name) { throw reader.failure(name, problem) }
            guard let url = try? FetchURL(parsing: name), url.query == nil, name.count(where: { $0 == "/" }) == 2 else {
                throw reader.failure(name, "must end after the host and port; it applies to all paths")
            }
            let origin = url.origin
            guard origins[origin] == nil else {
                throw reader.failure(name, "is the same origin as another one here; merge the two")
            }
            origins[origin] =
                try reader.section(name) { (value, path) throws(SettingsError) in
                    try ImageOriginSettings(value, path, for: name)
                } ?? ImageOriginSettings()
        }
        return origins
    }
}

extension SettingsReader {
    /// Reads an array of user or group names and IDs.
    fileprivate func accounts(
        _ name: String, example: String
    ) throws(SettingsError) -> [Account] {
        guard let value = value(name) else { return [] }
        guard case .array(let elements) = value.content else {
            throw failure(name, "must be an array of names such as \(example) and numbers, not \(value.shown)")
        }
        var accounts: [Account] = []
        for element in elements {
            switch element.content {
            case .string(let text) where Account.isName(text):
                accounts.append(.name(text))
            case .number(let number, _):
                guard let id = Int(exactly: number), Account.isNumber(id) else { fallthrough }
                accounts.append(.number(id))
            default:
                throw failure(name, "must contain names such as \(example) and numbers, not \(element.shown)")
            }
        }
        return accounts
    }
}
