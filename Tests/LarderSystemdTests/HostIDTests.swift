import Foundation
import LarderSystemd
import Testing

@Suite("Host ID")
struct HostIDTests {
    @Test("the ID of a host is derived from its machine ID, and does not reveal it")
    func derivation() throws {
        let machineID = try? String(contentsOfFile: "/etc/machine-id", encoding: .utf8).prefix(32)
        guard let machineID, machineID.count == 32, machineID.allSatisfy(\.isHexDigit) else {
            #expect(HostID.text == nil)
            return
        }
        let id = try #require(HostID.text)
        #expect(id.wholeMatch(of: /[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}/) != nil, "a UUID of version 4")
        #expect(id != machineID)
        #expect(HostID.text == id)
    }
}
