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

    /// Why a list of overlays is invalid.
    package struct Problem: Error, Sendable, Equatable {
        /// The index of the invalid element; nil if the list itself is invalid.
        package let index: Int?
        /// The problem and the expected form, as the predicate of a sentence about the element. It contains none of the
        /// overlay's values.
        package let reason: String
    }

    /// Reads a list of overlays from the settings or a remote document.
    ///
    /// An unknown member is an error: an agent that ignored a condition it does not know would put the wrong hosts into
    /// an experiment.
    package static func all(in list: JSONValue) throws(Problem) -> [ExperimentOverlay] {
        guard list.kind == .array else { throw Problem(index: nil, reason: "must be an array of overlays") }
        var overlays: [ExperimentOverlay] = []
        for (index, element) in list.elements.enumerated() {
            do throws(Invalid) {
                let overlay = try ExperimentOverlay(element)
                if overlays.contains(where: { $0.name.isSpelled(as: overlay.name) }) {
                    throw Invalid("has the same name as another overlay, \"\(overlay.name)\"; use unique names")
                }
                overlays.append(overlay)
            } catch {
                throw Problem(index: index, reason: error.reason)
            }
        }
        return overlays
    }

    /// The problem of a single overlay.
    private struct Invalid: Error {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static let known = ["name", "salt", "percentage", "units", "values"]

    private init(_ value: JSONValue) throws(Invalid) {
        guard value.kind == .object else {
            throw Invalid("must be an object with \"name\", \"percentage\" or \"units\", and \"values\"")
        }
        if let unknownMember = value.members.first(where: { !Self.known.contains($0.name) }) {
            let names = Self.known.map { "\"\($0)\"" }.joined(separator: ", ")
            throw Invalid("has the unknown member \"\(unknownMember.name)\"; known members: \(names)")
        }
        guard let name = value["name"]?.string, !name.isEmpty, name.utf8.count <= 128 else {
            throw Invalid("must have \"name\", a string of 1 to 128 bytes")
        }
        if let salt = value["salt"], salt.kind != .string { throw Invalid("must have a string as \"salt\"") }
        guard let values = value["values"], values.kind == .object else {
            throw Invalid("must have \"values\", an object")
        }
        let (share, units) = (try Self.share(value["percentage"]), try Self.units(value["units"]))
        if share == nil, units == nil {
            throw Invalid("must have \"percentage\" or \"units\", which select the hosts")
        }
        self.init(
            name: name, salt: value["salt"]?.string, share: share, units: units ?? [], values: values.detached())
    }

    private static func share(_ value: JSONValue?) throws(Invalid) -> Share? {
        guard let value else { return nil }
        let ends = value.kind == .array ? value.elements.map(\.double) : [0, value.double]
        guard ends.count == 2, let from = ends[0], let to = ends[1], let share = Share(from: from, to: to) else {
            throw Invalid("must have a number from 0 to 100 as \"percentage\", or a range such as [25, 50]")
        }
        return share
    }

    private static func units(_ value: JSONValue?) throws(Invalid) -> [String]? {
        guard let value else { return nil }
        let units = value.elements.compactMap(\.string)
        guard value.kind == .array, units.count == value.count else {
            throw Invalid("must have an array of strings as \"units\"")
        }
        return units
    }
}
