import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Experiment membership")
struct ExperimentTests {
    /// The host names of a fleet. They are constant, so that the results are deterministic.
    private static let units = (0..<20_000).map { "host-\($0).example.org" }

    private func overlay(_ salt: String, _ from: Double, _ to: Double) -> ExperimentOverlay {
        let share = ExperimentOverlay.Share(from: from, to: to)
        precondition(share != nil, "invalid share")
        return ExperimentOverlay(name: salt, share: share, values: .emptyObject)
    }

    /// The accepted deviation of a count from its expected value: five standard deviations of a binomial distribution.
    /// A fair draw exceeds it once in 1.7 million times.
    private func bound(_ count: Int, _ probability: Double) -> Double {
        5 * (Double(count) * probability * (1 - probability)).squareRoot()
    }

    @Test("the position of a unit is computed from the SHA-256 of salt and unit")
    func place() throws {
        // printf 'color\0till-7' | sha256sum: 7d36c1a697fe3f31…, and 0x7d36c1a6 / 2^32 is 48.9 %.
        let place = 100.0 * Double(0x7d36_c1a6) / 0x1p32
        #expect(overlay("color", place - 0.001, place + 0.001).includes("till-7"))
        #expect(!overlay("color", place + 0.001, 100).includes("till-7"))
        #expect(!overlay("color", 0, place - 0.001).includes("till-7"))
    }

    @Test("the size of a share matches its percentage", arguments: [0.1, 1, 5, 25, 50, 90, 99.9])
    func shares(percentage: Double) throws {
        for salt in ["color", "search", "checkout-2"] {
            let overlay = overlay(salt, 0, percentage)
            let members = Self.units.count { overlay.includes($0) }
            let expected = Double(Self.units.count) * percentage / 100
            #expect(abs(Double(members) - expected) <= bound(Self.units.count, percentage / 100), "\(salt): \(members)")
        }
    }

    @Test("a share of 0 % includes no unit, a share of 100 % includes every unit, and an invalid share is nil")
    func ends() throws {
        #expect(!Self.units.contains(where: overlay("s", 0, 0).includes))
        #expect(Self.units.allSatisfy(overlay("s", 0, 100).includes))
        #expect(!Self.units.contains(where: overlay("s", 100, 100).includes))
        #expect(ExperimentOverlay.Share(from: 0, to: 100.1) == nil)
        #expect(ExperimentOverlay.Share(from: 5, to: 4) == nil)
        #expect(ExperimentOverlay.Share(from: -1, to: 4) == nil)
        #expect(ExperimentOverlay.Share(to: .nan) == nil)
    }

    @Test("adjacent shares with the same salt assign every unit to exactly one arm")
    func arms() throws {
        let ends = [0, 12.5, 33.3, 66.6, 99.99, 100]
        let arms = zip(ends, ends.dropFirst()).map { overlay("color", $0, $1) }
        for unit in Self.units { #expect(arms.count { $0.includes(unit) } == 1) }
    }

    @Test("a larger share includes all units of a smaller one")
    func growth() throws {
        let (small, large) = (overlay("rollout", 0, 5), overlay("rollout", 0, 20))
        for unit in Self.units where small.includes(unit) { #expect(large.includes(unit)) }
    }

    @Test("experiments with different salts are pairwise independent")
    func independence() throws {
        let salts = ["color", "search", "checkout", "checkout-2", "", "colo", "r"]
        let halves = salts.map { overlay($0, 0, 50) }
        let thirds = salts.map { overlay($0, 20, 50) }
        let inHalf = halves.map { overlay in Self.units.map(overlay.includes) }
        let inThird = thirds.map { overlay in Self.units.map(overlay.includes) }
        for first in salts.indices {
            for second in salts.indices where first != second {
                let both = zip(inHalf[first], inThird[second]).count { $0 && $1 }
                #expect(
                    abs(Double(both) - Double(Self.units.count) * 0.15) <= bound(Self.units.count, 0.15),
                    "\(salts[first]) and \(salts[second]): \(both)")
            }
        }
    }

    @Test("the hash of salt and unit distinguishes pairs with the same concatenation")
    func separation() throws {
        // Without a separator, "a" + "bc" and "ab" + "c" would have the same hash.
        let places = [("a", "bc"), ("ab", "c"), ("abc", "")].map { salt, unit in
            (0..<1000).first { overlay(salt, Double($0) / 10, Double($0 + 1) / 10).includes(unit) }
        }
        #expect(Set(places).count == 3)
    }

    @Test("listed units are included regardless of the share")
    func listed() throws {
        let none = ExperimentOverlay(name: "lab", share: nil, units: ["till-7"], values: .emptyObject)
        #expect(none.includes("till-7") && !none.includes("till-8"))
        let some = ExperimentOverlay(name: "lab", share: .init(to: 0), units: ["till-7"], values: .emptyObject)
        #expect(some.includes("till-7") && !some.includes("till-8"))
    }

    @Test("names and units are compared as bytes")
    func bytes() throws {
        let some = ExperimentOverlay(name: "lab", share: nil, units: ["caf\u{e9}"], values: .emptyObject)
        #expect(some.includes("caf\u{e9}") && !some.includes("cafe\u{301}"))
        let list =
            #"[{"name": "caf\u00e9", "units": [], "values": {}}, {"name": "cafe\u0301", "units": [], "values": {}}]"#
        #expect(try ExperimentOverlay.all(in: JSONValue(parsing: list)).count == 2)
    }

    @Test("versions with different bytes are different")
    func versions() {
        #expect(UpstreamVersion("caf\u{e9}") != UpstreamVersion("cafe\u{301}"))
        #expect(UpstreamVersion("caf\u{e9}") == UpstreamVersion("caf\u{e9}"))
    }
}
