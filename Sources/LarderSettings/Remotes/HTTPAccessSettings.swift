import LarderUpstream

extension HTTPAccess {
    /// The names of the members for credentials, TLS and the proxy in the settings of a remote source.
    static let settings = [
        "headers", "tokenFile", "tokenCredential", "certificateAuthority", "certificate", "privateKey", "proxy",
    ]

    init(_ reader: SettingsReader, for url: String) throws(SettingsError) {
        self.init()
        headers = try reader.section("headers", Self.headers) ?? [:]
        token = try reader.credential("token")
        if token != nil, headers.keys.contains(where: { $0.lowercased() == "authorization" }) {
            throw reader.failure("headers", "must not contain \"Authorization\" if there is a token; keep one of them")
        }
        proxy = try reader.section("proxy", ProxyChoice.init) ?? proxy
        tls = try TLSFiles(reader)
        if tls != TLSFiles(), !url.lowercased().hasPrefix("https:") {
            let name = ["certificateAuthority", "certificate", "privateKey"].first(where: reader.has)
            throw reader.failure(name, "has no effect without TLS; begin the url with \"https://\"")
        }
    }

    private static func headers(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> [String: String] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var headers: [String: String] = [:]
        for name in reader.names where reader.has(name) {
            guard HTTPURLCheck.isHeaderName(name) else {
                throw reader.failure(name, "is not a valid header name; use letters, digits and \"-\"")
            }
            headers[name] = try headerValue(name, reader)
        }
        return headers
    }

    /// The value of a header field. The methods of the reader that check a string are not used, because their errors
    /// would show the value, which may be a secret.
    private static func headerValue(_ name: String, _ reader: SettingsReader) throws(SettingsError) -> String {
        guard let value = reader.unshownString(name) else { throw reader.failure(name, "must be a string in quotes") }
        guard HTTPURLCheck.isHeaderValue(value) else {
            throw reader.failure(
                name, "must not contain line breaks or other control characters, or leading or trailing spaces")
        }
        return value
    }
}

extension SettingsReader {
    /// Reads where a secret is stored: in a file (`NAMEFile`) or in a systemd credential (`NAMECredential`).
    func credential(_ name: String) throws(SettingsError) -> Credential? {
        let file = try path("\(name)File")
        let credential = try string("\(name)Credential", expected: "the name of a credential, such as \"token\"") {
            !$0.isEmpty && $0 != "." && $0 != ".." && $0.utf8.count <= 255 && !$0.contains("/") && !$0.utf8.contains(0)
        }
        switch (file, credential) {
        case (let file?, nil): return .file(file)
        case (nil, let credential?): return .systemd(credential)
        case (nil, nil): return nil
        case (_?, _?):
            throw failure("\(name)Credential", "cannot be combined with \"\(name)File\"; keep one of them")
        }
    }
}

extension TLSFiles {
    /// `certificateAuthority`, `certificate` and `privateKey`: absolute paths.
    init(_ reader: SettingsReader) throws(SettingsError) {
        self.init(
            certificateAuthority: try reader.path("certificateAuthority"),
            certificate: try reader.path("certificate"), privateKey: try reader.path("privateKey"))
        switch (certificate, privateKey) {
        case (_?, nil): throw reader.failure("certificate", "needs \"privateKey\" too")
        case (nil, _?): throw reader.failure("privateKey", "needs \"certificate\" too")
        case (nil, nil), (_?, _?): break
        }
    }
}
