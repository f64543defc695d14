extension JSONValue: CustomStringConvertible {
    /// The size of the text in bytes.
    package var textSize: Int { withTextBytes { $0.count } }

    /// Whether the text that ``withTextBytes(_:)`` hands over is ``compactBytes`` already, and that of every value in it.
    public var isCompact: Bool { entry.has(Node.Flag.clean) }

    /// The value as compact JSON: no whitespace between tokens, of duplicate members only the one that counts. Strings
    /// and numbers stay as they were written.
    public var compactBytes: [UInt8] {
        if isCompact { return withTextBytes { [UInt8]($0) } }
        var writer = JSONWriter(reservingCapacity: Int(entry.length))
        writer.value(self)
        return writer.bytes
    }

    /// `compactBytes` as text.
    public var compactText: String {
        if isCompact { return withTextBytes { String(decoding: $0, as: UTF8.self) } }
        return String(decoding: compactBytes, as: UTF8.self)
    }

    public var description: String { compactText }
}

extension JSONValue {
    /// What the document that this value is part of takes in memory, its tape and tables included, in bytes: whoever keeps the
    /// value keeps all of it.
    package var documentMemory: Int {
        let storage = document.storage.pointee
        return storage.textCapacity + storage.nodeCapacity * MemoryLayout<Node>.stride
            + storage.slotCapacity * MemoryLayout<UInt32>.stride
    }
}
