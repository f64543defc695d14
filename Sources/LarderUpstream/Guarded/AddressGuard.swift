/// Decides to which addresses the agent sends requests on behalf of clients. Without this check, a client could use the
/// agent to reach hosts on networks that are not public (server-side request forgery).
///
/// The guard checks only hosts and addresses. ``GuardedClients`` ensures that a connection goes to the address that was
/// checked.
package struct AddressGuard: Sendable, Hashable {
    /// Address blocks that the settings allow although they are not globally routable.
    package let allowed: [AddressRange]

    package init(allowed: [AddressRange] = []) { self.allowed = allowed }

    package func allows(_ address: IPAddress) -> Bool {
        address.kind == .global || allowed.contains { $0.contains(address) }
    }

    /// Throws if an address is not allowed.
    ///
    /// - Throws: ``UpstreamError/Code/forbiddenAddress``
    package func check(_ address: IPAddress, of host: String) throws(UpstreamError) {
        guard !allows(address) else { return }
        let shown = host == address.description ? host : "\(host) (\(address))"
        throw UpstreamError(
            .forbiddenAddress,
            "\(shown) is a \(address.kind.rawValue) address, which is not allowed; add it to images.allowNetworks or use "
                + "another origin")
    }
}
