import Glibc
import LarderPlatform
import Testing

@Suite("System calls that a signal interrupts")
struct UninterruptedCallTests {
    /// A call that fails with these numbers, one after the other, and succeeds then.
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

    @Test("they are made again until none does")
    func again() {
        let (number, text) = (Call([EINTR, EINTR]), Call([EINTR]))
        #expect(uninterrupted { number.number() } == 7)
        #expect(number.count == 3)
        #expect(uninterrupted { text.text() } == "7")
        #expect(text.count == 2)
    }

    @Test("any other failure is the caller's, with its number")
    func others() {
        let (number, text) = (Call([EINTR, EIO]), Call([ENOENT]))
        #expect(uninterrupted { number.number() } == -1)
        #expect(errno == EIO)
        #expect(uninterrupted { text.text() } == nil)
        #expect(errno == ENOENT)
        #expect((number.count, text.count) == (2, 1))
    }
}
