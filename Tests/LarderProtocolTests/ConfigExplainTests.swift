import LarderJSON
import LarderProtocol
import Testing

@Suite("Encoding of config.explain")
struct ConfigExplainTests {
    private func read(_ text: String) throws -> ConfigExplain.Result {
        try ConfigExplain.Result(from: JSONValue(parsing: text))
    }

    private func text(_ result: ConfigExplain.Result) -> String {
        var writer = JSONWriter()
        result.write(to: &writer)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test("a full and an empty result survive a round trip")
    func roundTrip() throws {
        let full = ConfigExplain.Result(
            path: "a.b", namespace: "default", revision: 7, epoch: "9f86d081884c7d65", value: "<masked>",
            winner: "host", isMasked: true, lock: ConfigExplain.Lock(path: "a", file: "/f", line: 3, settings: "/s"),
            layers: [
                ConfigExplain.Layer(name: "defaults"),
                ConfigExplain.Layer(
                    name: "host", value: "<masked>", isMasked: true,
                    source: ConfigExplain.Source(kind: "file", location: "/d", file: "/d/f", line: 1),
                    since: ConfigExplain.Since(
                        revision: 3, at: Timestamp(milliseconds: 1_700_000_000_000), orEarlier: true),
                    heldRevision: 2),
                ConfigExplain.Layer(
                    name: "remote", isHiding: true,
                    source: ConfigExplain.Source(kind: "etcd", location: "l", key: "k", version: "7")),
                ConfigExplain.Layer(
                    name: "experiment", value: 1, source: ConfigExplain.Source(kind: "settings", experiment: "blue")),
                ConfigExplain.Layer(
                    name: "override", value: .null,
                    source: ConfigExplain.Source(
                        kind: "set", peer: WirePeer(pid: 1, uid: 2, command: "vi"),
                        expiresAt: Timestamp(milliseconds: 1_700_000_000_000))),
            ])
        #expect(try read(text(full)) == full)
        let empty = ConfigExplain.Result(
            path: "", namespace: "default", revision: 0, epoch: "9f86d081884c7d65", value: nil, winner: nil,
            isMasked: false, lock: ConfigExplain.Lock(path: "a", file: nil, line: nil, settings: nil), layers: [])
        #expect(try read(text(empty)) == empty)
        #expect(
            text(empty)
                == #"{"path":"","namespace":"default","revision":0,"epoch":"9f86d081884c7d65","exists":false,"#
                + #""winner":null,"lock":{"path":"a","settings":null},"layers":[]}"#)
    }

    @Test("if the member `value` of a result is null, the value is JSON null, not missing")
    func null() throws {
        let result = try read(
            #"{"path":"a","namespace":"n","revision":1,"epoch":"e","exists":true,"value":null,"winner":null,"layers":[]}"#
        )
        #expect(result.value == .null)
    }
}
