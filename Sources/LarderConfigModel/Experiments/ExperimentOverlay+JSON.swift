package import LarderJSON

extension ExperimentOverlay {
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
            do throws(Wrong) {
                let overlay = try ExperimentOverlay(element)
                if overlays.contains(where: { $0.name == overlay.name }) {
                    throw Wrong("has the name of another overlay, \"\(overlay.name)\"; each needs its own")
                }
                overlays.append(overlay)
            } catch {
                throw Problem(index: index, reason: error.reason)
            }
        }
        return overlays
    }

    /// The problem of a single overlay.
    private struct Wrong: Error {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static let known = ["name", "salt", "percentage", "units", "values"]

    private init(_ value: JSONValue) throws(Wrong) {
        guard value.kind == .object else {
            throw Wrong("must be an object with \"name\", \"percentage\" or \"units\", and \"values\"")
        }
        if let stranger = value.members.first(where: { !Self.known.contains($0.name) }) {
            let names = Self.known.map { "\"\($0)\"" }.joined(separator: ", ")
            throw Wrong("has the member \"\(stranger.name)\", which is not known; known are \(names)")
        }
        guard let name = value["name"]?.string, !name.isEmpty, name.utf8.count <= 128 else {
            throw Wrong("needs \"name\", a text of at most 128 bytes")
        }
        if let salt = value["salt"], salt.kind != .string { throw Wrong("must have a string for \"salt\"") }
        guard let values = value["values"], values.kind == .object else {
            throw Wrong("needs \"values\", an object of what the overlay says")
        }
        let (share, units) = (try Self.share(value["percentage"]), try Self.units(value["units"]))
        if share == nil, units == nil {
            throw Wrong("needs \"percentage\" or \"units\", which say what hosts it is for")
        }
        self.init(
            name: name, salt: value["salt"]?.string, share: share, units: units ?? [], values: values.detached())
    }

    private static func share(_ value: JSONValue?) throws(Wrong) -> Share? {
        guard let value else { return nil }
        let ends = value.kind == .array ? value.elements.map(\.double) : [0, value.double]
        guard ends.count == 2, let from = ends[0], let to = ends[1], let share = Share(from: from, to: to) else {
            throw Wrong("must have a number from 0 to 100 for \"percentage\", or two such as in [25, 50]")
        }
        return share
    }

    private static func units(_ value: JSONValue?) throws(Wrong) -> Set<String>? {
        guard let value else { return nil }
        let units = value.elements.compactMap(\.string)
        guard value.kind == .array, units.count == value.count else {
            throw Wrong("must have an array of strings for \"units\"")
        }
        return Set(units)
    }
}
