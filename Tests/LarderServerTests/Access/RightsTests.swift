import Foundation
import LarderConfig
import LarderJSON
import LarderProtocol
import TestSupport
import Testing

@testable import LarderServer

@Suite("Access rights")
struct RightsTests {
    private static func peer(user: Int = 4711, group: Int = 4711, others: [UInt32] = []) -> PeerCredentials {
        var peer = PeerCredentials.stranger
        (peer.uid, peer.gid, peer.groups) = (user, group, others)
        return peer
    }

    private static func rights(of peer: PeerCredentials, _ rules: AccessRules) -> PeerRights {
        PeerRights(of: peer, by: rules, version: 0)
    }

    private static func rules(_ general: Rights, _ own: [String: Rights] = [:]) -> AccessRules {
        var rules = AccessRules()
        rules.general.others = general
        rules.namespaces = own.mapValues { AccessRules.Grants(others: $0) }
        return rules
    }

    @Test("a peer has all rights that the settings grant to its user, its groups or `others`")
    func union() {
        var rules = AccessRules()
        rules.general.users = [4711: Rights([.write])]
        rules.general.groups = [7: Rights([.push]), 8: Rights([.images])]
        rules.general.others = Rights([.read])
        #expect(Self.rights(of: Self.peer(), rules).general.list == [.read, .write])
        #expect(Self.rights(of: Self.peer(user: 1, group: 7), rules).general.list == [.read, .push])
        #expect(Self.rights(of: Self.peer(user: 1, others: [9, 8, 7]), rules).general.list == [.read, .push, .images])
        #expect(Self.rights(of: Self.peer(user: 7, group: 4711), rules).general.list == [.read])
    }

    @Test("root and the agent's own user have all rights everywhere, whatever the settings grant")
    func trusted() {
        for user in [0, Int(geteuid())] {
            let rights = Self.rights(of: Self.peer(user: user), Self.rules([], ["shop": []]))
            #expect(rights.general.list == Right.allCases)
            #expect(rights.readsEverything)
            #expect(rights.rights(in: "shop").list == [.read, .write, .push, .administer, .secrets])
        }
    }

    @Test(
        "`access` of a namespace replaces the general rights except `administer`, unless `access` grants no right")
    func namespaces() {
        let rules = Self.rules(
            Rights([.read, .push, .administer, .images]), ["shop": Rights([.read, .write]), "safe": []])
        let rights = Self.rights(of: Self.peer(), rules)
        #expect(rights.rights(in: "default").list == [.read, .push, .administer])
        #expect(rights.rights(in: "shop").list == [.read, .write, .administer])
        #expect(rights.rights(in: "safe").list == [])
        #expect(!rights.readsEverything && rights.mayRead("shop") && !rights.mayRead("safe"))
        #expect(Self.rights(of: Self.peer(), Self.rules(Rights([.read]), ["shop": Rights([.read])])).readsEverything)
        #expect(!Self.rights(of: Self.peer(), Self.rules([], ["shop": Rights([.read])])).readsEverything)
    }

    @Test("a peer cannot distinguish a hidden namespace from one that does not exist")
    func secretNamespaces() async throws {
        try await ConnectionFixture.with { _, context in
            func refusal(_ rules: AccessRules, _ right: Right, _ name: String) -> WireError? {
                context.authorizer.decide(.inNamespace(right, name), Self.rights(of: Self.peer(), rules))?.error
            }
            // Only "default" exists. "x" stands for a hidden namespace, "y" for one that does not exist.
            let reader = Rights([.read])
            for (general, right) in [(reader, Right.read), (reader, .write), ([], .read), (Rights([.images]), .push)] {
                let rules = Self.rules(general, ["x": []])
                let (hidden, absent) = (refusal(rules, right, "x"), refusal(rules, right, "y"))
                #expect(hidden?.code == .denied && hidden?.right == right && hidden?.namespace == "x")
                #expect(absent?.detail == hidden?.detail.replacing("\"x\"", with: "\"y\""))
                #expect(absent?.code == .denied && absent?.right == right && absent?.namespace == "y")
            }
            let (existing, missing) = (refusal(Self.rules([]), .read, "default"), refusal(Self.rules([]), .read, "y"))
            #expect(existing?.detail == missing?.detail.replacing("\"y\"", with: "\"default\""))
            let unknown = refusal(Self.rules(reader), .write, "y")
            #expect(
                unknown?.code == .unknownNamespace && unknown?.detail.contains("declared namespaces: default") == true)
            #expect(refusal(Self.rules(reader), .write, "default")?.detail.contains("if that exists") == false)
            #expect(refusal(Self.rules(reader, ["default": reader]), .read, "default") == nil)
            // The general right `administer` does not apply in a namespace that grants no rights.
            let administrator = Self.rules(Rights([.administer]), ["x": []])
            #expect(refusal(administrator, .administer, "x")?.code == .denied)
            #expect(refusal(administrator, .administer, "y")?.code == .denied)
            #expect(refusal(administrator, .administer, "default") == nil)
            #expect(Self.rights(of: Self.peer(), administrator).mayKnow(of: "x") == false)
            let member = Self.rules(Rights([.administer]), ["default": reader])
            #expect(refusal(member, .administer, "default") == nil)
            // No namespace can have this name. The error for it has no right and no namespace, so the refusal is not
            // logged.
            let impossible = refusal(Self.rules([]), .read, "No such\nname")
            #expect(impossible?.code == .unknownNamespace && impossible?.right == nil)
            #expect(impossible?.detail.hasSuffix("is not declared in the settings") == true)
        }
    }

    @Test("a peer with the right `monitor` knows all namespaces, but may not read them")
    func monitor() {
        let rights = Self.rights(of: Self.peer(), Self.rules(Rights([.monitor]), ["x": []]))
        #expect(rights.general.list == [.monitor] && rights.monitors)
        #expect(rights.mayKnow(of: "x") && rights.mayKnow(of: "default") && !rights.mayHaveHiddenNamespaces)
        #expect(!rights.mayRead("x") && !rights.mayRead("default"))
        #expect(rights.rights(in: "default").isEmpty)
    }

    private typealias Probe = (line: String, right: Right?, namespace: String?)

    /// Valid requests for all methods: those in `chosen`, and for each method that `chosen` lacks the first example in
    /// its schema.
    private static func requests() throws -> [Probe] {
        let known = Set(chosen.map { $0.line.split(separator: "\"")[0] })
        return try chosen + AllMethods.types.filter { !known.contains(Substring($0.name)) }.map { try probe($0) }
    }

    private static func probe<M: AuthorizedMethod>(_ method: M.Type) throws -> Probe {
        let folder = Checkout.root.appending(path: "Protocol/schemas/methods")
        let schema = try JSONValue(
            parsing: Array(Data(contentsOf: folder.appending(path: "\(M.name).json"))))
        let params = try #require(schema["examples"]?[0]?["params"])
        let line = "\"\(M.name)\",\"params\":\(params.compactText)"
        return switch M.requirement(try M.Parameters(params: params)) {
        case .nothing: (line, nil, nil)
        case .general(let right), .anywhere(let right), .image(_, let right, _): (line, right, nil)
        case .inNamespace(let right, let name): (line, right, name)
        case .monitoring(let name): (line, .read, name)
        case .allInNamespace(let rights, let name): (line, rights.first, name)
        }
    }

    private static let chosen: [Probe] = [
        (#""agent.ping""#, nil, nil), (#""agent.info""#, nil, nil), (#""rpc.discover""#, nil, nil),
        (#""request.cancel","params":[7]"#, nil, nil), (#""config.unsubscribe","params":[1]"#, nil, nil),
        (#""image.release","params":[1]"#, nil, nil), (#""config.get""#, .read, "default"),
        (#""config.get","params":["a","x"]"#, .read, "x"), (#""config.open","params":["x"]"#, .read, "x"),
        (#""config.get","params":{"namespace":"x","maximumAgeSeconds":0}"#, .read, "x"),
        (#""config.subscribe","params":["a","x"]"#, .read, "x"),
        (#""config.wait","params":{"namespace":"x","exists":true}"#, .read, "x"),
        (#""config.explain","params":["","x"]"#, .read, "x"), (#""config.status","params":["x"]"#, .read, "x"),
        (#""config.status""#, .read, nil), (#""config.history","params":["x"]"#, .read, "x"),
        (#""config.diff","params":[1,2,"x"]"#, .read, "x"), (#""config.overrides","params":["","x"]"#, .read, "x"),
        (#""config.acknowledge","params":{"revision":1,"accepted":true,"namespace":"x"}"#, .read, "x"),
        (#""config.refresh","params":["x"]"#, .read, "x"), (#""config.refresh","params":["x",false]"#, .read, "x"),
        (#""config.refresh","params":["x",true]"#, .push, "x"), (#""agent.stats""#, .read, nil),
        (#""config.set","params":["a",1,"x"]"#, .write, "x"), (#""config.unset","params":["a","x"]"#, .write, "x"),
        (#""config.push","params":[{},"x"]"#, .push, "x"),
        (#""config.rollback","params":[1,"x"]"#, .administer, "x"), (#""agent.clients""#, .administer, nil),
        (#""config.pin","params":{"revision":1,"namespace":"x"}"#, .administer, "x"),
        (#""config.backup","params":{"namespace":"x"}"#, .administer, "x"),
        (#""image.pin","params":["http://h/a"]"#, .administer, nil),
        (#""image.unpin","params":["http://h/a"]"#, .administer, nil),
        (#""image.remove","params":["http://h/a"]"#, .administer, nil), (#""image.clear""#, .administer, nil),
        (#""image.cancel","params":[1]"#, .administer, nil), (#""image.downloads""#, .images, nil),
        (#""image.get","params":["http://h/a"]"#, .images, nil),
        (#""image.peek","params":["http://h/a"]"#, .images, nil),
        (#""image.prefetch","params":[["http://h/a"]]"#, .images, nil), (#""image.list""#, .images, nil),
        (#""image.put","params":["http://h/a",""]"#, .images, nil),
    ]

    /// The rights that a request requires in addition to the first one.
    private static func furtherRights(_ line: String) -> [Right] {
        if line.hasPrefix("\"config.backup") { return [.read, .secrets] }
        // These methods also require the right to read, because comparing or incrementing a value reveals it.
        return line.hasPrefix("\"config.apply") || line.hasPrefix("\"config.increment") ? [.read] : []
    }

    /// The methods that also permit a peer with the right `monitor`.
    private static let monitoring = ["\"config.status", "\"agent.stats"]

    @Test("each method requires exactly its rights, as a single request or in a batch, and has no effect without them")
    func everyMethod() async throws {
        let named = Set(try Self.requests().map { $0.line.split(separator: "\"")[0] })
        #expect(named == Set(MethodRegistry.agent.names.map { Substring($0) }))
        try await tryEveryMethod(with: [])
        for right in Right.allCases {
            try await tryEveryMethod(with: Rights(Right.allCases.filter { $0 != right }))
            try await tryEveryMethod(with: Rights([right]))
        }
    }

    private func tryEveryMethod(with given: Rights) async throws {
        var limits = ConnectionLimits()
        // Permitted requests may stay in flight while they wait for a task. They must not reach this limit.
        limits.requestsInFlightPerConnection = 1000
        try await ConnectionFixture.with(
            limits: limits, peer: Self.peer(), access: Self.rules(given, ["x": given]), namespaces: ["default", "x"]
        ) { client, context in
            for (number, (line, needed, namespace)) in try Self.requests().enumerated() {
                // image.put requires `images` and `push`. A peer that has only `images` lacks `push`.
                let needsPush = line.hasPrefix("\"image.put\"") && given.contains(.images)
                let right = needsPush ? .push : needed
                let versions = context.namespaces.all.map(\.publication.version)
                let request = #"{"id":\#(number),"method":\#(line)}"#
                let notification = #"{"method":\#(line)}"#
                try await client.send("\(request)\n\(notification)\n[\(request)]\n")
                let replies = try await client.output().map { try JSONValue(parsing: $0) }
                    .map { $0[0] ?? $0 }.filter { $0["id"]?.int == number }
                let further = Self.furtherRights(line)
                let monitors = given.contains(.monitor) && Self.monitoring.contains { line.hasPrefix($0) }
                let missing = monitors ? nil : ([right].compactMap(\.self) + further).first { !given.contains($0) }
                let isLacking = missing != nil
                if isLacking {
                    // Denials do not wait for a task, so the replies to the request and to the batch have arrived. The
                    // notification gets no reply.
                    #expect(replies.count == 2, "\(line) with \(given.list)")
                    // If the peer has no rights, no request may have changed anything.
                    if given.isEmpty { #expect(context.namespaces.all.map(\.publication.version) == versions) }
                }
                for reply in replies {
                    let data = reply["error"]?["data"]
                    #expect((data?["name"] == "denied") == isLacking, "\(line) with \(given.list): \(reply)")
                    #expect(data?["right"]?.string == missing?.rawValue)
                    #expect(data?["namespace"]?.string == (isLacking ? namespace : nil))
                }
            }
        }
    }
}
