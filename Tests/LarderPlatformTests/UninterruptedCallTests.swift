import Glibc
import LarderPlatform
import Testing

@Suite("Interrupted system calls")
struct UninterruptedCallTests {
    /// A call that fails with the given error numbers in order, and then succeeds.
    private final class Call {
        private var failures: [CInt]
        private(set) var count = 0

        init(_ failures: [CInt]) { self.failures = failures }

        func number() -> CInt {
            count += 1
            guard !failures.isEmpty else { return 7 }
            errno = failures.removeFirst()
            return -1
        }

        func text() -> String? { number() < 0 ? nil : "7" }
    }

    @Test("a call is repeated while it fails with EINTR")
    func retried() {
        let (number, text) = (Call([EINTR, EINTR]), Call([EINTR]))
        #expect(uninterrupted { number.number() } == 7)
        #expect(number.count == 3)
        #expect(uninterrupted { text.text() } == "7")
        #expect(text.count == 2)
    }

    @Test("any other failure is returned with its error number")
    func others() {
        let (number, text) = (Call([EINTR, EIO]), Call([ENOENT]))
        #expect(uninterrupted { number.number() } == -1)
        #expect(errno == EIO)
        #expect(uninterrupted { text.text() } == nil)
        #expect(errno == ENOENT)
        #expect((number.count, text.count) == (2, 1))
    }
}
