import LarderDigest
package import LarderJSON

/// Values for a share of all units, such as one arm of an experiment. A unit is usually a host.
package struct ExperimentOverlay: Sendable, Equatable {
    /// A share of all units.
    ///
    /// The position of a unit is at least 0 and less than 100 and depends only on the salt and the unit. It is the
    /// first eight bytes of the SHA-256 of the salt, a zero byte and the unit, both in UTF-8, as a big-endian number,
    /// divided by 2⁶⁴ and multiplied by 100. Shares with the same salt that do not overlap have no unit in common.
    /// Shares with different salts are independent of each other.
    package struct Share: Sendable, Equatable {
        /// The first position in the share, in percent.
        package let from: Double
        /// The first position after the share, in percent.
        package let to: Double

        /// Returns nil unless `0 <= from <= to <= 100`.
        package init?(from: Double = 0, to: Double) {
            guard 0 <= from, from <= to, to <= 100 else { return nil }
            self.from = from
            self.to = to
        }

        /// Whether the position of a unit is in the share.
        package func contains(_ unit: String, salt: String) -> Bool {
            var hash = SHA256()
            hash.update(Array(salt.utf8) + [0] + Array(unit.utf8))
            let place = hash.finalize().prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
            return place >= Self.place(from) ?? .max && Self.place(to).map { place < $0 } ?? (from < 100)
        }

        /// Converts a percentage to a position in `0..<2⁶⁴`, so that all comparisons round alike. Nil for 100 %, the
        /// end.
        private static func place(_ percentage: Double) -> UInt64? {
            percentage < 100 ? UInt64(percentage / 100 * 0x1p64) : nil
        }
    }

    /// The name of the overlay. It is unique in its list, and explanations of a value show it.
    @ComparedAsBytes package var name: String
    /// The text that determines a unit's position, together with the unit. The arms of one experiment have the same
    /// salt.
    @ComparedAsBytes package var salt: String
    /// The share of units to include; nil to include only ``units``.
    package var share: Share?
    /// Units that are always included.
    package var units: Set<ExactText>
    /// A merge patch that is applied over all lower layers. It is an object.
    package var values: JSONValue

    /// - Parameter salt: nil to use the name
    package init(name: String, salt: String? = nil, share: Share?, units: [String] = [], values: JSONValue) {
        self.name = name
        self.salt = salt ?? name
        self.share = share
        self.units = Set(units.map(ExactText.init))
        self.values = values
    }

    package func includes(_ unit: String) -> Bool {
        units.contains(ExactText(unit)) || share?.contains(unit, salt: salt) ?? false
    }
}
