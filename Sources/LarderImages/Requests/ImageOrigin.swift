/// What the settings say of one origin of images.
package struct ImageOrigin: Sendable {
    /// `scheme://host`, with the port if it is not the scheme's own.
    package let name: String
    /// What the origin is shown to let us in, if anything. What it then answers is kept apart from everything else.
    package var credential: ImageCredential?
    /// The members of queries that say nothing about the image, such as signatures: names, or beginnings of names with a
    /// `*` behind them.
    package var ignoredQuery: [String]
    /// The users who may have what the credential opens, besides root and the agent's own.
    package var users: Set<UInt32>
    /// The groups whose members may have it.
    package var groups: Set<UInt32>

    /// Makes it.
    ///
    /// - Parameter name: an absolute `http` or `https` URL without a path
    /// - Throws: ``ImageError/Code/invalidURL``
    package init(
        _ name: String, credential: ImageCredential? = nil, ignoredQuery: [String] = [], users: Set<UInt32> = [],
        groups: Set<UInt32> = []
    ) throws(ImageError) {
        guard let address = ImageAddress(name), address.path == "/", address.query == nil else {
            throw ImageError(
                .invalidURL, "\"\(name)\" is not an origin; write https://host or https://host:port, and no path")
        }
        self.name = address.origin
        self.credential = credential
        self.ignoredQuery = ignoredQuery
        self.users = users
        self.groups = groups
    }

    func ignores(_ member: Substring) -> Bool {
        ignoredQuery.contains { pattern in
            pattern.hasSuffix("*") ? member.hasPrefix(pattern.dropLast()) : member == pattern
        }
    }
}

/// What an origin is shown to let us in.
package struct ImageCredential: Sendable {
    /// The fields to send, read anew for each request: tokens change. It may wait for the disk.
    package let fields: @Sendable () throws(ImageError) -> [(name: String, value: String)]

    package init(_ fields: @escaping @Sendable () throws(ImageError) -> [(name: String, value: String)]) {
        self.fields = fields
    }
}
