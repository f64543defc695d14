import LarderHTTPSemantics
import Testing

@Suite("Freshness of responses")
struct ResponseFreshnessTests {
    @Test("the function that formats dates for these tests is correct")
    func dates() {
        let here = HTTPDate(secondsSinceEpoch: Int64(now))
        #expect(date(0) == "Sun, 06 Nov 1994 08:49:37 GMT")
        for offset in [0, -100_000, 86_400, -5 * 86_400] {
            #expect(HTTPDate(parsing: date(offset), now: here)?.secondsSinceEpoch == Int64(now + offset))
        }
    }

    @Test("the lifetime is max-age, else Expires minus Date, else heuristic")
    func lifetime() {
        func check(_ fields: [(String, String)], _ lifetime: Int, _ basis: ResponseFreshness.Basis, line: Int = #line) {
            let result = freshness(fields)
            #expect(result.lifetime == lifetime, "line \(line)")
            #expect(result.basis == basis, "line \(line)")
        }
        check([("Cache-Control", "max-age=60"), ("Expires", date(500))], 60, .maximumAge)
        check([("Cache-Control", "public"), ("cache-control", "max-age=60")], 60, .maximumAge)
        check([("Cache-Control", "s-maxage=9"), ("Expires", date(500)), ("Date", date(0))], 500, .expires)
        check([("Expires", date(500))], 500, .expires)
        // The clock of the origin is ahead. Only the difference between its two dates counts.
        check([("Expires", date(1100)), ("Date", date(1000))], 100, .expires)
        check([("Expires", date(-1)), ("Date", date(0))], 0, .expires)
        check([("Expires", "0"), ("Last-Modified", date(-1000))], 0, .expires)
        check([("Expires", "-1")], 0, .expires)
        check([("Expires", "Thu 18 Aug 2050 2:01:18 GMT")], 0, .expires)
        check([("Expires", "Thu, 31 Feb 2050 02:01:18 GMT")], 0, .expires)
        check([("Expires", date(50).uppercased())], 50, .expires)
        check([("Expires", date(50)), ("Expires", date(500))], 50, .expires)
        check([("Expires", date(50)), ("Date", "yesterday")], 50, .expires)
        check([("Last-Modified", date(-1000)), ("Date", date(0))], 100, .heuristic)
        check([("Last-Modified", date(-1009))], 100, .heuristic)
        check([("Last-Modified", "Sun, 06 Nov 1983 08:49:37 GMT")], 86_400, .heuristic)
        check([("Last-Modified", date(10))], 0, .none)
        check([("Last-Modified", date(0))], 0, .none)
        check([("Last-Modified", "once")], 0, .none)
        check([("ETag", "\"1\"")], 0, .none)
        check([("Cache-Control", "max-age=x"), ("Expires", date(500))], 0, .maximumAge)
    }

    @Test("the initial age is the larger of two values: the age by Date, and Age plus the duration of the request")
    func initialAge() {
        #expect(freshness([]).initialAge == 0)
        #expect(freshness([("Date", date(-30))]).initialAge == 30)
        #expect(freshness([("Date", date(30))]).initialAge == 0)
        #expect(freshness([("Age", "100")]).initialAge == 100)
        #expect(freshness([("Age", "100")], requestTime: now - 7).initialAge == 107)
        #expect(freshness([("Age", "100"), ("Date", date(-300))], requestTime: now - 7).initialAge == 300)
        #expect(freshness([], requestTime: now - 7).initialAge == 7)
        // The clock was set back during the request.
        #expect(freshness([("Age", "100")], requestTime: now + 50).initialAge == 100)
        for (text, age) in [("10, 20", 10), ("-5", 0), ("soon", 0), ("1.5", 0), ("", 0), (" 10 ", 10)] {
            #expect(freshness([("Age", text)]).initialAge == age)
        }
        #expect(freshness([("Age", "20"), ("Age", "10")]).initialAge == 20)
        #expect(freshness([("Age", "99999999999999999999")]).initialAge == 1 << 31)
    }

    @Test("the age grows with the clock and never falls below the initial age")
    func currentAge() {
        let fresh = freshness([("Age", "10"), ("Cache-Control", "max-age=60")])
        #expect(fresh.age(at: now) == 10)
        #expect(fresh.age(at: now + 49) == 59)
        #expect(fresh.remaining(at: now + 49) == 1)
        #expect(fresh.remaining(at: now + 51) == -1)
        #expect(fresh.age(at: now - 1000) == 10)
        #expect(fresh.age(at: .max) > 1 << 39)
        #expect(fresh.age(at: .min) == 10)
    }

    @Test("a response from the future is stale, because its age is unknown")
    func future() {
        let fresh = freshness([("Cache-Control", "max-age=60")])
        #expect(fresh.remaining(at: now) == 60)
        #expect(fresh.remaining(at: now - 1) == 0)
        #expect(fresh.remaining(at: now - 7200) == 0)
        #expect(freshness([("Cache-Control", "max-age=60"), ("Age", "100")]).remaining(at: now - 1) == -40)
    }

    @Test("extreme dates do not overflow")
    func extremes() {
        let far = response(
            [("Date", "Fri, 31 Dec 9999 23:59:59 GMT"), ("Expires", "Sat, 01 Jan 0000 00:00:00 GMT")],
            requestTime: .min, responseTime: .max)
        #expect(ResponseFreshness(far).lifetime == 0)
        let long = response([("Expires", "Fri, 31 Dec 9999 23:59:59 GMT")])
        #expect(ResponseFreshness(long).lifetime == 1 << 31)
    }

    @Test("the freshness data of a cached response take at most 32 bytes")
    func size() { #expect(MemoryLayout<ResponseFreshness>.stride <= 32) }

    @Test("a response is stored only if its status is 200 or 203 and its fields permit it")
    func storing() {
        #expect(response([]).reasonNotToStore == nil)
        #expect(response([], status: 203).reasonNotToStore == nil)
        #expect(response([("Cache-Control", "private, max-age=5")]).reasonNotToStore == nil)
        #expect(response([("Cache-Control", "no-cache")]).reasonNotToStore == nil)
        for status in [206, 204, 301, 404, 500] { #expect(response([], status: status).reasonNotToStore != nil) }
        #expect(response([("Cache-Control", "max-age=5, no-store")]).reasonNotToStore != nil)
        #expect(response([("Cache-Control", "must-understand, no-store")]).reasonNotToStore == nil)
        #expect(response([("Vary", "*")]).reasonNotToStore != nil)
        #expect(response([("Vary", "*"), ("ETag", "\"1\"")]).reasonNotToStore == nil)
    }

    @Test("only a strong entity tag permits resuming an interrupted body")
    func strongTags() {
        #expect(response([("ETag", "\"1\"")]).strongTag == "\"1\"")
        for tag in ["W/\"1\"", "1", "", "\""] { #expect(response([("ETag", tag)]).strongTag == nil) }
        #expect(response([("Last-Modified", date(-1000))]).strongTag == nil)
    }
}
