import LarderHTTPSemantics
import Testing

@Suite("HTTP dates")
struct HTTPDateTests {
    private let now = HTTPDate(secondsSinceEpoch: 1_700_000_000)

    @Test(
        "all three date formats of RFC 9110 are parsed",
        arguments: [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        ])
    func forms(_ text: String) {
        #expect(HTTPDate(parsing: text, now: now)?.secondsSinceEpoch == 784_111_777)
    }

    @Test(
        "leap days and ends of centuries are correct",
        arguments: [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400), ("Fri, 31 Dec 1999 23:59:60 GMT", 946_684_800),
            ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
        ])
    func calendar(_ text: String, _ seconds: Int64) {
        #expect(HTTPDate(parsing: text, now: now)?.secondsSinceEpoch == seconds)
    }

    @Test(
        "names of days and months match in any letter case",
        arguments: [
            "sun, 06 NOV 1994 08:49:37 gMT", "SUNDAY, 06-nov-94 08:49:37 Gmt", "SUN NOV  6 08:49:37 1994",
        ])
    func letterCase(_ text: String) {
        #expect(HTTPDate(parsing: text, now: now)?.secondsSinceEpoch == 784_111_777)
    }

    @Test(
        "a date that does not match the grammar is invalid",
        arguments: [
            "Thu 18 Aug 2050 2:01:18 GMT", "Thu, 18 Aug 2050 2:01:18 GMT", "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu,  18 Aug 2050 02:01:18 GMT", "Thu, 18  Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18  GMT",
            " Thu, 18 Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 02:01:18 GMT ", "Thu,18 Aug 2050 02:01:18 GMT",
            "Thu, 8 Aug 2050 02:01:18 GMT", "Thu, 18-Aug-2050 02:01:18 GMT", "Thu, 18 August 2050 02:01:18 GMT",
            "Thursday, 18 Aug 2050 02:01:18 GMT", "Thu, 18-Aug-50 02:01:18 GMT", "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 02:01:18 UTC", "Thu, 18 Aug 2050 02:01:18 +0000", "18 Aug 2050 02:01:18 GMT",
            "Xyz, 18 Aug 2050 02:01:18 GMT", "Thu, 31 Feb 2050 02:01:18 GMT", "Thu, 29 Feb 2023 00:00:00 GMT",
            "Thu, 31 Apr 2050 02:01:18 GMT", "Thu, 00 Aug 2050 02:01:18 GMT", "Thu, 18 Aug 2050 02:61:18 GMT",
            "Sun Nov 6 08:49:37 1994", "Sun Nov 006 08:49:37 1994", "Sun Nov  6 08:49:37 94",
            "Sunday, 6-Nov-94 08:49:37 GMT", "Sunday, 06 Nov 94 08:49:37 GMT", "Thu, 18 Aug 2050 02:01:18",
            "Thu, 18 Aug ٢050 02:01:18 GMT",
        ])
    func strictGrammar(_ text: String) {
        #expect(HTTPDate(parsing: text, now: now) == nil)
    }

    @Test(
        "a text that is not a date is invalid",
        arguments: [
            "", "0", "-1", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Now 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 6x Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
        ])
    func garbage(_ text: String) {
        #expect(HTTPDate(parsing: text, now: now) == nil)
    }

    @Test(
        "the delay of Retry-After is never negative and at most 30 days",
        arguments: [
            ("0", Duration.zero), (" 7", .seconds(7)), ("99999999999999999999999", RetryAfter.maxDelay),
            ("Sun, 06 Nov 1994 08:49:37 GMT", .zero),
        ])
    func retryAfter(_ text: String, _ expected: Duration) {
        #expect(RetryAfter.duration(text, date: nil, now: now) == expected)
    }

    @Test("a Retry-After that is neither a number nor a date is ignored", arguments: ["", "-5", "soon", "1.5"])
    func nonsense(_ text: String) {
        #expect(RetryAfter.duration(text, date: nil, now: now) == nil)
    }
}
