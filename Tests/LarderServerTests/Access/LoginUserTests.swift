import Foundation
import Glibc
import Testing

@testable import LarderServer

@Suite("Login user of a peer")
struct LoginUserTests {
    @Test("the login user of a process is that in /proc, and nil if it is not set or the process does not exist")
    func loginUser() {
        let text = (try? String(contentsOfFile: "/proc/self/loginuid", encoding: .utf8)) ?? ""
        let expected = Int(text.trimmingCharacters(in: .whitespacesAndNewlines)).flatMap {
            $0 == 4_294_967_295 ? nil : $0
        }
        #expect(PeerCredentials.loginUser(of: Int(getpid())) == expected)
        #expect(PeerCredentials.loginUser(of: 0) == nil)
        #expect(PeerCredentials.loginUser(of: 1 << 30) == nil)
    }
}
