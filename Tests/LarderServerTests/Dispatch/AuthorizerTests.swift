import LarderProtocol
import LarderUpstream
import Testing

@testable import LarderServer

@Suite("Authorizer")
struct AuthorizerTests {
    /// The rights of a peer to whom the settings grant `general`, and in the namespace "own" only `own` unless that is
    /// nil.
    private static func rights(_ general: [Right], own: [Right]? = nil, of peer: PeerCredentials = .stranger)
        -> PeerRights
    {
        var rules = AccessRules()
        rules.general.others = Rights(general)
        if let own { rules.namespaces = ["own": AccessRules.Grants(others: Rights(own))] }
        return PeerRights(of: peer, by: rules, version: 0)
    }

    @Test(
        "a denial names the first missing right",
        arguments: [
            (Requirement.nothing, [], nil),
            (.general(.administer), [.administer], nil), (.general(.administer), [.read], .administer),
            (.anywhere(.read), [.read], nil), (.anywhere(.read), [], .read),
            (.general(.monitor), [.monitor], nil), (.general(.monitor), [.read, .administer], .monitor),
            (.monitoring(nil), [.monitor], nil), (.monitoring(nil), [.read], nil), (.monitoring(nil), [.write], .read),
            (.monitoring("default"), [.monitor], nil), (.monitoring("default"), [.read], nil),
            (.monitoring("default"), [.write], .read),
            (.inNamespace(.write, "default"), [.write], nil), (.inNamespace(.write, "default"), [.read], .write),
            (.allInNamespace([.administer, .read], "default"), [.administer, .read], nil),
            (.allInNamespace([.administer, .read], "default"), [.administer], .read),
            (.allInNamespace([.administer, .read], "default"), [], .administer),
            (.image(url: "http://h/a", .images), [.images], nil),
            (.image(url: "http://h/a", .images), [.push], .images),
            (.image(url: "http://h/a", .images, and: .push), [.images, .push], nil),
            (.image(url: "http://h/a", .images, and: .push), [.images], .push),
            (.image(url: "http://h/a", .images, and: .push), [.push], .images),
        ] as [(Requirement, [Right], Right?)])
    func missing(requirement: Requirement, granted: [Right], missing: Right?) async throws {
        try await ConnectionFixture.with { _, context in
            let denial = context.authorizer.decide(requirement, Self.rights(granted))
            #expect(denial?.error.right == missing)
            #expect((denial == nil) == (missing == nil))
            #expect(denial?.isDenied ?? true)
        }
    }

    @Test("`access` of a namespace replaces the general one; a right in one namespace meets the requirement `anywhere`")
    func ownAccess() async throws {
        try await ConnectionFixture.with(namespaces: ["default", "own"]) { _, context in
            let rights = Self.rights([], own: [.read])
            #expect(context.authorizer.decide(.inNamespace(.read, "own"), rights) == nil)
            #expect(context.authorizer.decide(.inNamespace(.read, "default"), rights)?.error.right == .read)
            #expect(context.authorizer.decide(.anywhere(.read), rights) == nil)
            #expect(context.authorizer.decide(.general(.read), rights)?.error.right == .read)
            #expect(context.authorizer.decide(.inNamespace(.read, "own"), Self.rights([.read], own: [])) != nil)
        }
    }

    @Test("a missing namespace is reported as unknown, not denied, if no namespace is hidden from the peer")
    func unknownNamespace() async throws {
        try await ConnectionFixture.with { _, context in
            let denial = context.authorizer.decide(.inNamespace(.write, "none"), Self.rights([.read]))
            #expect(denial?.error.code == .unknownNamespace)
            #expect(denial?.isDenied == false)
        }
    }

    @Test("the images of an origin are available only to trusted peers and to the users and groups of the origin")
    func origin() async throws {
        let origin = try ImageOrigin("http://h", users: [4711], groups: [7, 8])
        func peer(user: Int, group: Int = 1, others: [UInt32] = []) -> PeerCredentials {
            var peer = PeerCredentials.stranger
            (peer.uid, peer.gid, peer.groups) = (user, group, others)
            return peer
        }
        try await ConnectionFixture.with { _, context in
            func isDenied(_ peer: PeerCredentials, _ rights: [Right] = [.images]) -> Bool {
                context.authorizer.decide(imageOf: origin, Self.rights(rights, of: peer)) != nil
            }
            #expect(!isDenied(peer(user: 4711)) && !isDenied(peer(user: 1, group: 8)))
            #expect(!isDenied(peer(user: 1, others: [3, 7])) && !isDenied(peer(user: 0)) && !isDenied(.own))
            #expect(isDenied(peer(user: 7)) && isDenied(peer(user: 1, group: 4711)))
            #expect(isDenied(peer(user: 4711), [.read]))
        }
    }
}
