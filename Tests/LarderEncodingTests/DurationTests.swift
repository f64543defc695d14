import LarderEncoding
import Testing

@Suite("Durations as integers")
struct DurationTests {
    @Test("milliseconds are rounded up")
    func milliseconds() {
        #expect(Duration.zero.milliseconds == 0)
        #expect(Duration.seconds(3).milliseconds == 3000)
        #expect(Duration.nanoseconds(1).milliseconds == 1)
        #expect(Duration.microseconds(1000).milliseconds == 1)
        #expect(Duration.microseconds(1001).milliseconds == 2)
        #expect(Duration.milliseconds(-1).milliseconds == -1)
    }

    @Test("nanoseconds are rounded towards zero")
    func nanoseconds() {
        #expect(Duration.zero.wholeNanoseconds == 0)
        #expect(Duration(secondsComponent: 1, attosecondsComponent: 1_999_999_999).wholeNanoseconds == 1_000_000_001)
        #expect(Duration.nanoseconds(-7).wholeNanoseconds == -7)
    }

    @Test("a duration that is out of range becomes the nearest integer")
    func extremes() {
        #expect(Duration.seconds(Int64.max).milliseconds == .max)
        #expect(Duration.seconds(Int64.min).milliseconds == .min)
        #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
        #expect(Duration.seconds(Int64.min).wholeNanoseconds == .min)
    }
}
