/// The settings of one origin of images.
package struct ImageOrigin: Sendable {
    /// `scheme://host`, with the port unless it is the default port of the scheme.
    package let name: String
    /// The credentials for requests to the origin, if any. Images that are fetched with them are cached separately, and
    /// only permitted users can have them.
    package var credential: HTTPAccess?
    /// The files with the authorities that are trusted for the origin, and with the client certificate. A client
    /// certificate is also a credential.
    package var tls: TLSFiles
    /// The query members that do not affect the image, such as signatures. Each element is the name of a member, or the
    /// start of names followed by `*`.
    package var ignoredQuery: [String]
    /// The users who may have images fetched with the credential, besides root and the agent's own user.
    package var users: Set<UInt32>
    /// The groups whose members may have images fetched with the credential.
    package var groups: Set<UInt32>

    /// Creates the settings of an origin.
    ///
    /// - Parameter name: an absolute `http` or `https` URL without a path
    /// - Throws: ``UpstreamError/Code/invalidURL``
    package init(
        _ name: String, credential: HTTPAccess? = nil, tls: TLSFiles = TLSFiles(), ignoredQuery: [String] = [],
        users: Set<UInt32> = [], groups: Set<UInt32> = []
    ) throws(UpstreamError) {
        guard let address = try? FetchURL(parsing: name), address.path == "/", address.query == nil else {
            throw UpstreamError(
                .invalidURL, "\"\(name)\" is not an origin; write https://host or https://host:port, without a path")
        }
        self.name = address.origin
        self.credential = credential
        self.tls = tls
        self.ignoredQuery = ignoredQuery
        self.users = users
        self.groups = groups
    }

    /// Whether the query member of this name does not affect the image.
    package func ignores(_ member: Substring) -> Bool {
        ignoredQuery.contains { pattern in
            pattern.hasSuffix("*") ? member.hasPrefix(pattern.dropLast()) : member == pattern
        }
    }
}
