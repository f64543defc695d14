import Glibc

/// Caches values by request template, so that a repeated request is not parsed. Storing a value evicts the value of
/// another template with the same slot.
struct RequestCache<Value> {
    /// A template and its value.
    final class Entry {
        let value: Value
        /// The text before the id, the text after it, and the payload. They share one allocation, so that comparing and
        /// writing them needs no reference counting.
        private let bytes: UnsafeMutableRawBufferPointer
        private let headCount: Int
        private let restCount: Int

        fileprivate init(_ template: RequestTemplate, _ value: Value, payload: ArraySlice<UInt8>) {
            self.value = value
            (headCount, restCount) = (template.head.count, template.rest.count)
            bytes = .allocate(byteCount: headCount + restCount + payload.count, alignment: 1)
            bytes.copyBytes(from: template.head)
            UnsafeMutableRawBufferPointer(rebasing: bytes[headCount...]).copyBytes(from: template.rest)
            UnsafeMutableRawBufferPointer(rebasing: bytes[(headCount + restCount)...]).copyBytes(from: payload)
        }

        deinit { bytes.deallocate() }

        func matches(_ template: RequestTemplate) -> Bool {
            guard headCount == template.head.count, restCount == template.rest.count, let known = bytes.baseAddress,
                let head = template.head.baseAddress, let rest = template.rest.baseAddress
            else { return false }
            return memcmp(known + headCount, rest, restCount) == 0 && memcmp(known, head, headCount) == 0
        }

        /// The bytes that were stored with the value. Valid while the entry exists.
        var payload: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: bytes[(headCount + restCount)...]) }
    }

    private var entries: [Entry?]

    /// - Parameter slots: a power of two
    init(slots: Int) { entries = [Entry?](repeating: nil, count: slots) }

    /// The number of values.
    var count: Int { entries.count { $0 != nil } }

    /// The entry in the slot of a template. It may belong to another template; check with ``Entry/matches(_:)``.
    func occupant(of template: RequestTemplate) -> Entry? { entries[template.slot(of: entries.count)] }

    /// Stores a value and its payload.
    /// - Returns: the entry that was replaced, if any
    @discardableResult
    mutating func store(_ value: Value, payload: ArraySlice<UInt8> = [], for template: RequestTemplate) -> Entry? {
        let slot = template.slot(of: entries.count)
        let previous = entries[slot]
        entries[slot] = Entry(template, value, payload: payload)
        return previous
    }

    /// Empties the slot of a template.
    mutating func removeOccupant(of template: RequestTemplate) { entries[template.slot(of: entries.count)] = nil }

    /// Removes the values for which a predicate holds.
    mutating func removeAll(where isRemoved: (Value) -> Bool) {
        for slot in entries.indices where entries[slot].map({ isRemoved($0.value) }) ?? false { entries[slot] = nil }
    }
}
