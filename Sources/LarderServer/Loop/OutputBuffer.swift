import LarderJSON

/// The output of the connection that is being served; empty between two of them. All connections of an event loop share it.
struct OutputBuffer {
    private static let capacity = 64 * 1024
    /// Memory for an unusually large reply is freed.
    private static let maxKeptCapacity = 512 * 1024

    var writer = JSONWriter(reservingCapacity: Self.capacity)
    /// The file whose descriptor travels with the first byte.
    var file: PassedFile?

    mutating func clear() {
        file = nil
        if writer.bytes.capacity > Self.maxKeptCapacity {
            writer = JSONWriter(reservingCapacity: Self.capacity)
        } else {
            writer.removeAll()
        }
    }
}
