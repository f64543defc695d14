import Crypto
package import LarderJSON

/// Values for a part of all units (hosts, mostly), such as one arm of an experiment.
package struct ExperimentOverlay: Sendable, Equatable {
    /// A part of all units.
    ///
    /// Each unit has a place between 0 and 100, which depends on the salt and the unit alone: the first eight bytes,
    /// as a big-endian number divided by 2⁶⁴ and multiplied by 100, of the SHA-256 of the salt's UTF-8, a zero byte
    /// and the unit's. So shares of one salt that do not overlap have no unit in common, and shares of two salts
    /// are independent of each other.
    package struct Share: Sendable, Equatable {
        /// The first place that belongs to it, in percent.
        package let from: Double
        /// The first place behind it, in percent.
        package let to: Double

        /// Makes it; nil where `0 <= from <= to <= 100` does not hold.
        package init?(from: Double = 0, to: Double) {
            guard 0 <= from, from <= to, to <= 100 else { return nil }
            self.from = from
            self.to = to
        }

        /// Whether a unit is among them.
        package func contains(_ unit: String, salt: String) -> Bool {
            var hash = SHA256()
            hash.update(data: Array(salt.utf8) + [0] + Array(unit.utf8))
            let place = hash.finalize().prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
            return place >= Self.place(from) ?? .max && Self.place(to).map { place < $0 } ?? (from < 100)
        }

        /// A percentage as a place among 2⁶⁴, for all who compare with it the same; nil for the end, 100 %.
        private static func place(_ percentage: Double) -> UInt64? {
            percentage < 100 ? UInt64(percentage / 100 * 0x1p64) : nil
        }
    }

    /// The name that tells it from others, and that provenance shows.
    package var name: String
    /// What decides, together with the unit, who is in ``share``. Arms of one experiment have the same.
    package var salt: String
    /// The units by their part; nil for none but ``units``.
    package var share: Share?
    /// Units that are in it in any case.
    package var units: Set<String>
    /// What it says: a merge patch over all layers below, an object.
    package var values: JSONValue

    /// Makes it.
    /// - Parameter salt: nil for the name.
    package init(name: String, salt: String? = nil, share: Share?, units: Set<String> = [], values: JSONValue) {
        self.name = name
        self.salt = salt ?? name
        self.share = share
        self.units = units
        self.values = values
    }

    /// Whether a unit is in it.
    package func includes(_ unit: String) -> Bool {
        units.contains(unit) || share?.contains(unit, salt: salt) ?? false
    }
}
