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
    }

    @Test("a call is repeated while it fails with EINTR")
    func retried() {
        let number = Call([EINTR, EINTR])
        #expect(uninterrupted { number.number() } == 7)
        #expect(number.count == 3)
    }

    @Test("any other failure is returned with its error number")
    func others() {
        let number = Call([EINTR, EIO])
        #expect(uninterrupted { number.number() } == -1)
        #expect(errno == EIO)
        #expect(number.count == 2)
    }
}
